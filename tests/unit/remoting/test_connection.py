"""One connection over a simulated transport: batching, matching, back-pressure, deadlines."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import pytest

from roketto.clock import monotonic_s
from roketto.protocol.codes import ResponseCode
from roketto.protocol.command import Command, decode_command, encode_command
from roketto.protocol.errors import RequestError
from roketto.protocol.frame import FrameDecoder
from roketto.remoting import connection as connection_module
from roketto.remoting.connection import Connection, Handler, Reply, refuse_requests
from roketto.remoting.errors import ConnectionLostError, RequestTimeoutError, TooManyRequestsError
from roketto.remoting.lane import Lane
from roketto.remoting.load import Load
from roketto.remoting.settings import ConnectionSettings
from roketto.remoting.vigil import Vigil


class SimulatedTransport(asyncio.Transport):
    """Keeps what is written, one entry per system call that a real transport would make."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.7", 4711)})
        self.writes: list[bytes] = []
        self.reading = True
        self.protocol: Connection | None = None
        self.closing = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def writelines(self, list_of_data: object) -> None:
        self.writes.append(b"".join(list_of_data))  # type: ignore[arg-type]

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True
        assert self.protocol is not None
        asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def commands(self) -> list[Command]:
        frames = FrameDecoder().feed(b"".join(self.writes))
        return [decode_command(frame) for frame in frames]


def open_connection(
    handler: Handler = refuse_requests, load: Load | None = None, **settings: float
) -> tuple[Connection, SimulatedTransport]:
    connection = Connection(handler, ConnectionSettings(**settings), load)  # type: ignore[arg-type]
    transport = SimulatedTransport()
    transport.protocol = connection
    connection.connection_made(transport)
    return connection, transport


def echo(connection: Connection, request: Command) -> Command:
    return request.answer(0, body=bytes(request.body))


class Gate:
    """A handler that waits until the test lets it go on."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    def __call__(self, connection: Connection, request: Command) -> Reply:
        return self._wait(request)

    async def _wait(self, request: Command) -> Command:
        await self.open.wait()
        return request.answer(0)


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()
    await asyncio.sleep(0)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def frames(*commands: Command) -> bytes:
    return b"".join(map(encode_command, commands))


async def test_all_frames_of_a_read_are_answered_with_one_write() -> None:
    """Three requests in one read cost one write, and no task."""
    connection, transport = open_connection(echo)
    connection.data_received(frames(*(Command(1, opaque=n, body=b"b%d" % n) for n in range(3))))
    assert len(transport.writes) == 1
    assert [(c.opaque, bytes(c.body)) for c in transport.commands()] == [
        (0, b"b0"), (1, b"b1"), (2, b"b2"),
    ]  # fmt: skip
    assert not connection.tasks


async def test_large_answers_are_not_all_held_back_for_one_write() -> None:
    """Above 256 KiB the answers of a read go out before the read is used up."""
    connection, transport = open_connection(lambda c, r: r.answer(body=bytes(200_000)))
    connection.data_received(frames(*(Command(1, opaque=n) for n in range(4))))
    assert len(transport.writes) == 2
    assert len(transport.commands()) == 4


async def test_one_way_requests_are_never_answered() -> None:
    """Not even when the handler fails."""

    def fail(connection: Connection, request: Command) -> Command:
        raise RequestError(17, "no")

    for handler in (echo, fail):
        connection, transport = open_connection(handler)
        connection.data_received(frames(Command(1, flag=2)))
        assert transport.writes == []


async def test_a_refusal_is_answered_with_its_code_and_reason() -> None:
    """RequestError is an answer, from a plain handler and from one that waits."""

    def refuse(connection: Connection, request: Command) -> Command:
        raise RequestError(17, "topic T does not exist")

    async def refuse_later(request: Command) -> Command:
        raise RequestError(17, "topic T does not exist")

    for handler in (refuse, lambda connection, request: refuse_later(request)):
        connection, transport = open_connection(handler)
        connection.data_received(frames(Command(1, opaque=5)))
        await settle()
        [answer] = transport.commands()
        assert (answer.code, answer.remark, answer.opaque) == (17, "topic T does not exist", 5)


async def test_a_crash_of_a_handler_is_code_1_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A bug answers the one who met it and leaves the connection open."""

    def crash(connection: Connection, request: Command) -> Command:
        raise ZeroDivisionError("oops")

    connection, transport = open_connection(crash)
    connection.data_received(frames(Command(99)))
    [answer] = transport.commands()
    assert (answer.code, answer.remark) == (1, "ZeroDivisionError: oops")
    assert "request code 99 failed" in caplog.text
    assert not connection.closed


