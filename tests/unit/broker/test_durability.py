"""Answers wait for the disk, all that one sync made safe leave together, late ones say so."""

import asyncio

import pytest

from roketto.broker.durability import Durability
from roketto.protocol.codes import ResponseCode
from roketto.protocol.command import Body, Command, decode_command, encode_command
from roketto.protocol.errors import RequestError
from roketto.protocol.frame import LENGTH_BYTES
from roketto.remoting.connection import Connection

WRITTEN = frozenset({2, 4})
"""Answers with these numbers come as bytes, all others as commands."""


class Peer(Connection):
    """A connection that keeps what it was told instead of sending it."""

    def __init__(self) -> None:
        self.held = 0
        self.answers: list[tuple[int, int, str | None]] = []
        self.released: list[tuple[int, int, str | None]] = []
        self.put_bytes: list[bytes] = []

    def hold(self) -> None:
        self.held += 1

    def release(self, request: Command, answer: Command) -> None:
        self.held -= 1
        self.released.append((answer.opaque, answer.code, answer.remark))

    def release_written(self, answer: bytes) -> None:
        command = decode_command(memoryview(answer)[LENGTH_BYTES:])
        self.release(command, command)

    def put(self, head: Body, body: Body = b"") -> None:
        self.put_bytes.append(bytes(head))

    def proceed(self) -> None:
        self.answers += self.released
        self.released.clear()


class Disk:
    """A log of which a test says how far it is safe."""

    def __init__(self) -> None:
        self.flushed = 0
        self.now_s = 100.0
        self.taken_ms: list[int] = []

    def advance(self) -> int:
        return self.flushed

    def durability(self, *, is_sync: bool = True) -> Durability:
        made = Durability(
            self.advance, is_sync=is_sync, timeout_s=5.0, busy_after_s=1.0,
            note_taken=self.taken_ms.append, now_s=lambda: self.now_s,
        )  # fmt: skip
        made.attach(asyncio.get_running_loop())
        return made


def send(durability: Durability, peer: Peer, opaque: int, end: int) -> Command | None:
    request = Command(310, opaque=opaque)
    if opaque in WRITTEN:
        durability.write_when_safe(peer, encode_command(request.answer(0)), end)
        return None
    reply = durability.answer_when_safe(peer, request, request.answer(0), end)
    assert reply is None or isinstance(reply, Command)
    return reply


async def test_without_sync_flush_an_answer_leaves_at_once() -> None:
    """ASYNC_FLUSH: the page cache is enough, and nothing is kept."""
    durability = Disk().durability(is_sync=False)
    peer = Peer()
    answer = send(durability, peer, 1, 100)
    assert answer is not None
    assert (answer.opaque, peer.held, len(durability)) == (1, 0, 0)


async def test_one_sync_answers_all_that_it_made_safe() -> None:
    """Three messages, a sync behind the second: two answers, in order, and the third waits."""
    disk = Disk()
    durability = disk.durability()
    peer = Peer()
    assert [send(durability, peer, number, number * 100) for number in (1, 2, 3)] == [None] * 3
    assert peer.held == 3
    disk.flushed = 200
    durability.note_flushed(200)
    await asyncio.sleep(0)
    assert peer.answers == [(1, 0, None), (2, 0, None)]
    assert len(durability) == peer.held == 1


async def test_news_of_several_syncs_are_one_turn_of_the_loop() -> None:
    """The flushing thread may be quicker than the loop; nothing piles up there."""
    asked: list[int] = []

    def advance() -> int:
        asked.append(1)
        return 0

    durability = Durability(advance, is_sync=True, timeout_s=1)
    durability.attach(asyncio.get_running_loop())
    for _ in range(10):
        durability.note_flushed(1)
    await asyncio.sleep(0)
    assert asked == [1]


async def test_a_disk_that_takes_too_long_is_told_as_such() -> None:
    """Code 10 with the reason; what came later still waits."""
    disk = Disk()
    durability = disk.durability()
    peer = Peer()
    send(durability, peer, 1, 100)
    disk.now_s += 3
    send(durability, peer, 2, 200)
    disk.now_s += 2
    durability.expire()
    assert peer.answers == [
        (1, ResponseCode.FLUSH_DISK_TIMEOUT, "the disk took more than 5 s (syncFlushTimeout)")
    ]
    assert len(durability) == 1


async def test_the_timeout_may_change_while_answers_wait() -> None:
    """Those that wait are judged by the new one."""
    disk = Disk()
    durability = disk.durability()
    peer = Peer()
    send(durability, peer, 1, 100)
    disk.now_s += 2
    durability.timeout_s = 2.0
    durability.expire()
    assert [code for _, code, _ in peer.answers] == [ResponseCode.FLUSH_DISK_TIMEOUT]


