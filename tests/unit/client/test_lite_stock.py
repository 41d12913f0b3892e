"""What was fetched ahead is handed out in order and in turn, and its bounds are kept."""

import pytest

from roketto.client.lite_limits import LiteLimits
from roketto.client.lite_stock import Shelf, Stock
from roketto.client.received import ReceivedMessage
from roketto.protocol.record import Record


def messages(*offsets: int, queue_id: int = 0, size: int = 10) -> list[ReceivedMessage]:
    return [
        ReceivedMessage(Record("T", b"x" * size, queue_id=queue_id, queue_offset=offset), "b")
        for offset in offsets
    ]


def taken(stock: Stock, count: int) -> list[tuple[int, int]]:
    return [(message.queue_id, message.queue_offset) for message in stock.take(count)]


def test_queues_take_turns_and_keep_their_order() -> None:
    """A queue that was served comes behind the others; one poll may be of several."""
    stock = Stock(LiteLimits())
    busy, calm = Shelf(stock), Shelf(stock)
    busy.put(messages(0, 1, 2, 3))
    calm.put(messages(7, 8, queue_id=1))
    assert taken(stock, 2) == [(0, 0), (0, 1)]
    assert taken(stock, 1) == [(1, 7)]
    calm.put(messages(9, queue_id=1))
    assert taken(stock, 3) == [(0, 2), (0, 3), (1, 8)]
    assert taken(stock, 10) == [(1, 9)]
    assert stock.count == 0
    assert not stock.arrived.is_set()
    assert taken(stock, 10) == []


def test_a_paused_queue_hands_out_nothing_and_loses_nothing() -> None:
    """Also what comes while it is paused waits for the end of that."""
    stock = Stock(LiteLimits())
    shelf, other = Shelf(stock), Shelf(stock)
    shelf.put(messages(0))
    shelf.pause(True)
    assert not stock.arrived.is_set()
    shelf.put(messages(1))
    other.put(messages(5, queue_id=1))
    assert taken(stock, 10) == [(1, 5)]
    assert not stock.arrived.is_set()
    shelf.pause(False)
    assert stock.arrived.is_set()
    assert taken(stock, 10) == [(0, 0), (0, 1)]


@pytest.mark.parametrize(
    ("limits", "fitting", "filling"),
    [
        (LiteLimits(queue_count_max=3), messages(0, 1), messages(2)),
        (LiteLimits(queue_bytes_max=100), messages(0, size=99), messages(1, size=1)),
        (LiteLimits(queue_span_max=50), messages(0, 49), messages(50)),
    ],
    ids=["count", "bytes", "span"],
)
def test_a_full_queue_has_room_when_something_is_taken(
    limits: LiteLimits, fitting: list[ReceivedMessage], filling: list[ReceivedMessage]
) -> None:
    """Each bound counts by itself."""
    stock = Stock(limits)
    shelf = Shelf(stock)
    shelf.put(fitting)
    assert not shelf.is_full
    shelf.put(filling)
    assert shelf.is_full
    shelf.room.clear()
    stock.take(1)
    assert not shelf.is_full
    assert shelf.room.is_set()


def test_the_bound_of_all_queues_is_for_all_of_them() -> None:
    """Messages that are forgotten make room like those that are handed out."""
    stock = Stock(LiteLimits(all_count_max=4))
    one, other = Shelf(stock), Shelf(stock)
    one.put(messages(0, 1))
    assert stock.room.is_set()
    other.put(messages(0, 1))
    assert not stock.room.is_set()
    other.clear()
    assert stock.room.is_set()
    assert (stock.count, one.body_bytes, other.body_bytes) == (2, 20, 0)
    assert taken(stock, 10) == [(0, 0), (0, 1)]


def test_what_was_taken_counts_as_handled_only_when_settled() -> None:
    """The first of what was taken since is where a commit would have to stop."""
    stock = Stock(LiteLimits())
    shelf = Shelf(stock)
    shelf.put(messages(4, 5, 6, 7))
    stock.take(1)
    stock.take(1)
    assert shelf.handed_from == 4
    stock.settle()
    assert shelf.handed_from is None
    stock.take(1)
    assert shelf.handed_from == 6
    shelf.clear()
    assert shelf.handed_from is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("pull_count", 0), ("queue_bytes_max", 2 * 1024**3), ("auto_commit_interval_ms", 999),
     ("poll_timeout_ms", -1), ("suspend_timeout_ms", 19_999)],
)  # fmt: skip
def test_limits_that_make_no_sense_are_refused(name: str, value: int) -> None:
    """The error names the field and its value."""
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        LiteLimits(**{name: value})