async def test_an_answer_that_cannot_be_written_becomes_an_error() -> None:
    """Text that is not Unicode does not end the connection."""
    connection, transport = open_connection(lambda c, r: r.answer(0, {"a": "\ud800"}))
    connection.data_received(frames(Command(1)))
    [answer] = transport.commands()
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "not Unicode" in (answer.remark or "")


async def test_an_end_that_serves_nothing_says_so() -> None:
    """What Java answers to a code without a processor, leading blank included."""
    connection, transport = open_connection()
    connection.data_received(frames(Command(310)))
    [answer] = transport.commands()
    assert (answer.code, answer.remark) == (3, " request type 310 not supported")


async def test_answers_find_their_requests_in_any_order() -> None:
    """Requests are multiplexed by opaque."""
    connection, transport = open_connection()
    first = asyncio.create_task(connection.request(Command(1), 1000))
    second = asyncio.create_task(connection.request(Command(2), 1000))
    await settle()
    one, two = transport.commands()
    connection.data_received(frames(two.answer(22), one.answer(11)))
    assert [(await first).code, (await second).code] == [11, 22]


async def test_both_sides_may_use_the_same_opaque_at_once() -> None:
    """The response bit decides whether a frame is a request or our answer."""
    connection, transport = open_connection(echo)
    call = asyncio.create_task(connection.request(Command(1), 1000))
    await settle()
    opaque = transport.commands()[0].opaque
    connection.data_received(frames(Command(5, opaque=opaque, body=b"theirs")))
    assert not call.done()
    connection.data_received(frames(Command(1, opaque=opaque).answer(7)))
    assert (await call).code == 7


async def test_an_answer_nobody_waits_for_is_dropped() -> None:
    """Late answers after a timeout, and answers to nothing, do no harm."""
    connection, transport = open_connection()
    connection.data_received(frames(Command(1, opaque=12345).answer(0)))
    assert not connection.closed
    assert transport.writes == []


async def test_a_request_without_answer_times_out_and_names_the_peer() -> None:
    """The error says who did not answer what, and for how long."""
    connection, _ = open_connection()
    with pytest.raises(
        RequestTimeoutError, match=r"10\.0\.0\.7:4711: no answer to request code 34 within 10 ms"
    ):
        await connection.request(Command(34), 10)


async def test_a_lost_connection_fails_what_waits_and_tells_its_owner() -> None:
    """Waiting calls end at once, handlers are cancelled, callbacks run once."""
    closed: list[Connection] = []
    connection, _ = open_connection()
    connection.add_close_callback(closed.append)
    call = asyncio.create_task(connection.request(Command(1), 60_000))
    await settle()
    connection.connection_lost(ConnectionResetError("reset by peer"))
    with pytest.raises(ConnectionLostError, match="it broke: reset by peer"):
        await call
    assert closed == [connection]
    with pytest.raises(ConnectionLostError):
        await connection.request(Command(1), 1000)
    assert not connection.send_one_way(Command(1))


async def test_handlers_of_a_lost_connection_are_cancelled(gate: Gate) -> None:
    """Work for a peer that is gone stops."""
    connection, transport = open_connection(gate)
    connection.data_received(frames(Command(1)))
    [task] = connection.tasks
    connection.connection_lost(None)
    await settle()
    assert task.cancelled()
    assert transport.writes == []


async def test_the_number_of_own_requests_is_bounded() -> None:
    """The bound is an error at once, not a growing table."""
    connection, _ = open_connection(calls_in_flight_max=1)
    call = asyncio.create_task(connection.request(Command(1), 1000))
    await settle()
    with pytest.raises(TooManyRequestsError, match="1 requests without an answer"):
        await connection.request(Command(1), 1000)
    call.cancel()


