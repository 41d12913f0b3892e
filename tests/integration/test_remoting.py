"""Server, client and pool over real sockets: caps, reconnecting, stopping, TLS beside plain."""

import asyncio
import datetime as dt
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from roketto.protocol.codes import ResponseCode
from roketto.protocol.command import Command
from roketto.remoting.client import connect
from roketto.remoting.connection import Connection, Handler, Reply
from roketto.remoting.errors import ConnectError, ConnectionLostError, RequestTimeoutError
from roketto.remoting.pool import Pool
from roketto.remoting.server import Server
from roketto.remoting.settings import ConnectionSettings, ServerSettings
from roketto.remoting.tls import TlsError, TlsFiles, client_context, server_context


def echo(connection: Connection, request: Command) -> Command:
    return request.answer(0, request.ext, bytes(request.body))


@asynccontextmanager
async def serving(handler: Handler = echo, **settings: object) -> AsyncIterator[Server]:
    server = Server(handler, ServerSettings(**settings))  # type: ignore[arg-type]
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def pooled(**settings: object) -> AsyncIterator[Pool]:
    pool = Pool(**settings)  # type: ignore[arg-type]
    try:
        yield pool
    finally:
        await pool.close()


def address_of(server: Server) -> str:
    return f"127.0.0.1:{server.port}"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 (the condition is somebody else's state)
            await asyncio.sleep(0.005)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_a_request_travels_there_and_back() -> None:
    """Fields and a body larger than any socket buffer survive the round trip."""
    async with serving() as server, pooled() as pool:
        body = bytes(range(256)) * 20_000
        answer = await pool.request(address_of(server), Command(1, {"k": "é"}, body), 5_000)
        assert answer.ext == {"k": "é"}
        assert answer.body == body


async def test_many_requests_share_one_connection() -> None:
    """A thousand concurrent callers, one connection, each with its own answer."""
    async with serving() as server, pooled() as pool:
        answers = await asyncio.gather(
            *(
                pool.request(address_of(server), Command(1, body=b"%d" % number), 5_000)
                for number in range(1_000)
            )
        )
        assert [int(bytes(answer.body)) for answer in answers] == list(range(1_000))
        assert len(server.connections) == 1


async def test_the_server_asks_over_the_clients_connection() -> None:
    """Requests go both ways on one connection; one-way ones too."""
    told: list[bytes] = []

    def client_side(connection: Connection, request: Command) -> Reply:
        if request.is_one_way:
            told.append(bytes(request.body))
            return None
        return request.answer(42)

    async def server_side(connection: Connection, request: Command) -> Command:
        connection.send_one_way(Command(40, body=b"changed"))
        asked = await connection.request(Command(307), 1_000)
        return request.answer(asked.code)

    async with serving(server_side) as server, pooled(handler=client_side) as pool:
        answer = await pool.request(address_of(server), Command(1), 5_000)
        assert answer.code == 42
        assert told == [b"changed"]
        assert await pool.send_one_way(address_of(server), Command(1))


async def test_a_silent_server_times_out() -> None:
    """None from a handler is no answer; the caller's bound ends the wait."""
    async with serving(lambda connection, request: None) as server, pooled() as pool:
        with pytest.raises(RequestTimeoutError, match="no answer to request code 1 within"):
            await pool.request(address_of(server), Command(1), 50)


async def test_a_refused_connection_says_which_address_and_backs_off() -> None:
    """The first failure is the system's; the next comes at once and says when it ends."""
    async with pooled() as pool:
        address = f"127.0.0.1:{free_port()}"
        with pytest.raises(ConnectError, match=f"^{address}: cannot connect: .*refused"):
            await pool.request(address, Command(1), 1_000)
        with pytest.raises(ConnectError, match=r"refused; next attempt in 0\.\d s"):
            await pool.request(address, Command(1), 1_000)


async def test_the_pool_connects_again_after_the_server_came_back() -> None:
    """A restart on the same port is survived by the same pool."""
    port = free_port()
    async with pooled() as pool:
        for _ in range(2):
            async with serving(port=port):
                assert (await pool.request(f"127.0.0.1:{port}", Command(1), 1_000)).code == 0
                connection = await pool.connection(f"127.0.0.1:{port}", 1_000)
            await until(lambda connection=connection: connection.closed)  # type: ignore[misc]
        with pytest.raises(ConnectError):
            await pool.request(f"127.0.0.1:{port}", Command(1), 1_000)
        async with serving(port=port):
            await asyncio.sleep(0.25)  # longer than the first back-off
            assert (await pool.request(f"127.0.0.1:{port}", Command(1), 1_000)).code == 0


@pytest.mark.parametrize("address", ["nowhere", "host:", ":1", "host:99999", "host:x"])
async def test_what_is_not_an_address_is_said_so(address: str) -> None:
    """The error shows what an address looks like."""
    with pytest.raises(ConnectError, match=r"write host:port, for example 127\.0\.0\.1:9876"):
        await connect(address)


async def test_a_connection_that_is_never_made_ends_in_time() -> None:
    """A listener whose queue is full does not answer; the connect time-out does."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        fillers = [socket.socket() for _ in range(4)]
        try:
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(deaf.getsockname())
            with pytest.raises(ConnectError, match="no connection within 100 ms"):
                await connect(address, timeout_ms=100)
        finally:
            for filler in fillers:
                filler.close()


async def test_go_away_makes_the_pool_connect_anew_and_ask_once_more() -> None:
    """A server that stops sends clients to a fresh connection."""
    seen: list[Connection] = []

    def leave_once(connection: Connection, request: Command) -> Command:
        seen.append(connection)
        return request.answer(ResponseCode.GO_AWAY if len(seen) == 1 else ResponseCode.SUCCESS)

    async with serving(leave_once) as server, pooled() as pool:
        assert (await pool.request(address_of(server), Command(1), 1_000)).code == 0
        assert len(seen) == 2
        assert seen[0] is not seen[1]


async def test_whoever_wants_to_know_hears_of_each_connection_that_begins_or_ends() -> None:
    """By the address that was asked for, which also errors have, whatever it resolves to."""
    port = free_port()
    address = f"localhost:{port}"
    made: list[str] = []
    ended: list[str] = []
    async with pooled() as pool:
        pool.on_connect, pool.on_disconnect = made.append, ended.append
        for _ in range(2):
            async with serving(port=port):
                await pool.request(address, Command(1), 1_000)
                await pool.request(address, Command(1), 1_000)
                connection = await pool.connection(address, 1_000)
            await until(lambda connection=connection: connection.closed)  # type: ignore[misc]
        assert made == ended == [address] * 2
        assert connection.peer == address


async def test_a_connection_on_which_nothing_comes_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But not where only one answer of several is missing, or there was little time for it."""
    monkeypatch.setattr("roketto.remoting.pool._SILENCE_MS", 50)

    def answer_some(connection: Connection, request: Command) -> Reply:
        return request.answer() if request.code == 2 else None

    async def ask_beside(pool: Pool, address: str) -> None:
        await asyncio.sleep(0.01)
        await pool.request(address, Command(2), 1_000)

    async with serving(answer_some) as server, pooled() as pool:
        address = address_of(server)
        first = await pool.connection(address, 1_000)
        with pytest.raises(RequestTimeoutError):
            await pool.request(address, Command(1), 20)
        beside = asyncio.create_task(ask_beside(pool, address))
        with pytest.raises(RequestTimeoutError):
            await pool.request(address, Command(1), 50)
        await beside
        assert await pool.connection(address, 1_000) is first
        other = asyncio.create_task(pool.request(address, Command(1), 30_000))
        with pytest.raises(RequestTimeoutError):
            await pool.request(address, Command(1), 50)
        with pytest.raises(ConnectionLostError, match="connection lost: nothing came for 50 ms"):
            await other
        assert await pool.connection(address, 1_000) is not first
        assert (await pool.request(address, Command(2), 1_000)).code == 0


async def test_closing_a_pool_ends_what_servers_have_asked_of_it() -> None:
    ended = asyncio.Event()
    begun = asyncio.Event()

    async def work(connection: Connection, request: Command) -> Command:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)  # it takes a moment to end
            ended.set()
        return request.answer()

    def ask_back(connection: Connection, request: Command) -> Reply:
        connection.send_one_way(Command(307))
        return request.answer()

    async with serving(ask_back) as server, pooled(handler=work) as pool:
        await pool.request(address_of(server), Command(1), 1_000)
        await begun.wait()
        await pool.close()
        assert ended.is_set()


