"""Clients find their servers, also when these move, fail, hide behind TLS or are named wrongly."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from integration.client.certificates import make_certificate
from integration.client.gate import Gate
from integration.client.pull_rig import PullRig, until
from integration.client.push_rig import Heard, push
from interop.peer.ports import lease_ports
from interop.peer.servers import BROKER_PORTS
from roketto.client.client import Client
from roketto.client.errors import (
    ClientClosedError,
    ClientError,
    NoNameServerError,
    RefusedError,
    SendFailedError,
    TopicNotFoundError,
    UnreachableError,
    UnreadableError,
)
from roketto.client.lite_pull import LitePullConsumer
from roketto.client.message import Message, MessageQueue
from roketto.client.positions import FromWhere
from roketto.client.producer import Producer
from roketto.client.pull import PullConsumer
from roketto.client.push import PushConsumer
from roketto.client.settings import ClientSettings, Credentials
from roketto.client.transaction import TransactionProducer
from roketto.protocol.bodies.connections import GetConsumerListByGroupResponseBody
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.clients import GetConsumerListByGroupRequest
from roketto.protocol.signing import verify
from roketto.remoting.server import Server
from roketto.remoting.settings import ServerSettings
from roketto.remoting.tls import TlsFiles, client_context
from servers import ServerProcess, broker, name_server

Servers = tuple[ServerProcess, ServerProcess, TlsFiles, Path]
ON_ITS_OWN = {"autoCreateTopicEnable": "false", "brokerClusterName": "OwnCluster"}
"""A broker beside the one of all tests: topics are not made on it by themselves."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """A name server that also speaks TLS, and a broker that speaks it, too."""
    folder: Path = tmp_path_factory.mktemp("cluster")
    files = make_certificate(folder)
    tls = {
        "tls.server.mode": "permissive",
        "tls.server.certPath": str(files.certificate),
        "tls.server.keyPath": str(files.key),
    }
    with name_server(folder, tls) as names, broker(folder, [names.address], tls) as server:
        yield names, server, files, folder


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be said by the environment that a test does not say itself."""
    for name in ("ROCKETMQ_NAMESRV_ADDR", "NAMESRV_ADDR", "ROCKETMQ_NAMESRV_DOMAIN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def rig(servers: Servers) -> AsyncIterator[PullRig]:
    async with PullRig(servers[0].address, servers[1].address) as made:
        yield made


async def members(rig: PullRig, address: str, group: str) -> list[str]:
    """The client ids that a broker knows of a group."""
    try:
        body = await rig.client.calls.ask_for_body(
            GetConsumerListByGroupResponseBody,
            address,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP,
            GetConsumerListByGroupRequest(consumer_group=group),
        )
    except (RefusedError, UnreachableError):  # nobody is there, or not even the broker
        return []
    return body.consumer_id_list


# --- name servers ---------------------------------------------------------------------------------


@contextmanager
def address_server(text: Callable[[str], str | None]) -> Iterator[str]:
    """An HTTP server that answers a path with a text, or None with status 404."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = text(self.path)
            self.send_response(404 if found is None else 200)
            self.end_headers()
            self.wfile.write((found or "").encode())

        def log_message(self, *_: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("variable", ["ROCKETMQ_NAMESRV_ADDR", "NAMESRV_ADDR"])
async def test_the_environment_says_where_name_servers_are(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, servers[0].address)
    async with Client() as client:
        assert (await client.routes.get("TBW102")).advertiser == servers[0].address
        assert client.names.source == f"${variable}"


async def test_an_address_server_says_where_name_servers_are_now(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each unit has its page; when the list changes clients follow, when it fails they stay."""
    dead, alive = "127.0.0.1:1", servers[0].address
    pages: dict[str, str | None] = {"/rocketmq/nsaddr-u1?nofix=1": f"{dead}\nsecond line"}
    with address_server(pages.get) as domain:
        monkeypatch.setenv("ROCKETMQ_NAMESRV_DOMAIN", domain)
        async with Client(ClientSettings(unit_name="u1")) as client:
            assert client.names.addresses == [dead]
            with pytest.raises(NoNameServerError, match=f"from the address server http://{domain}"):
                await client.routes.get("TBW102")
            pages["/rocketmq/nsaddr-u1?nofix=1"] = f"  {alive};{dead}  \n"
            await client.names.refresh()
            assert set(client.names.addresses) == {alive, dead}
            assert (await client.routes.get("TBW102")).advertiser == alive
            pages.clear()
            await client.names.refresh()
            assert set(client.names.addresses) == {alive, dead}
        async with Client(ClientSettings(unit_name="none")) as lost:
            with pytest.raises(NoNameServerError, match="there are none"):
                await lost.routes.get("TBW102")


async def test_name_servers_are_left_and_come_back_to(tmp_path: Path) -> None:
    """One goes: the other one is asked. It comes back and the other one goes: it is asked again."""
    lease = lease_ports()
    with name_server(tmp_path) as second:
        first = f"127.0.0.1:{lease.first}"
        port = {"listenPort": str(lease.first)}
        settings = ClientSettings(name_servers=[first, second.address])
        try:
            async with Client(settings) as client:
                client.names._at = client.names.addresses.index(first)
                with name_server(tmp_path, port):
                    assert await _who_answers(client) == first
                assert await _who_answers(client) == second.address
                with name_server(tmp_path, port):
                    assert await _who_answers(client) == second.address
                    second.popen.terminate()
                    second.popen.wait()
                    await until(lambda: _is_answered_by(client, first))
        finally:
            lease.release()


async def _who_answers(client: Client) -> str:
    await client.calls.ask_names(RequestCode.GET_BROKER_CLUSTER_INFO)
    return client.names.current


async def _is_answered_by(client: Client, address: str) -> bool:
    try:
        return await _who_answers(client) == address
    except NoNameServerError:  # for a moment: it was tried while it was down
        return False


@asynccontextmanager
async def babbling(data: bytes) -> AsyncIterator[str]:
    """A server that says something to everybody, and reads nothing."""

    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await reader.read()
        writer.close()

    async with await asyncio.start_server(babble, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_name_server_that_babbles_is_passed_over(servers: Servers) -> None:
    """One that is none at all, and one whose frames are right and whose routes are nonsense."""
    names = servers[0].address
    nonsense = Server(lambda _, request: request.answer(body=b'{"queueDatas":7}'), ServerSettings())
    await nonsense.start()
    odd = f"127.0.0.1:{nonsense.port}"
    try:
        async with babbling(b"HTTP/1.1 400 Bad Request\r\n\r\n") as web:
            for wrong in (web, odd):
                async with Client(ClientSettings(name_servers=[wrong, names])) as client:
                    client.names._at = client.names.addresses.index(wrong)
                    assert (await client.routes.get("TBW102")).advertiser == names
            async with Client(ClientSettings(name_servers=web)) as client:
                with pytest.raises(NoNameServerError, match=f"{web}: connection lost"):
                    await client.routes.get("TBW102")
            async with Client(ClientSettings(name_servers=odd)) as client:
                with pytest.raises(UnreadableError, match=f"^{odd} has answered with what cannot"):
                    await client.routes.get("TBW102")
    finally:
        await nonsense.stop()


# --- brokers that move ----------------------------------------------------------------------------


async def test_a_broker_that_is_killed_knows_its_consumers_soon_after_its_restart(
    rig: PullRig, tmp_path: Path
) -> None:
    """Within two seconds of its registration, although heartbeats go out every 30 s."""
    config = {**ON_ITS_OWN, "brokerName": "broker-k"}
    heard = Heard()
    async with AsyncExitStack() as stack:
        lease = lease_ports(BROKER_PORTS)
        stack.callback(lease.release)
        with broker(tmp_path, [rig.names], config, lease) as server:
            rig.address = address = server.address
            topic = await rig.topic(queues=2)
            pushed = push(rig, topic, "pushed", listener=heard)
            polled = LitePullConsumer("polled", rig.names, from_where=FromWhere.FIRST)
            polled.subscribe(topic)
            asked = PullConsumer("asked", rig.names, topics=[topic])
            ids = {one.group: one.client.id for one in (pushed, polled, asked)}
            for consumer in (pushed, polled, asked):
                await stack.enter_async_context(consumer)

            async def are_known() -> bool:
                return all([await members(rig, address, name) == [ids[name]] for name in ids])

            await until(are_known)
            server.popen.kill()
            server.popen.wait()
        with broker(tmp_path, [rig.names], config, lease):
            await until(lambda: _is_answered(asked, topic))  # it does nothing by itself
            await until(are_known, wait_s=2.5)
            await until(lambda: _sends(rig, topic, "again"))
            await heard.all_of(["again"])
            assert [one.body for one in await polled.poll(5_000)] == [b"again"]
            await stack.aclose()


async def _is_answered(consumer: PullConsumer, topic: str) -> bool:
    try:
        return await consumer.max_offset(MessageQueue("broker-k", 0, topic)) >= 0
    except UnreachableError:
        return False


async def _sends(rig: PullRig, topic: str, body: str) -> bool:
    try:
        await rig.send(topic, [body])
    except ClientError:
        return False
    return True


async def test_a_broker_on_another_port_is_found_there(rig: PullRig, tmp_path: Path) -> None:
    """By a producer with its next attempt, by consumers in about a second; nothing is lost."""
    config = {**ON_ITS_OWN, "brokerName": "broker-m"}
    heard = Heard()
    producer = Producer("movers", rig.names)
    async with AsyncExitStack() as stack:
        with broker(tmp_path, [rig.names], config) as server:
            rig.address = old = server.address
            topic = await rig.topic(queues=2)
            consumer = push(rig, topic, "moved", listener=heard)
            await stack.enter_async_context(producer)
            await stack.enter_async_context(consumer)
            await producer.send(Message(topic, b"before"))
            await heard.all_of(["before"])
        with broker(tmp_path, [rig.names], config) as server:
            assert server.address != old
            assert (await producer.send(Message(topic, b"after"))).is_ok
            assert producer.client.routes.brokers()["broker-m"] == {0: server.address}
            await heard.all_of(["after"], wait_s=5)
            assert await members(rig, server.address, "moved") == [consumer.client.id]
            await stack.aclose()
    assert set(heard.counts.values()) == {1}


async def test_a_broker_that_advertises_a_wrong_address_is_named_with_the_remedy(
    rig: PullRig, tmp_path: Path
) -> None:
    wrong = {
        **ON_ITS_OWN, "brokerName": "broker-w", "brokerIP1": "127.0.0.2",
        "bindAddress": "127.0.0.1",
    }  # fmt: skip
    with broker(tmp_path, [rig.names], wrong) as server:
        rig.address = server.address
        topic = await rig.topic()
        async with Producer("wanderers", rig.names) as producer:
            with pytest.raises(SendFailedError) as raised:
                await producer.send(Message(topic, b"x"))
        assert not raised.value.may_be_stored
        assert str(raised.value.attempts[0]) == (
            f"broker broker-w at 127.0.0.2:{server.port} (as name server {rig.names} says): cannot"
            " connect: Connection refused; if that is not where it runs, set brokerIP1 there to an"
            " address that clients can reach"
        )


async def test_what_is_not_there_is_said_with_who_was_asked(rig: PullRig) -> None:
    with pytest.raises(TopicNotFoundError) as unknown:
        await rig.client.routes.get("Nowhere")
    assert str(unknown.value) == (
        f"topic Nowhere: {rig.names} knows no route to it; create it, or check the name"
    )
    async with Client(ClientSettings(name_servers="127.0.0.1:1")) as client:
        with pytest.raises(NoNameServerError) as alone:
            await client.routes.get("Nowhere")
    assert str(alone.value) == (
        "no name server answers (127.0.0.1:1: cannot connect: Connection refused); their addresses"
        " come from the code: start one (roketto up), or set name_servers or $ROCKETMQ_NAMESRV_ADDR"
    )


# --- who may speak --------------------------------------------------------------------------------


async def test_traffic_goes_through_tls_and_only_to_servers_that_are_trusted(
    servers: Servers,
) -> None:
    names, _, files, _ = servers
    heard = Heard()
    settings = ClientSettings(name_servers=names.address, tls=client_context(files))
    async with (
        Producer("hidden", settings=settings) as producer,
        PushConsumer(
            "hidden", settings=settings, topics={"Hidden": "*"}, listener=heard,
            from_where=FromWhere.FIRST,
        ) as consumer,
    ):  # fmt: skip
        await producer.send(Message("Hidden", b"secret"))
        consumer.rebalance_soon()
        await heard.all_of(["secret"])
    strict = ClientSettings(name_servers=names.address, tls=client_context())
    async with Client(strict) as client:
        with pytest.raises(NoNameServerError, match=r"(?i)certificate.verify.failed"):
            await client.routes.get("TBW102")


async def test_everything_that_leaves_a_client_is_signed(servers: Servers) -> None:
    """Sends, one-way sends, ends of transactions, pulls, locks, offsets, routes, heartbeats."""
    names, server, _, _ = servers
    credentials = Credentials("ak", "sk")

    def look(request: Command) -> None:
        ext = request.ext or {}
        assert (ext["nsd"], ext["ns"]) == ("true", "blue")
        verify("sk", ext, request.body, request.version)

    heard = Heard()
    async with Gate(names.address, server.address, look).open() as gate:
        settings = ClientSettings(
            name_servers=gate.address, credentials=credentials, namespace_v2="blue",
            namespace="tenant", offsets_interval_s=0.05,
        )  # fmt: skip
        async with Client(settings) as client:
            producer = TransactionProducer("signers", client=client)
            await producer.start()
            await producer.send(Message("Signed", b"plain"))
            await producer.send_one_way(Message("Signed", b"one way"))
            async with producer.transaction(Message("Signed", b"in a transaction")):
                pass
            async with PushConsumer(
                "signers", client=client, topics={"Signed": "*"}, listener=heard, in_order=True,
                from_where=FromWhere.FIRST,
            ):  # fmt: skip
                await heard.all_of(["plain", "one way", "in a transaction"])

                async def is_committed() -> bool:
                    return RequestCode.UPDATE_CONSUMER_OFFSET in gate.codes

                await until(is_committed)
            await producer.stop()
        assert heard.messages[0].topic == "Signed"
        assert heard.messages[0].record.topic == "tenant%Signed"
    send, end = RequestCode.SEND_MESSAGE_V2, RequestCode.END_TRANSACTION
    assert gate.codes >= {
        send, -send, -end, RequestCode.PULL_MESSAGE, RequestCode.LOCK_BATCH_MQ,
        RequestCode.UNLOCK_BATCH_MQ, RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.HEART_BEAT,
        RequestCode.UNREGISTER_CLIENT, RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.QUERY_CONSUMER_OFFSET,
    }  # fmt: skip


# --- one client for several -----------------------------------------------------------------------


async def test_a_producer_and_two_consumers_share_a_client_to_the_end(rig: PullRig) -> None:
    """One id, one connection to each server; the last one that stops closes it."""
    topic = await rig.topic(queues=2)
    client = Client(ClientSettings(name_servers=rig.names))
    first, second = Heard(), Heard()
    producer = Producer("sharers", client=client)
    consumers = [
        PushConsumer(
            group, client=client, topics={topic: "*"}, listener=heard, from_where=FromWhere.FIRST
        )
        for group, heard in (("shared-1", first), ("shared-2", second))
    ]
    tasks = asyncio.all_tasks()
    await producer.start()
    for consumer in consumers:
        await consumer.start()
    await producer.send(Message(topic, b"for both"))
    await asyncio.gather(first.all_of(["for both"]), second.all_of(["for both"]))
    assert client.pool._connections.keys() == {rig.names, rig.address}
    for group in ("shared-1", "shared-2"):
        assert await members(rig, rig.address, group) == [client.id]
    await consumers[0].stop()
    assert await members(rig, rig.address, "shared-1") == []
    await producer.stop()
    await rig.send(topic, ["for one"])
    await second.all_of(["for one"])
    client.check_started()
    await consumers[1].stop()
    assert asyncio.all_tasks() <= tasks
    for call in (producer.send(Message(topic, b"late")), client.routes.refresh(topic)):
        with pytest.raises(ClientClosedError):
            await call
    assert await members(rig, rig.address, "shared-2") == []


async def test_an_unknown_code_is_refused_and_the_connection_stays(rig: PullRig) -> None:
    answer = await rig.client.calls.ask(rig.address, 29_999)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert rig.address in rig.client.pool._connections