async def test_bad_bytes_close_the_connection_with_one_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A frame that lies, and a header that cannot be read."""
    bad_header = b"\0\0\0\x06\0\0\0\x02}{"
    for data in (b"\0\0\0\0", b"\xff\xff\xff\xff", bad_header):
        caplog.clear()
        connection, transport = open_connection(echo)
        with caplog.at_level(logging.WARNING):
            connection.data_received(data + frames(Command(1)))
        assert connection.closed
        assert transport.writes == []
        [line] = caplog.messages
        assert line.startswith("10.0.0.7:4711: closed, it broke the protocol: ")


async def test_a_peer_that_does_not_read_is_not_read_from() -> None:
    """Back-pressure: above the bound the rest of the read waits undecoded, and reading stops."""
    connection, transport = open_connection(echo)
    handled: list[int] = []

    def handler(_: Connection, request: Command) -> Command:
        handled.append(request.opaque)
        if request.opaque == 1:
            connection.pause_writing()
        return request.answer()

    connection.handler = handler
    connection.data_received(frames(*(Command(1, opaque=n) for n in range(5))))
    assert handled == [0, 1]
    assert not transport.reading
    connection.data_received(frames(Command(1, opaque=5)))  # was on its way already
    assert handled == [0, 1]
    connection.resume_writing()
    assert transport.reading
    assert handled == [0, 1, 2, 3, 4, 5]
    assert [answer.opaque for answer in transport.commands()] == [0, 1, 2, 3, 4, 5]


async def test_a_peer_with_too_many_waiting_requests_is_not_read_from(gate: Gate) -> None:
    """The in-flight cap holds back that peer only, and ends with the first answer."""
    connection, transport = open_connection(gate, requests_in_flight_max=2)
    connection.data_received(frames(*(Command(1, opaque=n) for n in range(3))))
    assert len(connection.tasks) == 2
    assert not transport.reading
    gate.open.set()
    await settle()
    assert sorted(answer.opaque for answer in transport.commands()) == [0, 1, 2]
    assert transport.reading


async def test_too_many_waiting_requests_in_all_are_refused_as_busy(gate: Gate) -> None:
    """The bound of the whole process answers SYSTEM_BUSY with Java's words."""
    load = Load(1)
    connection, transport = open_connection(gate, load)
    connection.data_received(frames(Command(1, opaque=1), Command(1, opaque=2)))
    [answer] = transport.commands()
    assert (answer.opaque, answer.code) == (2, ResponseCode.SYSTEM_BUSY)
    assert (answer.remark or "").startswith("[OVERLOAD]system busy, start flow control for a while")
    gate.open.set()
    await settle()
    assert load.in_flight == 0


async def test_a_request_waits_until_the_peer_reads_again() -> None:
    """Calls to a stalled peer are not buffered; their own timeout bounds the wait."""
    connection, transport = open_connection()
    connection.pause_writing()
    assert connection.is_write_stalled
    assert not connection.send_one_way(Command(1))
    with pytest.raises(RequestTimeoutError):
        await connection.request(Command(1), 5)
    call = asyncio.create_task(connection.request(Command(2), 1000))
    await settle()
    assert transport.writes == []
    connection.resume_writing()
    await settle()
    [request] = transport.commands()
    assert request.code == 2
    connection.data_received(frames(request.answer(0)))
    assert (await call).code == 0


async def test_a_stalled_peer_is_dropped_at_the_write_deadline() -> None:
    """Paused first, dropped after the deadline."""
    connection, _ = open_connection(write_deadline_s=10)
    connection.pause_writing()
    connection.sweep(monotonic_s() + 9)
    assert not connection.closed
    connection.sweep(monotonic_s() + 11)
    assert connection.close_reason is not None
    assert "did not read for 10 s" in connection.close_reason


async def test_half_a_frame_is_dropped_at_the_frame_deadline() -> None:
    """The deadline runs from the frame's first byte, however often bytes drip in."""
    connection, _ = open_connection(frame_deadline_s=30)
    frame = frames(Command(1))
    started_s = monotonic_s()
    connection.data_received(frame[:5])
    for byte in frame[5:10]:
        connection.data_received(bytes([byte]))
        connection.sweep(started_s + 29)
    assert not connection.closed
    connection.sweep(started_s + 31)
    assert connection.close_reason == "a frame was not complete after 30 s (10 bytes came)"


async def test_the_frame_deadline_starts_anew_with_each_frame() -> None:
    """A busy peer whose reads always end inside a frame is not dropped."""
    connection, _ = open_connection(echo, frame_deadline_s=30)
    frame = frames(Command(1))
    connection.data_received(frame[:5])
    first_s = connection._frame_started_s
    await asyncio.sleep(0.002)
    connection.data_received(frame[5:] + frame[:5])
    assert first_s is not None
    assert connection._frame_started_s is not None
    assert connection._frame_started_s > first_s
    connection.data_received(frame[5:])
    assert connection._frame_started_s is None