async def test_connections_above_the_caps_are_refused_and_accepted_again_later() -> None:
    """The cap in all, the cap per address, and room again after one has gone."""
    for cap in ("connections_max", "connections_per_address_max"):
        async with serving(echo, **{cap: 2}) as server:
            held = [await connect(address_of(server)) for _ in range(2)]
            for connection in held:
                await connection.request(Command(1), 1_000)
            refused = await connect(address_of(server))
            with pytest.raises(ConnectionLostError):
                await refused.request(Command(1), 1_000)
            assert server.refused == 1
            held.pop().close("room")
            await until(lambda server=server: len(server.connections) == 1)  # type: ignore[misc]
            held.append(await connect(address_of(server)))
            assert (await held[-1].request(Command(1), 1_000)).code == 0
            for connection in held:
                connection.close("done")
            await until(lambda server=server: not server.connections)  # type: ignore[misc]


async def test_stopping_lets_answers_under_way_go_out() -> None:
    """A request that was accepted is answered; one that comes later is sent elsewhere."""
    entered = asyncio.Event()

    async def slow(request: Command) -> Command:
        entered.set()
        await asyncio.sleep(0.1)
        return request.answer(77)

    async with serving(lambda connection, request: slow(request)) as server, pooled() as pool:
        call = asyncio.create_task(pool.request(address_of(server), Command(1), 5_000))
        await entered.wait()
        connection = await pool.connection(address_of(server), 1_000)
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0.02)
        late = await connection.request(Command(1), 1_000)
        old = await connection.request(Command(1, version=407), 1_000)
        assert late.code == ResponseCode.GO_AWAY
        assert old.code == 77
        assert (await call).code == 77
        await stopping


