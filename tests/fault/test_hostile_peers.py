"""Hostile connections to a live name server: each is bounded, and a healthy client never notices.

The slow attacks run at the same time against one process, because each waits for a deadline of
half a minute: connections that drip bytes, that stop inside a header, that ask and never read, that
ask without pause, and a thousand that say nothing.
"""

import asyncio
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from roketto.protocol.bodies.registration import RegisterBrokerBody, encode_registration
from roketto.protocol.bodies.topics import TopicConfig, TopicConfigAndMappingSerializeWrapper
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command, encode_command
from roketto.protocol.frame import COMPACT, frame_prefix
from roketto.protocol.headers.base import encode_header
from roketto.protocol.headers.namesrv import RegisterBrokerRequest
from roketto.protocol.limits import FRAME_BYTES_MAX
from roketto.remoting.pool import Pool
from servers import ServerProcess, name_server

TOPICS = 3_000
FRAME_DEADLINE_S = 30
PATIENCE_S = 45.0
"""The deadlines are 30 s and are looked at once a second; the rest is for a loaded machine."""


def registration() -> Command:
    """A broker with so many topics that the list of them is a large answer."""
    names = [f"topic-with-a-rather-long-name-number-{number}" for number in range(TOPICS)]
    header = RegisterBrokerRequest(
        broker_name="broker-a", broker_addr="127.0.0.1:10911", cluster_name="c",
        ha_server_addr="127.0.0.1:10912", broker_id=0,
    )  # fmt: skip
    wrapper = TopicConfigAndMappingSerializeWrapper(
        topic_config_table={name: TopicConfig(topic_name=name) for name in names}
    )
    body = encode_registration(RegisterBrokerBody(topic_config_serialize_wrapper=wrapper))
    return Command(RequestCode.REGISTER_BROKER, encode_header(header), body)


def list_topics() -> Command:
    return Command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with name_server(tmp_path_factory.mktemp("namesrv")) as running:
        yield running


@asynccontextmanager
async def healthy_client(server: ServerProcess) -> AsyncIterator[list[float]]:
    """Ask for the topic list again and again beside the attack; every answer must come."""
    taken_s: list[float] = []
    pool = Pool()
    assert (await pool.request(server.address, registration(), 10_000)).code == 0

    async def ask() -> None:
        while True:
            started_s = time.monotonic()
            answer = await pool.request(server.address, list_topics(), 10_000)
            assert answer.code == 0
            assert len(answer.body) > TOPICS * 30
            taken_s.append(time.monotonic() - started_s)
            await asyncio.sleep(0.02)

    asking = asyncio.create_task(ask())
    try:
        yield taken_s
        assert not asking.done(), asking.exception()
        before = len(taken_s)
        async with asyncio.timeout(10):
            while len(taken_s) < before + 3:  # noqa: ASYNC110 (it must still get answers)
                await asyncio.sleep(0.02)
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await pool.close()


def open_socket(server: ServerProcess) -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    opened.setblocking(False)
    return opened


def is_closed(opened: socket.socket) -> bool:
    """Whether the server has ended this connection; what it sent before is thrown away."""
    try:
        while opened.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


async def until(condition: Callable[[], bool], timeout_s: float) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 (the other side is another process)
            await asyncio.sleep(0.05)


def lying_frames() -> dict[str, bytes]:
    """S3 and S4: every length field, too small, too large, negative; unknown serialisation."""
    compact = encode_command(Command(105, {"topic": "T"}, serialization=COMPACT))

    def patched(at: int, value: int) -> bytes:
        return compact[:at] + struct.pack(">I", value & 0xFFFF_FFFF) + compact[at + 4 :]

    frames = {f"frame length {length:#x}": struct.pack(">I", length) + bytes(60) for length in
              (0, 3, FRAME_BYTES_MAX - 3, 2**31 - 1, 2**31, 0xFFFF_FFFF)}  # fmt: skip
    frames |= {
        f"{name} length {value}": patched(at, value)
        for name, at in (("remark", 8 + 13), ("fields", 8 + 17))
        for value in (-1, 2**31 - 1, len(compact))
    }
    frames |= {
        "key length": compact[: 8 + 21] + b"\xff\xff" + compact[8 + 23 :],
        "value length": patched(8 + 23 + len("topic"), 2**31 - 1),
        "header longer than its frame": struct.pack(">II", 8, 200) + bytes(4),
        "unknown serialisation": struct.pack(">II", 6, 7 << 24 | 2) + b"{}",
        "header that is not JSON": frame_prefix(0, 4, 0) + b"nope",
        "header cut short": frame_prefix(1, 10, 0) + bytes(10),
        "JSON without end": frame_prefix(0, 60_000, 0) + b'{"code":' + b"[" * 59_992,
    }
    return frames


@pytest.mark.parametrize("name", sorted(lying_frames()))
async def test_a_lying_frame_closes_its_connection_and_touches_nothing_else(
    server: ServerProcess, name: str
) -> None:
    """S3, S4: closed at once, with one log line, while a neighbour on the same server goes on."""
    data = lying_frames()[name]
    log_before = server.log.read_text().count("broke the protocol")
    resident_before_kb = server.resident_kb()
    async with pool_of(server) as ask:
        with open_socket(server) as liar:
            liar.sendall(data)
            await until(lambda: is_closed(liar), 5)
        await ask()
    assert server.log.read_text().count("broke the protocol") == log_before + 1
    assert server.resident_kb() - resident_before_kb < 4 * 1024