async def test_the_frame_deadline_does_not_run_while_we_do_not_read(gate: Gate) -> None:
    """A pause of our own making is not held against the peer."""
    connection, transport = open_connection(gate, requests_in_flight_max=1)
    connection.data_received(frames(Command(1, opaque=1)) + frames(Command(1))[:6])
    assert not transport.reading
    connection.sweep(monotonic_s() + 100)
    assert not connection.closed
    gate.open.set()
    await settle()
    assert transport.reading
    connection.sweep(monotonic_s() + 29)
    assert not connection.closed


async def test_an_idle_connection_is_closed() -> None:
    """Neither side said anything for two minutes."""
    connection, transport = open_connection(idle_s=120)
    connection.sweep(monotonic_s() + 119)
    assert not connection.closed
    connection.sweep(monotonic_s() + 121)
    assert connection.close_reason == "idle for 120 s"
    assert transport.closing


async def test_a_connection_with_work_under_way_is_not_idle(gate: Gate) -> None:
    """A long poll may take longer than the idle limit."""
    connection, _ = open_connection(gate, idle_s=1)
    connection.data_received(frames(Command(1)))
    connection.sweep(monotonic_s() + 100)
    assert not connection.closed


class Crowd:
    """A vigil in a turn in which many connections read; ``end_turn`` ends it."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], None]] = []
        self.vigil = Vigil(self._soon.append, 1.0, lambda: 1.0)
        for _ in range(10):
            self.vigil.note_read()
        self.end_turn()

    def end_turn(self) -> None:
        self._soon.pop()()

    def open_connection(self) -> tuple[Connection, SimulatedTransport]:
        connection = Connection(echo, ConnectionSettings(), vigil=self.vigil)
        transport = SimulatedTransport()
        transport.protocol = connection
        connection.connection_made(transport)
        return connection, transport


async def test_in_a_crowd_answers_leave_when_the_turn_ends() -> None:
    """Those of all reads of a connection with one write."""
    crowd = Crowd()
    connection, transport = crowd.open_connection()
    for opaque in (1, 2):
        connection.data_received(frames(Command(1, opaque=opaque)))
    assert not transport.writes
    crowd.end_turn()
    assert len(transport.writes) == 1
    assert [answer.opaque for answer in transport.commands()] == [1, 2]


async def test_closing_in_a_crowd_flushes_what_was_answered() -> None:
    crowd = Crowd()
    connection, transport = crowd.open_connection()
    connection.data_received(frames(Command(1, opaque=1)))
    connection.close("done")
    assert [answer.opaque for answer in transport.commands()] == [1]
    crowd.end_turn()
    assert len(transport.writes) == 1
    await settle()


async def test_a_connection_that_is_dropped_in_a_crowd_writes_no_more() -> None:
    crowd = Crowd()
    connection, transport = crowd.open_connection()
    connection.data_received(frames(Command(1, opaque=1)))
    connection.abort("it broke")
    crowd.end_turn()
    assert not transport.writes
    await settle()


async def test_closing_flushes_what_was_answered() -> None:
    """close() is polite, and only the first reason counts."""
    connection, transport = open_connection(echo)
    connection.close("first")
    connection.close("second")
    connection.abort("third")
    await settle()
    assert connection.close_reason == "first"
    assert transport.closing


@pytest.mark.parametrize(
    ("peername", "text"),
    [(("::1", 5, 0, 0), "[::1]:5"), (None, "unknown")],
)
async def test_addresses_are_written_as_users_type_them(peername: object, text: str) -> None:
    """IPv6 hosts stand in brackets."""
    connection = Connection(echo, ConnectionSettings())
    transport = SimulatedTransport()
    transport._extra = {"peername": peername}  # type: ignore[attr-defined]
    connection.connection_made(transport)
    assert connection.peer == text


class ParrotMemo:
    """Knows one frame by heart."""

    def __init__(self) -> None:
        self.known: dict[bytes, bytes] = {}
        self.seen: list[tuple[int, int]] = []

    def recall(self, frame: bytes) -> bytes | None:
        return self.known.get(frame)

    def remember(self, frame: bytes, request: Command, answer: Command) -> None:
        self.seen.append((request.code, answer.code))
        self.known[frame] = encode_command(answer)


async def test_a_memo_answers_before_the_handler_is_asked(gate: Gate) -> None:
    """It sees what handlers answer at once, and its answers go out in order with theirs."""
    memo = ParrotMemo()
    asked: list[int] = []

    def handler(connection: Connection, request: Command) -> Reply:
        asked.append(request.opaque)
        return gate(connection, request) if request.code == 9 else request.answer(7)

    connection = Connection(handler, ConnectionSettings(), None, memo)
    transport = SimulatedTransport()
    transport.protocol = connection
    connection.connection_made(transport)
    known = Command(5, opaque=1)
    connection.data_received(frames(known))
    connection.data_received(frames(known))
    connection.data_received(frames(known, Command(6, opaque=2), known, Command(9, opaque=3)))
    assert asked == [1, 2, 3]
    assert [answer.opaque for answer in transport.commands()] == [1, 1, 1, 2, 1]
    assert memo.seen == [(5, 7), (6, 7)]
    gate.open.set()
    await settle()
    assert memo.seen == [(5, 7), (6, 7)], "an answer that was waited for is not offered"


async def test_replies_of_one_turn_go_out_with_one_write() -> None:
    """What is answered later costs no task, and no write of its own."""
    waiting: list[Command] = []

    def park(connection: Connection, request: Command) -> None:
        waiting.append(request)

    connection, transport = open_connection(park)
    connection.data_received(frames(Command(11, opaque=1), Command(11, opaque=2)))
    assert not transport.writes
    for request in waiting:
        connection.reply(request, request.answer(0))
    await settle()
    assert len(transport.writes) == 1
    assert [answer.opaque for answer in transport.commands()] == [1, 2]


async def test_requests_of_one_turn_go_out_with_one_write() -> None:
    """One that nobody else's could go with is written at once."""
    connection, transport = open_connection()
    alone = asyncio.create_task(connection.request(Command(11), 5_000))
    await asyncio.sleep(0)
    assert len(transport.writes) == 1
    others = [asyncio.create_task(connection.request(Command(12), 5_000)) for _ in range(3)]
    await settle()
    assert len(transport.writes) == 2
    requests = transport.commands()
    assert [request.code for request in requests] == [11, 12, 12, 12]
    connection.data_received(frames(*(request.answer(0) for request in requests)))
    answers = await asyncio.gather(alone, *others)
    assert [answer.opaque for answer in answers] == [request.opaque for request in requests]