async def test_stopping_does_not_wait_for_ever() -> None:
    """A handler that never ends is cut off after the grace time."""

    async def stuck(request: Command) -> Command:
        await asyncio.sleep(3600)
        raise AssertionError

    async with serving(lambda connection, request: stuck(request), stop_grace_s=0.05) as server:
        connection = await connect(address_of(server))
        call = asyncio.create_task(connection.request(Command(1), 5_000))
        await until(lambda: any(peer.tasks for peer in server.connections))
        await server.stop()
        with pytest.raises(ConnectionLostError):
            await call


async def test_a_busy_port_is_the_callers_error() -> None:
    """Nothing is left half started."""
    async with serving() as server:
        second = Server(echo, ServerSettings(port=server.port))
        with pytest.raises(OSError, match=r"[Aa]ddress already in use"):
            await second.start()


async def test_an_idle_connection_is_closed_by_the_servers_sweep() -> None:
    """The deadlines are enforced by the server itself, about once a second."""
    limits = ConnectionSettings(idle_s=0.05)
    async with serving(connection=limits) as server:
        connection = await connect(address_of(server))
        await until(lambda: connection.closed)


# --- TLS ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """A self-signed certificate for 127.0.0.1."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "roketto test")])
    now = dt.datetime.now(dt.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = TlsFiles(
        certificate=folder / "cert.pem",
        key=folder / "key.pem",
        key_password="hush",
        trusted=folder / "cert.pem",
    )
    assert files.certificate is not None
    assert files.key is not None
    files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"hush"),
        )
    )
    return files