@asynccontextmanager
async def pool_of(server: ServerProcess) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    pool = Pool()

    async def ask() -> None:
        assert (await pool.request(server.address, list_topics(), 5_000)).code == 0

    try:
        await ask()
        yield ask
    finally:
        await pool.close()


async def test_the_largest_frame_is_read_and_answered(server: ServerProcess) -> None:
    """S4: 16 MiB are a frame; the connection that sent them goes on."""
    pool = Pool()
    try:
        largest = Command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        largest.body = bytes(FRAME_BYTES_MAX - len(encode_command(largest)) - 20)
        assert (await pool.request(server.address, largest, 20_000)).code == 0
        assert (await pool.request(server.address, list_topics(), 5_000)).code == 0
    finally:
        await pool.close()


class Attack:
    """Connections of one kind; ``ended`` says whether the server has dropped all of them."""

    def __init__(self, server: ServerProcess, count: int, opening: bytes) -> None:
        self.sockets = [open_socket(server) for _ in range(count)]
        for opened in self.sockets:
            opened.sendall(opening)

    def drip(self, data: bytes) -> None:
        for opened in self.sockets:
            with suppress(OSError):
                opened.send(data)

    def ended(self) -> bool:
        return all(map(is_closed, self.sockets))

    def open_count(self) -> int:
        return sum(not is_closed(opened) for opened in self.sockets)

    def close(self) -> None:
        for opened in self.sockets:
            opened.close()


class DeafAttack(Attack):
    """Connections that ask for large answers without pause and never read one byte."""

    def __init__(self, server: ServerProcess, count: int, requests: int) -> None:
        super().__init__(server, count, b"")
        flood = memoryview(encode_command(list_topics()) * requests)
        self._left = dict.fromkeys(self.sockets, flood)
        self.dropped: set[socket.socket] = set()

    def push(self) -> None:
        """Send what the server takes; a reset says that it has dropped us."""
        for opened, left in self._left.items():
            try:
                self._left[opened] = left[opened.send(left) :] if left else left
            except BlockingIOError:
                continue
            except OSError:
                self.dropped.add(opened)

    def is_dropped(self) -> bool:
        self.push()
        return len(self.dropped) == len(self.sockets)

    def is_held_back(self) -> bool:
        """Whether the server has stopped taking requests from every one of them."""
        return all(self._left[opened] for opened in self.sockets)


async def test_slow_deaf_and_idle_connections_are_bounded_together(tmp_path: Path) -> None:
    """S5 to S8 at once: dripping, half-open, deaf and idle connections beside a healthy client."""
    frame = encode_command(list_topics())
    limits = {"connectionsPerAddressMax": "2000"}
    with name_server(tmp_path, limits) as server:
        async with healthy_client(server) as taken_s:
            started_s = time.monotonic()
            before_kb = server.resident_kb()
            attacks = {
                "drip": Attack(server, 100, frame[:5]),
                "half": Attack(server, 100, frame[:20]),
                "idle": Attack(server, 1_000, b""),
            }
            deaf = DeafAttack(server, 10, requests=100_000)
            try:
                while time.monotonic() - started_s < FRAME_DEADLINE_S - 5:
                    attacks["drip"].drip(frame[5:6])
                    deaf.push()
                    await asyncio.sleep(0.5)
                assert attacks["half"].open_count() == 100, "dropped before the deadline"
                assert deaf.is_held_back(), "a deaf peer was read from without bound"
                grown_kb = server.resident_kb() - before_kb
                assert grown_kb < 10 * 9 * 1024 + 1_200 * 32 + 32 * 1024, f"{grown_kb} kB"
                left_s = PATIENCE_S - (time.monotonic() - started_s)
                await until(lambda: attacks["drip"].ended() and attacks["half"].ended(), left_s)
                await until(deaf.is_dropped, PATIENCE_S)
                assert attacks["idle"].open_count() == 1_000, "idle is not hostile for two minutes"
            finally:
                for attack in (*attacks.values(), deaf):
                    attack.close()
            answered = len(taken_s)
        assert server.is_alive()
        assert answered > 100
        reasons = server.log.read_text()
        assert "a frame was not complete after 30 s" in reasons
        assert "did not read for 30 s" in reasons


async def test_a_flood_of_connections_stops_at_the_cap_and_ends_with_it(tmp_path: Path) -> None:
    """S6: above the cap connections are refused; once they are gone new ones are served."""
    with name_server(tmp_path, {"connectionsPerAddressMax": "200"}) as server:
        flood = Attack(server, 300, b"")
        try:
            await until(lambda: flood.open_count() == 200, 10)
        finally:
            flood.close()
        async with asyncio.timeout(5), pool_of(server) as ask:
            await ask()
        assert server.log.read_text().count("refused a connection") == 1