async def test_requests_that_wait_for_their_write_end_with_the_connection() -> None:
    """Nothing is written to a connection that is gone, and everybody is told."""
    connection, transport = open_connection()
    calls = [asyncio.create_task(connection.request(Command(11), 5_000)) for _ in range(3)]
    await asyncio.sleep(0)
    connection.abort("the test says so")
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(end) for end in ends] == [ConnectionLostError] * 3
    assert len(transport.writes) <= 1


async def test_views_are_written_behind_their_head() -> None:
    """An answer in pieces is one frame, written at once."""

    def handler(connection: Connection, request: Command) -> Command:
        return request.answer(0, body=(memoryview(b"ab"), memoryview(b"cd"), memoryview(b"ef")))

    connection, transport = open_connection(handler)
    connection.data_received(frames(Command(11)))
    assert len(transport.writes) == 1
    assert transport.commands()[0].body == b"abcdef"


async def test_held_requests_count_until_they_are_released() -> None:
    """A peer at its bound is not read from; each release lets one more request in."""
    waiting: list[Command] = []
    load = Load(10)

    def hold(connection: Connection, request: Command) -> None:
        waiting.append(request)
        connection.hold()

    connection, transport = open_connection(hold, load, requests_in_flight_max=2)
    connection.data_received(frames(*(Command(10, opaque=number) for number in range(3))))
    assert len(waiting) == load.in_flight == 2
    assert not transport.reading
    connection.sweep(monotonic_s() + 1_000_000)
    assert not connection.closed, "a peer that waits for us is not idle"
    connection.release(waiting[0], waiting[0].answer(0))
    connection.proceed()
    assert len(waiting) == 3
    assert [answer.opaque for answer in transport.commands()] == [0]
    connection.release(waiting[1], waiting[1].answer(0))
    connection.release_written(encode_command(waiting[2].answer(0)))
    connection.proceed()
    assert [answer.opaque for answer in transport.commands()] == [0, 1, 2]
    assert transport.reading
    assert load.in_flight == 0


