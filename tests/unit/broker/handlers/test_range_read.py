"""Proves that bulk reads return whole ranges, bounded, filtered, and refused by name."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.handlers import range_read
from roketto.broker.handlers.range_read import ROUTES
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.protocol.limits import FRAME_BYTES_MAX
from roketto.protocol.tags import tag_code
from unit.broker.pull_rig import PullRig, body_of, offsets_of


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[PullRig]:
    rig = PullRig(tmp_path, segment_bytes=1 << 20)
    yield rig
    rig.close()


def read(rig: PullRig, offset: int = 0, **more: str) -> Command:
    ext = {"topic": "T", "queueId": "0", "queueOffset": str(offset), **more}
    request = Command(RequestCode.READ_RANGE, ext, opaque=7)
    answer = ROUTES[RequestCode.READ_RANGE](rig.context, rig.connection.as_connection, request)
    assert isinstance(answer, Command)
    return answer


def refused(rig: PullRig, offset: int = 0, **more: str) -> RequestError:
    with pytest.raises(RequestError) as error:
        read(rig, offset, **more)
    return error.value


def test_one_answer_has_far_more_than_one_pull_would(rig: PullRig) -> None:
    rig.send(3_000)
    answer = read(rig, 10)
    assert (answer.code, answer.remark, answer.opaque) == (0, "FOUND", 7)
    assert offsets_of(answer) == list(range(10, 3_000))
    assert answer.ext == {
        "nextBeginOffset": "3000", "minOffset": "0", "maxOffset": "3000", "messageCount": "2990",
    }  # fmt: skip
    assert isinstance(answer.body, memoryview), "the log's own bytes"


def test_the_end_of_the_range_is_not_in_it(rig: PullRig) -> None:
    rig.send(100)
    answer = read(rig, 10, endOffset="20")
    assert offsets_of(answer) == list(range(10, 20))
    assert offsets_of(read(rig, 10, endOffset="1000"))[-1] == 99


def test_an_empty_range_is_refused(rig: PullRig) -> None:
    error = refused(rig, 5, endOffset="5")
    assert error.code == ResponseCode.INVALID_PARAMETER
    assert "endOffset 5 is not behind queueOffset 5" in error.reason


def test_bytes_bound_the_answer_but_never_keep_a_message_back(rig: PullRig) -> None:
    rig.send(100)
    size = len(body_of(read(rig, endOffset="1")))
    answer = read(rig, maxBytes=str(10 * size + 1))
    assert offsets_of(answer) == list(range(10))
    assert offsets_of(read(rig, 10, maxBytes="1")) == [10]
    assert offsets_of(read(rig, 10, maxBytes="-1")) == [10]


def test_no_answer_is_larger_than_a_frame(rig: PullRig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert range_read.BYTES_DEFAULT == 4 << 20
    assert range_read.BYTES_MAX < FRAME_BYTES_MAX
    monkeypatch.setattr(range_read, "BYTES_MAX", 1_000)
    rig.send(100)
    assert len(body_of(read(rig, maxBytes="2147483647"))) <= 1_000


def test_one_request_looks_at_so_many_messages_and_goes_on_there(
    rig: PullRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_read, "_UNITS_MAX", 50)
    rig.send(100, "a")
    answer = read(rig, 10, tagCodes=str(tag_code("b")))
    assert (answer.code, answer.remark) == (20, "NO_MATCHED_MESSAGE")
    assert answer.ext is not None
    assert (answer.ext["nextBeginOffset"], answer.ext["messageCount"]) == ("60", "0")


def test_tags_are_chosen_by_their_codes(rig: PullRig) -> None:
    for tag in "abcabc":
        rig.send(1, tag)
    codes = f"{tag_code('a')},{tag_code('c')}"
    assert offsets_of(read(rig, tagCodes=codes)) == [0, 2, 3, 5]
    assert offsets_of(read(rig, tagCodes="")) == list(range(6))


@pytest.mark.parametrize("codes", ["a", "1,", "1;2", "1" * 11, ",".join(["1"] * 1_025), "٣"])
def test_codes_that_are_none_are_refused_by_name(rig: PullRig, codes: str) -> None:
    error = refused(rig, tagCodes=codes)
    assert error.code == ResponseCode.INVALID_PARAMETER
    assert error.reason.startswith("tagCodes is ")
    assert len(error.reason) < 200


def test_messages_in_many_pieces_of_the_log_are_joined(rig: PullRig) -> None:
    for _ in range(10):
        rig.send(1)
        rig.send(1, queue_id=1)
    few = read(rig)
    assert (len(few.views), offsets_of(few)) == (10, list(range(10)))
    for _ in range(70):
        rig.send(1)
        rig.send(1, queue_id=1)
    many = read(rig)
    assert isinstance(many.body, bytes)
    assert offsets_of(many) == list(range(80))


def test_offsets_outside_the_queue_are_answered_as_pulls_are(rig: PullRig) -> None:
    assert read(rig).code == ResponseCode.PULL_NOT_FOUND
    rig.send(5)
    told = [(answer.code, answer.remark) for answer in (read(rig, 5), read(rig, 9))]
    assert told == [(19, "OFFSET_OVERFLOW_ONE"), (21, "OFFSET_OVERFLOW_BADLY")]


def test_a_group_is_counted_if_it_is_named(rig: PullRig) -> None:
    rig.send(5)
    read(rig)
    assert "T" not in rig.context.stats.topics or not rig.context.stats.topics["T"].groups
    read(rig, consumerGroup="spark")
    assert rig.context.stats.topics["T"].groups["spark"].get.count == 5


def test_what_may_not_be_read_is_refused_as_for_pulls(rig: PullRig) -> None:
    assert refused(rig, topic="Nope").code == ResponseCode.TOPIC_NOT_EXIST
    assert refused(rig, queueId="4").code == ResponseCode.INVALID_PARAMETER
    rig.context.topics.put(TopicConfig(topic_name="T", perm=2))
    answer = read(rig)
    assert (answer.code, answer.ext) == (ResponseCode.NO_PERMISSION, {"forbiddenType": "3"})
    rig.config.broker_permission = 2
    assert read(rig).ext == {"forbiddenType": "1"}
