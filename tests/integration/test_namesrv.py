"""A name server over real sockets: brokers come and go, two servers know nothing of each other."""

import asyncio
import datetime as dt
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from roketto.namesrv.app import NameServer
from roketto.namesrv.config import NamesrvConfig
from roketto.options import ConfigError
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.registration import encode_registration
from roketto.protocol.bodies.route import TopicRouteData
from roketto.protocol.command import Command
from roketto.protocol.headers.base import encode_header
from roketto.protocol.headers.namesrv import NotifyMinBrokerIdChangeRequest
from roketto.remoting.connection import Connection
from roketto.remoting.errors import RemotingError
from roketto.remoting.pool import Pool
from roketto.remoting.server import Server
from roketto.remoting.settings import ServerSettings
from roketto.remoting.tls import client_context
from unit.namesrv.brokers import Broker

TIMEOUT_MS = 5_000


class Client:
    """One connection to one name server."""

    def __init__(self, server: NameServer) -> None:
        self.address = f"127.0.0.1:{server.port}"
        self.pool = Pool()

    async def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
        return await self.pool.request(self.address, Command(code, ext, body), TIMEOUT_MS)

    async def register(self, broker: Broker) -> None:
        said = broker.said()
        body = encode_registration(said.body)
        crc = {"bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF)}
        assert (await self.ask(103, encode_header(said.header) | crc, body)).code == 0

    async def route(self, topic: str = "T1") -> TopicRouteData | None:
        answer = await self.ask(105, {"topic": topic})
        assert answer.code in (0, 17)
        return decode_body(TopicRouteData, bytes(answer.body)) if answer.code == 0 else None


@asynccontextmanager
async def running(tmp_path: Path, **options: object) -> AsyncIterator[NameServer]:
    config = NamesrvConfig(
        bind_address="127.0.0.1",
        listen_port=0,
        kv_config_path=tmp_path / "kv.json",
        config_store_path=tmp_path / "ns.properties",
        scan_not_active_broker_interval=100,
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
async def client_of(server: NameServer) -> AsyncIterator[Client]:
    client = Client(server)
    try:
        yield client
    finally:
        await client.pool.close()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110 (the state is that of another task)
            await asyncio.sleep(0.01)


async def until_gone(client: Client) -> None:
    async with asyncio.timeout(10):
        while await client.route() is not None:  # noqa: ASYNC110 (the server decides)
            await asyncio.sleep(0.01)


async def test_client_finds_what_a_broker_registered(tmp_path: Path) -> None:
    async with running(tmp_path) as server, client_of(server) as broker, client_of(server) as user:
        assert await user.route() is None
        await broker.register(Broker())
        found = await user.route()
        assert found is not None
        assert found.broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}


async def test_broker_is_gone_when_its_connection_closes(tmp_path: Path) -> None:
    async with running(tmp_path) as server, client_of(server) as user:
        async with client_of(server) as broker:
            await broker.register(Broker())
            assert await user.route() is not None
        await until_gone(user)


async def test_silent_broker_is_dropped_by_the_scan(tmp_path: Path) -> None:
    async with running(tmp_path) as server, client_of(server) as broker, client_of(server) as user:
        await broker.register(Broker(timeout_ms=50))
        assert await user.route() is not None
        await until_gone(user)


async def test_refused_registration_is_answered_with_its_reason(tmp_path: Path) -> None:
    async with running(tmp_path) as server, client_of(server) as broker:
        said = Broker().said(("T1",))
        answer = await broker.ask(103, encode_header(said.header), encode_registration(said.body))
        assert (answer.code, answer.remark) == (1, "register broker failed")


async def test_unknown_code_is_answered_and_the_connection_lives(tmp_path: Path) -> None:
    async with running(tmp_path) as server, client_of(server) as user:
        answer = await user.ask(4711)
        assert (answer.code, answer.remark) == (3, " request type 4711 not supported")
        assert (await user.ask(106)).code == 0


async def test_two_name_servers_know_nothing_of_each_other(tmp_path: Path) -> None:
    async with (
        running(tmp_path / "one") as one,
        running(tmp_path / "two") as two,
        client_of(one) as at_one,
        client_of(two) as at_two,
    ):
        await at_one.register(Broker())
        assert await at_one.route() is not None
        assert await at_two.route() is None


async def test_only_kv_configuration_survives_a_restart(tmp_path: Path) -> None:
    kv = {"namespace": "n", "key": "k"}
    async with running(tmp_path) as server, client_of(server) as user:
        await user.register(Broker())
        assert (await user.ask(100, kv | {"value": "v"})).code == 0
    async with running(tmp_path) as server, client_of(server) as user:
        assert (await user.ask(101, kv)).ext == {"value": "v"}
        assert await user.route() is None


async def test_members_are_told_of_a_new_smallest_id(tmp_path: Path) -> None:
    told: list[Command] = []

    def remember(connection: Connection, request: Command) -> None:
        told.append(request)

    member = Server(remember, ServerSettings())
    await member.start()
    slave = Broker(address=f"127.0.0.1:{member.port}", broker_id=1, acting_master=True)
    try:
        async with (
            running(tmp_path, notify_min_broker_id_changed=True) as server,
            client_of(server) as slave_side,
        ):
            await slave_side.register(slave)
            async with client_of(server) as master_side:
                await master_side.register(Broker(acting_master=True))
                await until(lambda: len(told) == 1)
            await until(lambda: len(told) == 2)
    finally:
        await member.stop()
    assert [request.code for request in told] == [905, 905]
    assert all(request.is_one_way for request in told)
    came = NotifyMinBrokerIdChangeRequest(
        min_broker_id=0, min_broker_addr="10.0.0.1:10911", ha_broker_addr="ha of 10.0.0.1:10911"
    )
    went = NotifyMinBrokerIdChangeRequest(
        min_broker_id=1, min_broker_addr=slave.address, offline_broker_addr="10.0.0.1:10911"
    )
    assert [request.ext for request in told] == [encode_header(came), encode_header(went)]


async def test_unreachable_member_is_one_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slave = Broker(address="127.0.0.1:1", broker_id=1, acting_master=True)
    async with (
        running(tmp_path, notify_min_broker_id_changed=True) as server,
        client_of(server) as broker,
    ):
        await broker.register(slave)
        await broker.register(Broker(acting_master=True))
        await until(lambda: "127.0.0.1:1: cannot connect" in caplog.text)


async def test_connection_cap_of_the_configuration_holds(tmp_path: Path) -> None:
    async with running(tmp_path, connections_max=1) as server, client_of(server) as user:
        assert (await user.ask(106)).code == 0
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert await reader.read() == b""
        writer.close()
        assert (await user.ask(106)).code == 0


def certificate_in(folder: Path) -> dict[str, object]:
    """Write a self-signed certificate and its encrypted key; return the options that name them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "roketto test")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    encryption = serialization.BestAvailableEncryption(b"hush")
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "cert.pem").write_bytes(certificate.public_bytes(pem))
    (folder / "key.pem").write_bytes(key.private_bytes(pem, pkcs8, encryption))
    return {
        "tls_server_cert_path": str(folder / "cert.pem"),
        "tls_server_key_path": str(folder / "key.pem"),
        "tls_server_key_password": "hush",
    }


@pytest.mark.parametrize(
    ("mode", "takes_plain", "takes_tls"),
    [("permissive", True, True), ("enforcing", False, True), ("disabled", True, False)],
)
async def test_tls_mode_decides_who_is_served(
    tmp_path: Path, mode: str, takes_plain: bool, takes_tls: bool
) -> None:
    options = certificate_in(tmp_path)
    async with running(tmp_path, tls_server_mode=mode, **options) as server:
        for tls, is_taken in ((None, takes_plain), (client_context(verify=False), takes_tls)):
            pool = Pool(tls=tls)
            try:
                answer = await pool.request(f"127.0.0.1:{server.port}", Command(106), TIMEOUT_MS)
                assert is_taken
                assert answer.code == 0
            except RemotingError:
                assert not is_taken
            finally:
                await pool.close()


async def test_enforced_tls_needs_a_certificate(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tls\.server\.certPath"):
        async with running(tmp_path, tls_server_mode="enforcing"):
            pass


async def test_server_that_was_never_started_can_be_stopped(tmp_path: Path) -> None:
    config = NamesrvConfig(kv_config_path=tmp_path / "kv.json", listen_port=0)
    await NameServer(config).stop()
