"""The name server as a whole: start, scan for silent brokers, stop."""

import asyncio
import logging
import ssl
from pathlib import Path

from roketto.namesrv.config import ConfigError, NamesrvConfig
from roketto.namesrv.handlers import Handlers
from roketto.namesrv.kvconfig import KvConfig
from roketto.namesrv.routes import Notice
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import encode_header
from roketto.remoting.errors import RemotingError
from roketto.remoting.pool import Pool
from roketto.remoting.server import Server
from roketto.remoting.settings import ConnectionSettings, ServerSettings
from roketto.remoting.tls import TlsError, TlsFiles, server_context

log = logging.getLogger(__name__)


class NameServer:
    """A running name server; several of them know nothing of each other.

    names = NameServer(NamesrvConfig(listen_port=0))
    await names.start()       # raises OSError when the port is taken
    names.port
    await names.stop()
    """

    def __init__(self, config: NamesrvConfig, stored: dict[str, str] | None = None) -> None:
        self._config = config
        self._pool = Pool()
        self._sending: set[asyncio.Task[None]] = set()
        self._handlers = Handlers(
            config, KvConfig(config.kv_config_path), stored or {}, self._notify
        )
        self._server = Server(
            self._handlers.handle, server_settings(config), self._handlers.routes.topics.answers
        )
        self._scanner: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        return self._server.port

    async def start(self) -> None:
        await self._server.start()
        self._scanner = asyncio.create_task(self._scan())

    async def stop(self) -> None:
        await self._server.stop()
        tasks = [*self._sending, *([self._scanner] if self._scanner else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._pool.close()

    async def _scan(self) -> None:
        while True:
            await asyncio.sleep(self._config.scan_not_active_broker_interval / 1000)
            self._handlers.expire_brokers()

    def _notify(self, notices: list[Notice]) -> None:
        for notice in notices:
            for address in notice.addresses:
                ext = encode_header(notice.header)
                request = Command(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, ext)
                task = asyncio.create_task(self._send(address, request))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)

    async def _send(self, address: str, request: Command) -> None:
        try:
            await self._pool.send_one_way(address, request)
        except RemotingError as error:
            log.warning("broker not told of its group's new smallest id: %s", error)


def server_settings(config: NamesrvConfig) -> ServerSettings:
    """Where and how to listen; ConfigError if the TLS files cannot be used."""
    return ServerSettings(
        host=config.bind_address,
        port=config.listen_port,
        backlog=config.server_socket_backlog,
        connections_max=config.connections_max,
        connections_per_address_max=config.connections_per_address_max,
        spin_s=config.busy_poll_micros / 1e6,
        tls=_tls_context(config),
        tls_required=config.tls_server_mode == "enforcing",
        connection=ConnectionSettings(idle_s=config.server_channel_max_idle_time_seconds),
    )


def _tls_context(config: NamesrvConfig) -> ssl.SSLContext | None:
    mode, certificate = config.tls_server_mode, config.tls_server_cert_path
    if mode == "disabled" or (mode == "permissive" and not certificate):
        return None
    paths = (certificate, config.tls_server_key_path, config.tls_server_trust_cert_path)
    certificate_file, key_file, trusted_file = (Path(path) if path else None for path in paths)
    files = TlsFiles(
        certificate=certificate_file,
        key=key_file,
        key_password=config.tls_server_key_password or None,
        trusted=trusted_file,
    )
    try:
        return server_context(files, client_certificate=config.tls_server_need_client_auth)
    except TlsError as error:
        raise ConfigError(str(error)) from error
