"""Proves that filters work no more in a turn of the loop than they may, and lose nothing by it."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from roketto.broker.filter_work import WAITING_MAX, FilterWork
from roketto.broker.filters import PARSING_UNITS
from roketto.broker.handlers.pull import ROUTES
from roketto.broker.wanted import ALL, WantedAgain, WantedBySql
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.protocol.limits import FILTER_BYTES_MAX
from roketto.protocol.properties import encode_properties
from roketto.protocol.record_layout import peek_properties
from roketto.protocol.sql import compile_filter
from roketto.store.errors import StoreError
from roketto.store.store import Store
from unit.broker.pull_rig import PullRig, offsets_of

TEXT = "age > 5"
YOUNG = encode_properties({"TAGS": "t", "age": "1"})
SUSPEND, SUBSCRIPTION = 2, 4


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[PullRig]:
    """One in which a turn may look at three messages."""
    rig = PullRig(tmp_path)
    let_look(rig, 3)
    yield rig
    rig.close()


def let_look(rig: PullRig, count: int) -> None:
    """Let a turn look at so many messages of the rig."""
    rig.send(1, queue_id=3, age="1")
    [record] = rig.store.get("T", 3, 0, 1).views
    rig.context.filters.compile("SQL92", TEXT)  # that is work, too, which is not counted here
    units = WantedBySql(compile_filter(TEXT)).work_of(peek_properties(record))
    rig.context.filters.work = FilterWork(units_per_turn=count * units, call_soon=rig._call_soon)


def pull(
    rig: PullRig, offset: int = 0, flag: int = SUBSCRIPTION, text: str = TEXT
) -> Command | None:
    ext = {
        "consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": str(offset),
        "maxMsgNums": "32", "sysFlag": str(flag), "commitOffset": "0", "subVersion": "0",
        "suspendTimeoutMillis": "15000", "subscription": text, "expressionType": "SQL92",
    }  # fmt: skip
    request = Command(RequestCode.PULL_MESSAGE, ext, opaque=offset)
    answer = ROUTES[RequestCode.PULL_MESSAGE](rig.context, rig.connection.as_connection, request)
    assert answer is None or isinstance(answer, Command)
    return answer


def told(answer: Command | None) -> tuple[int, int]:
    """Code and next offset."""
    assert answer is not None
    assert answer.ext is not None
    return answer.code, int(answer.ext["nextBeginOffset"])


def replies(rig: PullRig) -> list[tuple[int, int]]:
    """The same of the answers that came later."""
    found = [told(answer) for _, answer in rig.connection.replies]
    rig.connection.replies.clear()
    return found


FOUND, RETRY = 0, int(ResponseCode.PULL_RETRY_IMMEDIATELY)


# --- the work itself ------------------------------------------------------------------------------


def test_work_grows_with_the_expression_and_the_properties() -> None:
    assert ALL.work_of(YOUNG) == 0
    short, long = (WantedBySql(compile_filter(text)) for text in (TEXT, f"{TEXT} OR {TEXT}"))
    assert short.work_of(YOUNG) < short.work_of(YOUNG * 2)
    assert short.work_of(YOUNG) < long.work_of(YOUNG)
    longest = WantedBySql(compile_filter("a = '" + "x" * (FILTER_BYTES_MAX - 6) + "'"))
    again = WantedAgain(lambda topic: None)
    assert again.work_of(YOUNG) >= longest.work_of(YOUNG), "any filter may be meant"


def test_who_waits_has_its_turn_in_order_and_no_more_than_may_be() -> None:
    soon: list[Callable[[], None]] = []
    work = FilterWork(units_per_turn=10, call_soon=soon.append)
    work.spend(9)
    assert not work.is_used_up
    assert not soon
    work.spend(9)
    assert work.is_used_up
    had: list[int] = []

    def take_turn(number: int) -> None:
        had.append(number)
        work.spend(5)

    for number in range(5):
        work.wait(partial(take_turn, number))
    turns = []
    while soon:
        assert len(soon) == 1
        soon.pop()()
        turns.append(list(had))
    assert turns == [[0, 1], [0, 1, 2, 3], [0, 1, 2, 3, 4]]
    assert len(work) == 0
    assert not work.is_used_up


# --- pulls ----------------------------------------------------------------------------------------


def test_a_pull_says_how_far_it_came_with_what_it_found(rig: PullRig) -> None:
    rig.send(2, age="1")
    rig.send(1, age="7")
    rig.send(3, age="7")
    answer = pull(rig)
    assert answer is not None
    assert (told(answer), offsets_of(answer)) == ((FOUND, 3), [2])


def test_a_pull_that_found_nothing_yet_goes_on_where_it_stopped(rig: PullRig) -> None:
    rig.send(7, age="1")
    rig.send(1, age="7")
    seen = [told(pull(rig))]
    while seen[-1][0] == RETRY:
        rig.turn()
        seen.append(told(pull(rig, seen[-1][1])))
    assert seen == [(RETRY, 3), (RETRY, 6), (FOUND, 8)]


def test_pulls_of_one_turn_share_its_work_and_the_others_wait(rig: PullRig) -> None:
    """However many are sent at once; in between the loop does what others want."""
    rig.send(9, age="1")
    assert told(pull(rig)) == (RETRY, 3)
    assert [pull(rig, offset) for offset in (1, 2, 3)] == [None, None, None]
    assert replies(rig) == []
    for expected in [(RETRY, 4)], [(RETRY, 5)], [(RETRY, 6)]:
        rig.turn()
        assert replies(rig) == expected
    assert rig.context.stats.refusals[RequestCode.PULL_MESSAGE, RETRY] == 3
    rig.turn()
    assert told(pull(rig, 6)) == (RETRY, 9)


def test_tags_never_wait_for_filters(rig: PullRig) -> None:
    rig.send(9, age="1")
    pull(rig)
    assert pull(rig) is None
    request = Command(
        RequestCode.PULL_MESSAGE,
        {"consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": "0", "sysFlag": "4",
         "maxMsgNums": "32", "commitOffset": "0", "subVersion": "0", "suspendTimeoutMillis": "0",
         "subscription": "*"},
    )  # fmt: skip
    answer = ROUTES[RequestCode.PULL_MESSAGE](rig.context, rig.connection.as_connection, request)
    assert isinstance(answer, Command)
    assert told(answer) == (FOUND, 9)


def test_an_expression_is_not_even_parsed_before_its_turn(rig: PullRig) -> None:
    """Parsing is work, too; what is wrong with it is said when it is known."""
    rig.context.filters.work.spend(10**9)
    assert pull(rig, text="a >") is None
    while rig.soon:
        rig.turn()
    [(_, answer)] = rig.connection.replies
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    before = rig.context.filters.work._left
    pull(rig, text="a = 123")
    assert rig.context.filters.work._left == before - len("a = 123") * PARSING_UNITS


def test_a_pull_gets_on_though_its_expression_has_used_the_turn_up(rig: PullRig) -> None:
    rig.send(3, age="1")
    assert told(pull(rig, text=f"{TEXT} OR {TEXT}")) == (RETRY, 1)
    assert rig.context.filters.work.is_used_up


def test_too_many_that_wait_are_refused(rig: PullRig) -> None:
    for _ in range(WAITING_MAX):
        rig.context.filters.work.wait(lambda: None)
    with pytest.raises(RequestError, match="simplify the expressions") as refused:
        pull(rig)
    assert refused.value.code == ResponseCode.SYSTEM_BUSY


def test_nothing_is_done_for_a_client_that_has_gone(rig: PullRig) -> None:
    rig.send(3, age="1")
    pull(rig)
    assert pull(rig) is None
    rig.connection.end()
    rig.turn()
    assert not rig.context.filters.work.is_used_up
    assert replies(rig) == []


def test_a_failure_in_a_later_turn_is_answered(
    rig: PullRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.send(3, age="1")
    pull(rig)
    assert pull(rig) is None

    def fail(*_: object, **__: object) -> None:
        raise StoreError("the disk is on fire")

    monkeypatch.setattr(Store, "get", fail)
    rig.turn()
    [(_, answer)] = rig.connection.replies
    assert answer.code == ResponseCode.SYSTEM_ERROR


# --- pulls that are parked ------------------------------------------------------------------------


def test_arrivals_wake_whoever_may_want_them_when_the_work_is_used_up(rig: PullRig) -> None:
    """And find out in turns of their own: none of them passes by what it wants."""
    for _ in range(9):
        assert pull(rig, flag=SUBSCRIPTION | SUSPEND) is None
    rig.send(1, age="1")
    assert rig.context.filters.work.is_used_up
    rig.send(1, age="7")
    while rig.soon:
        rig.turn()
    answers = [answer for _, answer in rig.connection.replies]
    assert len(answers) == 9
    assert {told(answer) for answer in answers} <= {(FOUND, 2), (RETRY, 1)}
    assert [1] in [offsets_of(answer) for answer in answers]


def test_a_parked_pull_that_was_stopped_half_way_is_answered(rig: PullRig) -> None:
    """Parked again, it would look at the same messages for ever."""
    assert pull(rig, flag=SUBSCRIPTION | SUSPEND) is None
    let_look(rig, 9)
    rig.send(5, age="1")
    let_look(rig, 3)
    rig.polls.wake_all()
    rig.turn()
    assert replies(rig) == [(RETRY, 3)]


def test_a_parked_pull_whose_client_has_gone_costs_nothing(rig: PullRig) -> None:
    assert pull(rig, flag=SUBSCRIPTION | SUSPEND) is None
    rig.send(3, age="7")
    assert rig.soon
    rig.connection.end()
    while rig.soon:
        rig.turn()
    assert replies(rig) == []
    assert not rig.context.filters.work.is_used_up
