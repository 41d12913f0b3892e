"""A broker is known to every name server that runs, whatever becomes of the others."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from interop.peer.ports import lease_ports
from roketto.broker.config import BrokerConfig
from roketto.broker.registrar import Standing
from roketto.broker.registration import Registration
from roketto.namesrv.app import NameServer
from roketto.namesrv.config import NamesrvConfig
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.registration import decode_registration
from roketto.protocol.bodies.route import TopicRouteData
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.command import Command
from roketto.remoting.connection import Connection, Handler
from roketto.remoting.errors import RemotingError
from roketto.remoting.pool import Pool
from roketto.remoting.server import Server
from roketto.remoting.settings import ServerSettings
from servers import ServerProcess, name_server
from unit.broker.topic_source import MemoryTopics

BROKER = "127.0.0.1:10911"
RECOVERY_S = 30.0
"""What a broker may take to be known again; most of it is only needed on a slow machine."""


@asynccontextmanager
async def names_in(folder: Path, port: int = 0, **options: object) -> AsyncIterator[NameServer]:
    """A name server in this process."""
    config = NamesrvConfig(
        bind_address="127.0.0.1",
        listen_port=port,
        kv_config_path=folder / "kv.json",
        config_store_path=folder / "ns.properties",
    )
    for name, value in options.items():
        assert hasattr(config, name)
        setattr(config, name, value)
    server = NameServer(config)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def imitation(handler: Handler) -> AsyncIterator[str]:
    """A name server that does what ``handler`` says; its address."""
    server = Server(handler, ServerSettings())
    await server.start()
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        await server.stop()


@asynccontextmanager
async def registered(
    topics: MemoryTopics, *addresses: str, **options: object
) -> AsyncIterator[Registration]:
    config = BrokerConfig(
        broker_name="a",
        broker_cluster_name="C",
        broker_ip1="127.0.0.1",
        broker_ip2="127.0.0.1",
        namesrv_addr=";".join(addresses),
    )
    for name, value in options.items():
        assert hasattr(config, name)
        setattr(config, name, value)
    registration = Registration(config, topics, BROKER)
    topics.on_change = registration.announce
    await registration.start()
    try:
        yield registration
    finally:
        await registration.stop()


class User:
    """A client that asks a name server where a topic is."""

    def __init__(self) -> None:
        self.pool = Pool()

    async def route(self, address: str, topic: str = "T1") -> TopicRouteData | None:
        try:
            answer = await self.pool.request(address, Command(105, {"topic": topic}), 2_000)
        except RemotingError:
            return None
        return decode_body(TopicRouteData, answer.body) if answer.code == 0 else None

    async def finds(self, address: str, topic: str = "T1") -> bool:
        found = await self.route(address, topic)
        return found is not None and found.broker_datas[0].broker_addrs == {0: BROKER}

    async def until_found(self, address: str, topic: str = "T1") -> None:
        await until(lambda: self.finds(address, topic))


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(RECOVERY_S):
        while not await is_so():  # noqa: ASYNC110 (the state is that of another process)
            await asyncio.sleep(0.02)


@pytest.fixture
async def user() -> AsyncIterator[User]:
    one = User()
    yield one
    await one.pool.close()


def address_of(server: NameServer) -> str:
    return f"127.0.0.1:{server.port}"


async def test_every_name_server_knows_the_broker_once_it_has_started(
    tmp_path: Path, user: User
) -> None:
    async with names_in(tmp_path / "1") as one, names_in(tmp_path / "2") as two:
        by_name = f"localhost:{two.port}"
        async with registered(MemoryTopics("T1", "T2"), address_of(one), by_name) as broker:
            assert await user.finds(address_of(one))
            assert await user.finds(address_of(two))
            assert set(broker.standings.values()) == {Standing.REGISTERED}


async def test_a_broker_with_one_topic_is_known_too(tmp_path: Path, user: User) -> None:
    async with names_in(tmp_path) as names, registered(MemoryTopics("T1"), address_of(names)):
        assert await user.finds(address_of(names))


async def test_a_compressed_registration_is_understood(tmp_path: Path, user: User) -> None:
    async with (
        names_in(tmp_path) as names,
        registered(MemoryTopics("T1", "T2"), address_of(names), compressed_register=True),
    ):
        assert await user.finds(address_of(names))


async def test_a_stopped_broker_is_forgotten_at_once(tmp_path: Path, user: User) -> None:
    async with names_in(tmp_path) as names:
        async with registered(MemoryTopics("T1", "T2"), address_of(names)):
            assert await user.finds(address_of(names))
        assert not await user.finds(address_of(names))


async def test_name_servers_that_are_down_slow_or_refuse_delay_nobody(
    tmp_path: Path, user: User, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(connection: Connection, request: Command) -> Command:
        return request.answer(1, remark="not today")

    def say_nothing(connection: Connection, request: Command) -> None:
        return None

    async with (
        imitation(refuse) as refusing,
        imitation(say_nothing) as slow,
        names_in(tmp_path) as names,
        registered(
            MemoryTopics("T1", "T2"), "127.0.0.1:1", slow, refusing, address_of(names)
        ) as broker,
    ):
        assert await user.finds(address_of(names))
        assert broker.standings == {
            "127.0.0.1:1": Standing.UNREACHABLE,
            slow: Standing.UNTRIED,
            refusing: Standing.REFUSED,
            address_of(names): Standing.REGISTERED,
        }
    assert "name server 127.0.0.1:1: cannot connect: Connection refused" in caplog.messages
    assert f"name server {refusing}: refuses this broker: 'not today' (code 1)" in caplog.messages
    assert any(slow in line and "no answer within" in line for line in caplog.messages)


async def test_a_new_topic_is_known_at_once(tmp_path: Path, user: User) -> None:
    topics = MemoryTopics("T1", "T2")
    async with names_in(tmp_path) as names, registered(topics, address_of(names)):
        topics.put(TopicConfig(topic_name="T3"))
        await user.until_found(address_of(names), "T3")


async def test_a_clock_that_goes_back_hides_no_change(tmp_path: Path, user: User) -> None:
    topics = MemoryTopics("T1", "T2")
    async with names_in(tmp_path) as names, registered(topics, address_of(names)):
        topics.data_version.timestamp = 1
        topics.put(TopicConfig(topic_name="T1", write_queue_nums=3))

        async def is_changed() -> bool:
            found = await user.route(address_of(names))
            return found is not None and found.queue_datas[0].write_queue_nums == 3

        await until(is_changed)


async def test_many_new_topics_of_a_large_broker_are_one_small_registration() -> None:
    told: list[list[str]] = []
    is_told = asyncio.Event()

    def remember(connection: Connection, request: Command) -> Command:
        if request.code == 103:
            body = decode_registration(request.body, version=request.version)
            told.append(sorted(body.topic_config_serialize_wrapper.topic_config_table))
            if len(told) > 1:
                is_told.set()
        return request.answer(0)

    topics = MemoryTopics(*[f"Old{number}" for number in range(300)])
    async with imitation(remember) as address, registered(topics, address):
        for number in range(5):
            topics.put(TopicConfig(topic_name=f"New{number}"))
        await asyncio.wait_for(is_told.wait(), RECOVERY_S)
    assert [len(names) for names in told] == [300, 5]


async def test_topics_are_kept_where_a_registration_replaces_them(
    tmp_path: Path, user: User
) -> None:
    topics = MemoryTopics("T1", "T2")
    async with (
        names_in(tmp_path, delete_topic_with_broker_registration=True) as names,
        registered(topics, address_of(names)),
    ):
        topics.put(TopicConfig(topic_name="T3"))
        await user.until_found(address_of(names), "T3")
        assert await user.finds(address_of(names), "T1")
        topics.remove("T2")

        async def is_gone() -> bool:
            return await user.route(address_of(names), "T2") is None

        await until(is_gone)


async def test_topics_that_a_name_server_has_as_ordered_become_so(
    tmp_path: Path, user: User
) -> None:
    topics = MemoryTopics("T1", "T2")
    kv = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T1", "value": "a:4"}
    async with names_in(tmp_path) as names:
        answer = await user.pool.request(address_of(names), Command(100, kv), 2_000)
        assert answer.code == 0
        async with registered(topics, address_of(names)):
            assert {name: topic.order for name, topic in topics.topics.items()} == {
                "T1": True, "T2": False,
            }  # fmt: skip


async def test_without_force_a_name_server_that_forgot_us_is_told_again(
    tmp_path: Path, user: User
) -> None:
    async with names_in(tmp_path) as names:
        port = names.port
        async with registered(MemoryTopics("T1", "T2"), address_of(names), force_register=False):
            assert await user.finds(f"127.0.0.1:{port}")
            await names.stop()
            async with names_in(tmp_path / "again", port):
                await user.until_found(f"127.0.0.1:{port}")


@contextmanager
def process(folder: Path, port: int) -> Iterator[ServerProcess]:
    folder.mkdir(exist_ok=True)
    with name_server(folder, {"listenPort": str(port)}) as server:
        yield server


@pytest.mark.timeout(240)
async def test_a_broker_outlives_its_name_servers_and_finds_them_again(
    tmp_path: Path, user: User, caplog: pytest.LogCaptureFixture
) -> None:
    """F24: three are killed one by one, then come back; each is registered with in 30 s."""
    lease = lease_ports(range(3))
    ports = [lease.first + number for number in range(3)]
    addresses = [f"127.0.0.1:{port}" for port in ports]
    topics = MemoryTopics("T1", "T2")
    try:
        with ExitStack() as stack:
            running = [stack.enter_context(process(tmp_path / str(port), port)) for port in ports]
            async with registered(topics, *addresses) as broker:
                for index, server in enumerate(running):
                    for address in addresses[index:]:
                        await user.until_found(address)
                    server.popen.send_signal(signal.SIGKILL)
                    server.popen.wait()
                    topics.put(TopicConfig(topic_name=f"After{index}"))
                    for address in addresses[index + 1 :]:
                        await user.until_found(address, f"After{index}")

                async def all_are_missed() -> bool:
                    return Standing.REGISTERED not in broker.standings.values()

                await until(all_are_missed)
                for port, address in zip(ports, addresses, strict=True):
                    stack.enter_context(process(tmp_path / str(port), port))
                    for index in range(3):
                        await user.until_found(address, f"After{index}")
    finally:
        lease.release()
    for address in addresses:
        lines = [line for line in caplog.messages if line.startswith(f"name server {address}: c")]
        assert len(lines) == 2, lines  # the connection was lost; it cannot be made again