async def test_how_long_each_answer_waited_is_told() -> None:
    """Whether the disk was in time or not."""
    disk = Disk()
    durability = disk.durability()
    peer = Peer()
    send(durability, peer, 1, 100)
    disk.now_s += 0.25
    send(durability, peer, 2, 200)
    disk.now_s += 0.5
    disk.flushed = 100
    durability.note_flushed(100)
    await asyncio.sleep(0)
    assert disk.taken_ms == [750]
    disk.now_s += 5
    durability.expire()
    assert disk.taken_ms == [750, 5_500]


async def test_a_disk_that_syncs_nothing_while_many_wait_is_busy() -> None:
    """New sends are refused in Java's words, until a sync ends."""
    disk = Disk()
    durability = disk.durability()
    peer = Peer()
    for number in range(1, 129):
        send(durability, peer, number, number)
    disk.now_s += 1.0
    durability.expire()
    assert not durability.is_busy, "a second is not yet too long"
    disk.now_s += 0.1
    durability.expire()
    assert durability.is_busy
    with pytest.raises(RequestError) as refused:
        durability.refuse()
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    assert refused.value.reason.startswith(
        "[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 1"
    )
    assert "size of queue: 128: the disk has synced nothing for longer than 1000 ms" in (
        refused.value.reason
    )
    disk.flushed = 128
    durability.note_flushed(128)
    await asyncio.sleep(0)
    assert not durability.is_busy
    assert {code for _, code, _ in peer.answers} == {0}, "what was stored is acknowledged"


async def test_a_slow_disk_with_few_who_wait_is_not_busy() -> None:
    """They would only be sent elsewhere for nothing."""
    disk = Disk()
    durability = disk.durability()
    for number in range(1, 128):
        send(durability, Peer(), number, number)
    disk.now_s += 4.9
    durability.expire()
    assert not durability.is_busy


async def test_a_disk_stays_busy_while_a_sync_leaves_old_answers_behind() -> None:
    """It ends with the last that is too old, or when all of them have been given up."""
    disk = Disk()
    durability = disk.durability()
    for number in range(1, 301):
        send(durability, Peer(), number, number)
    disk.now_s += 2
    durability.expire()
    disk.flushed = 100
    durability.note_flushed(100)
    await asyncio.sleep(0)
    assert durability.is_busy
    disk.now_s += 3
    durability.expire()
    assert (len(durability), durability.is_busy) == (0, False)


async def test_a_refusal_in_the_last_moment_needs_nobody_who_waits() -> None:
    """The bound may be asked for when all have just left."""
    with pytest.raises(RequestError, match="period in queue: 0ms, size of queue: 0"):
        Disk().durability().refuse()


async def test_a_failed_sync_is_never_an_acknowledgement() -> None:
    """What was safe before it is acknowledged, everything else is not."""
    disk = Disk()
    durability = disk.durability()
    peer = Peer()
    send(durability, peer, 1, 100)
    send(durability, peer, 2, 200)
    disk.flushed = 100
    durability.note_failure(OSError(5, "Input/output error"))
    await asyncio.sleep(0)
    assert peer.answers[0] == (1, 0, None)
    assert peer.answers[1][:2] == (2, ResponseCode.FLUSH_DISK_TIMEOUT)
    assert "Input/output error" in (peer.answers[1][2] or "")
    assert len(durability) == 0


async def test_without_a_loop_nothing_is_told() -> None:
    """A store flushes while it is opened and after the loop has ended."""
    durability = Durability(lambda: 0, is_sync=True, timeout_s=1)
    durability.note_flushed(1)
    assert len(durability) == 0


async def test_a_closed_store_is_asked_nothing() -> None:
    """News that came just before the store was closed are not looked at any more."""

    def advance() -> int:
        raise AssertionError("the store is closed")

    durability = Durability(advance, is_sync=True, timeout_s=1)
    durability.attach(asyncio.get_running_loop())
    durability.note_flushed(1)
    durability.detach()
    durability.note_flushed(2)
    await asyncio.sleep(0)


async def test_all_that_waits_at_the_end_of_a_turn_is_synced_at_once() -> None:
    """One request for the turn, made when it is over; the next turn makes its own."""
    asked: list[None] = []
    durability = Durability(
        Disk().advance, is_sync=True, timeout_s=5.0, request_flush=lambda: asked.append(None)
    )
    durability.want_flush()
    assert asked == [], "nobody runs it yet"
    durability.attach(asyncio.get_running_loop())
    for turn in (1, 2):
        durability.want_flush()
        durability.want_flush()
        assert len(asked) == turn - 1
        await asyncio.sleep(0)
        assert len(asked) == turn


async def test_without_sync_flush_what_is_written_is_put_at_once() -> None:
    """As an answer is that is a command."""
    peer = Peer()
    Disk().durability(is_sync=False).write_when_safe(peer, b"frame", 100)
    assert peer.put_bytes == [b"frame"]
    assert peer.held == 0
