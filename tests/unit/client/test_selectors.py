"""Queues are chosen as Java's clients choose them: in turn, by key, away from what has failed."""

import pytest

from roketto.client.message import Message, MessageQueue
from roketto.client.selectors import HashSelector, RandomSelector, RoundRobin, hash_of_key

A = [MessageQueue("broker-a", number, "T") for number in range(2)]
B = [MessageQueue("broker-b", number, "T") for number in range(2)]
MESSAGE = Message("T", b"x")


class Known:
    """Brokers that are available, and reachable."""

    def __init__(self, available: str = "", reachable: str = "") -> None:
        self.available, self.reachable = available.split(), reachable.split()

    def is_available(self, broker_name: str) -> bool:
        return broker_name in self.available

    def is_reachable(self, broker_name: str) -> bool:
        return broker_name in self.reachable


def test_queues_take_turns_from_the_start_on() -> None:
    """The counter is increased before it is used, and stays positive for ever."""
    turn = RoundRobin(start=-1)
    assert [turn.next(A + B) for _ in range(5)] == [*A, *B, A[0]]
    last = RoundRobin(start=0x7FFF_FFFF - 1)
    assert [last.next(A + B).queue_id for _ in range(2)] == [1, 0]  # 2**31 - 1 is 3 modulo 4
    assert RoundRobin(start=-6).next(A + B) == (A + B)[(-5 & 0x7FFF_FFFF) % 4]


def test_a_retry_goes_to_another_broker_if_there_is_one() -> None:
    turn = RoundRobin(start=-1)
    assert turn.next(A + B, avoid="broker-a") == B[0]
    assert turn.next(A, avoid="broker-a") in A


def test_with_faults_the_available_then_the_reachable_then_any() -> None:
    turn = RoundRobin()
    assert turn.next(A + B, None, Known("broker-b")).broker_name == "broker-b"
    assert turn.next(A + B, None, Known("", "broker-a")).broker_name == "broker-a"
    # The one to avoid is not chosen for being good, but it is better than nothing.
    assert turn.next(A + B, "broker-b", Known("broker-b", "broker-a")).broker_name == "broker-a"
    assert turn.next(B, "broker-b", Known()) in B


@pytest.mark.parametrize(
    ("key", "count", "number"),
    [
        ("hello", 4, 99162322 % 4),
        ("polygenelubricants", 3, 2),  # its hash is Integer.MIN_VALUE, which has no absolute value
        ("订单", 5, (0x8BA2 * 31 + 0x5355) % 5),
        ("", 4, 0),
    ],
)
def test_a_key_has_the_queue_that_java_gives_it(key: str, count: int, number: int) -> None:
    assert hash_of_key(key, count) == number


def test_selectors_have_the_shape_of_users_own() -> None:
    """The text of the argument counts, whatever it is."""
    assert HashSelector()(A + B, MESSAGE, 17) == (A + B)[hash_of_key("17", 4)]
    assert {RandomSelector()(A, MESSAGE, None) for _ in range(64)} == set(A)
    assert RoundRobin(start=0)(A, MESSAGE, None) == A[1]
