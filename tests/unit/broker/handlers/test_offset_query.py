"""Proves that queues tell where they begin and end, and where a time lies in them, as Java's do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.handlers.offset_query import ROUTES
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from unit.broker.pull_rig import START_MS, PullRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[PullRig]:
    rig = PullRig(tmp_path)
    for second in range(5):
        rig.now_ms = START_MS + 1_000 * second
        rig.send(1)
    yield rig
    rig.close()


def ask(rig: PullRig, code: RequestCode, topic: str = "T", **more: str) -> dict[str, str] | None:
    request = Command(code, {"topic": topic, "queueId": "0", **more})
    answer = ROUTES[code](rig.context, rig.connection.as_connection, request)
    assert isinstance(answer, Command)
    assert (answer.code, answer.remark) == (0, None)
    return answer.ext


@pytest.mark.parametrize(
    ("after_ms", "boundary", "offset"),
    [
        (-1, {}, "0"),
        (1_000, {}, "1"),
        (1_001, {}, "2"),
        (1_001, {"boundaryType": "lower"}, "2"),
        (1_001, {"boundaryType": "UPPER"}, "1"),
        (9_000, {}, "5"),
        (9_000, {"boundaryType": "UPPER"}, "4"),
        (-1, {"boundaryType": "UPPER"}, "0"),
    ],
)
def test_a_time_is_found_between_messages_by_either_side(
    rig: PullRig, after_ms: int, boundary: dict[str, str], offset: str
) -> None:
    code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    found = ask(rig, code, timestamp=str(START_MS + after_ms), **boundary)
    assert found == {"offset": offset}


def test_a_queue_tells_its_first_and_its_next_offset(rig: PullRig) -> None:
    queue = rig.store.queue("T", 0)
    assert queue is not None
    queue.queue_offset_min = 2
    assert ask(rig, RequestCode.GET_MIN_OFFSET) == {"offset": "2"}
    assert ask(rig, RequestCode.GET_MAX_OFFSET) == {"offset": "5"}
    assert ask(rig, RequestCode.GET_MAX_OFFSET, committed="false") == {"offset": "5"}


def test_a_queue_tells_when_its_first_message_was_stored(rig: PullRig) -> None:
    code = RequestCode.GET_EARLIEST_MSG_STORETIME
    assert ask(rig, code) == {"timestamp": str(START_MS)}
    queue = rig.store.queue("T", 0)
    assert queue is not None
    queue.queue_offset_min = 2
    assert ask(rig, code) == {"timestamp": str(START_MS + 2_000)}
    queue.queue_offset_min = 5
    assert ask(rig, code) == {"timestamp": "-1"}


def test_queues_and_topics_that_nobody_knows_are_empty_ones(rig: PullRig) -> None:
    for topic, queue_id in (("Nope", "0"), ("T", "3"), ("T", "-1"), ("../etc", "0")):
        more = {"queueId": queue_id}
        assert ask(rig, RequestCode.GET_MIN_OFFSET, topic, **more) == {"offset": "0"}
        assert ask(rig, RequestCode.GET_MAX_OFFSET, topic, **more) == {"offset": "0"}
        earliest = ask(rig, RequestCode.GET_EARLIEST_MSG_STORETIME, topic, **more)
        assert earliest == {"timestamp": "-1"}
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        assert ask(rig, code, topic, timestamp="0", **more) == {"offset": "0"}