async def test_tls_and_plain_share_the_port(tls_files: TlsFiles) -> None:
    """Java's permissive mode: the first byte decides."""
    async with serving(tls=server_context(tls_files)) as server:
        for tls in (None, client_context(tls_files), client_context(verify=False)):
            async with pooled(tls=tls) as pool:
                answer = await pool.request(
                    address_of(server), Command(1, body=b"x" * 99_999), 5_000
                )
                assert len(answer.body) == 99_999


async def test_plain_is_refused_where_tls_is_required(tls_files: TlsFiles) -> None:
    """Java's enforcing mode."""
    async with serving(tls=server_context(tls_files), tls_required=True) as server:
        async with pooled() as pool:
            with pytest.raises(ConnectionLostError):
                await pool.request(address_of(server), Command(1), 1_000)
        async with pooled(tls=client_context(tls_files)) as pool:
            assert (await pool.request(address_of(server), Command(1), 5_000)).code == 0


async def test_a_client_without_certificate_is_refused_where_one_is_required(
    tls_files: TlsFiles,
) -> None:
    """Mutual TLS."""
    context = server_context(tls_files, client_certificate="require")
    async with serving(tls=context) as server:
        async with pooled(tls=client_context(tls_files)) as pool:
            assert (await pool.request(address_of(server), Command(1), 5_000)).code == 0
        without = client_context(TlsFiles(trusted=tls_files.trusted))
        async with pooled(tls=without) as pool:
            with pytest.raises((ConnectionLostError, ConnectError)):
                await pool.request(address_of(server), Command(1), 5_000)


async def test_a_server_that_is_not_trusted_is_not_talked_to(tls_files: TlsFiles) -> None:
    """Verification is on unless it is switched off by name."""
    async with serving(tls=server_context(tls_files)) as server:
        with pytest.raises(ConnectError, match=r"certificate verify failed|CERTIFICATE_VERIFY"):
            await connect(address_of(server), tls=client_context())


async def test_garbage_instead_of_a_handshake_leaves_the_server_alive(tls_files: TlsFiles) -> None:
    """A ClientHello that is none, a peer that hangs up before its first byte, old versions."""
    async with serving(tls=server_context(tls_files)) as server:
        for data in (b"\x16\x03\x01garbage" * 50, b""):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(data)
            writer.close()
            await writer.wait_closed()
        old = client_context(tls_files)
        old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(ConnectError):
            await connect(address_of(server), tls=old)
        async with pooled(tls=client_context(tls_files)) as pool:
            assert (await pool.request(address_of(server), Command(1), 5_000)).code == 0


NOT_THERE = TlsFiles(certificate=Path("no.pem"), key=Path("no.key"))


@pytest.mark.parametrize(
    ("files", "demand", "reason"),
    [
        (TlsFiles(), "none", "TLS needs a certificate and its key"),
        (NOT_THERE, "none", r"cannot use certificate no\.pem"),
        (NOT_THERE, "maybe", "write one of none, optional, require"),
        (NOT_THERE, "require", r"needs tls\.server\.trustCertPath"),
    ],
)
def test_unusable_tls_files_are_named(files: TlsFiles, demand: str, reason: str) -> None:
    """The error says which option or file is wrong."""
    with pytest.raises(TlsError, match=reason):
        server_context(files, client_certificate=demand)


def test_a_missing_trust_file_and_a_wrong_password_are_named(tls_files: TlsFiles) -> None:
    """And no error or repr shows the password."""
    with pytest.raises(TlsError, match=r"cannot read trusted certificates no\.pem"):
        client_context(TlsFiles(trusted=Path("no.pem")))
    wrong = TlsFiles(certificate=tls_files.certificate, key=tls_files.key)
    with pytest.raises(TlsError, match="cannot use certificate"):
        server_context(wrong)
    assert "hush" not in repr(tls_files)
