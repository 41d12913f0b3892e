"""The name server as a whole: start, scan for silent brokers, stop."""

import asyncio
import logging

from roketto.namesrv.config import NamesrvConfig
from roketto.namesrv.handlers import Handlers
from roketto.namesrv.kvconfig import KvConfig
from roketto.namesrv.routes import Notice
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import encode_header
from roketto.remoting.errors import RemotingError
from roketto.remoting.pool import Pool
from roketto.remoting.server import Server
from roketto.server_options import server_settings

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