async def test_replies_to_a_peer_that_has_gone_are_dropped() -> None:
    """Whoever held a request need not watch its connection."""
    load = Load(10)

    def hold(connection: Connection, request: Command) -> None:
        connection.hold()

    connection, transport = open_connection(hold, load)
    request = Command(10)
    connection.data_received(frames(request))
    connection.data_received(frames(request))
    connection.connection_lost(None)
    connection.release(request, request.answer(0))
    connection.release_written(encode_command(request.answer(0)))
    connection.proceed()
    assert not transport.writes
    assert load.in_flight == 0


async def test_the_peer_is_known_as_records_keep_hosts() -> None:
    """Address and port in bytes, for the born host of a message."""
    connection, _ = open_connection()
    assert connection.peer_host == bytes([10, 0, 0, 7]) + (4711).to_bytes(4)


async def test_a_request_knows_how_long_it_had_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were read while the connection was at its bound; others have not waited."""
    now_s = 100.0
    monkeypatch.setattr(connection_module, "monotonic_s", lambda: now_s)
    seen: list[tuple[int, float, int]] = []
    held: list[Command] = []

    def hold(connection: Connection, request: Command) -> None:
        seen.append((request.opaque, connection.waited_s, connection.waiting))
        held.append(request)
        connection.hold()

    connection, _ = open_connection(hold, requests_in_flight_max=2)
    connection.data_received(frames(*(Command(10, opaque=number) for number in range(5))))
    assert connection.waiting == 3
    now_s = 100.5
    connection.release(held[0], held[0].answer(0))
    connection.proceed()
    now_s = 102.0
    connection.release(held[1], held[1].answer(0))
    connection.release(held[2], held[2].answer(0))
    connection.proceed()
    assert connection.waited_s == 0.0
    for request in held[3:]:
        connection.release(request, request.answer(0))
    connection.proceed()
    connection.data_received(frames(Command(10, opaque=5)))
    assert seen == [(0, 0, 0), (1, 0, 0), (2, 0.5, 2), (3, 2.0, 1), (4, 2.0, 0), (5, 0, 0)]


async def test_bytes_are_counted_for_all_connections_of_a_server() -> None:
    """As they are read and written, not for each request."""
    load = Load(10)
    sent = received = 0
    for _ in range(2):
        connection, transport = open_connection(echo, load)
        data = frames(Command(1, body=b"abc"), Command(1, body=b"defg"))
        connection.data_received(data[:20])
        connection.data_received(data[20:])
        received += len(data)
        sent += sum(map(len, transport.writes))
    assert (load.bytes_in, load.bytes_out) == (received, sent)


async def test_a_lane_answers_frames_before_they_are_decoded() -> None:
    """What it takes, the handler never sees, answered or not; the rest is left to him."""
    seen: list[int] = []

    class Below3(Lane):
        def answer(self, connection: Connection, data: bytes, at: int, end: int) -> bool:
            code = decode_command(memoryview(data)[at:end]).code
            seen.append(code)
            if code == 1:
                connection.put(encode_command(Command(0, opaque=11, flag=1)))
            return code < 3

    connection, transport = open_connection(echo)
    connection.lane = Below3()
    connection.data_received(frames(Command(1), Command(2), Command(3, opaque=33)))
    assert seen == [1, 2, 3]
    assert [answer.opaque for answer in transport.commands()] == [11, 33]


async def test_a_lane_that_fails_is_answered_and_its_frame_not_handled_again() -> None:
    """It may have stored something; what follows in the same read is served."""
    handled: list[int] = []

    def handle(connection: Connection, request: Command) -> Command:
        handled.append(request.code)
        return request.answer(0)

    class Fails(Lane):
        def answer(self, connection: Connection, data: bytes, at: int, end: int) -> bool:
            if decode_command(memoryview(data)[at:end]).code == 1:
                raise ValueError("half done")
            return False

    connection, transport = open_connection(handle)
    connection.lane = Fails()
    connection.data_received(frames(Command(1, opaque=11), Command(2, opaque=22)))
    answers = transport.commands()
    assert [(answer.opaque, answer.code) for answer in answers] == [(11, 1), (22, 0)]
    assert answers[0].remark == "ValueError: half done"
    assert handled == [2]


class TakesAll(Lane):
    def answer(self, connection: Connection, data: bytes, at: int, end: int) -> bool:
        return True


async def test_an_overloaded_server_has_no_lane() -> None:
    """The refusal comes from the one place that gives it."""
    load = Load(0)
    connection, transport = open_connection(echo, load)
    connection.lane = TakesAll()
    connection.data_received(frames(Command(1)))
    assert transport.commands()[0].code == ResponseCode.SYSTEM_BUSY
