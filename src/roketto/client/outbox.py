"""Messages that are sent if, and only if, a transaction of the application's database commits.

They are added to a table in that transaction; a relay sends what is in the table. So each arrives
at least once: after a crash the last ones may be sent again. They have their ids from when they are
added, by which a dedup window of the topic or a Deduplicator tells repeats.
"""

import asyncio
import logging
import threading
from typing import Any, Final, Protocol, Self

from roketto.client.client import Client
from roketto.client.errors import ClientError
from roketto.client.identity import local_ip, make_unique_ids
from roketto.client.message import Message, SendResult
from roketto.client.outbox_lease import Lease, make_holder_name
from roketto.client.outbox_relay import OutboxSettings, Relay, Sender, is_hopeless
from roketto.client.outbox_store import Backlog, OutboxStore, lane_of
from roketto.clock import monotonic_s, wall_ms

__all__ = ["Outbox", "OutboxSettings"]

log = logging.getLogger(__name__)

_STOP_S: Final = 5.0
"""How long the answers to what is on its way are waited for."""
_LOOK_S: Final = 0.02


class OutboxProducer(Sender, Protocol):
    """What is needed of a Producer."""

    @property
    def client(self) -> Client: ...


class Outbox:
    """An outbox in a database.

    async with Producer("shop") as producer, Outbox(SqliteOutbox(path), producer) as outbox:
        with sqlite3.connect(path) as connection:
            connection.execute("INSERT INTO orders ...")
            outbox.add(Message("Orders", b"...", sharding_key="order-17"), connection)

    From ``start`` to ``stop`` it relays, unless another one of the same database does. Where nobody
    is to relay, it needs neither: ``Outbox(store)`` is enough for ``add``.

    Messages with the same topic and sharding key are sent in the order in which they were added,
    and so are those of a topic without one. Transactions that add at the same time have no order.
    """

    def __init__(
        self,
        store: OutboxStore,
        producer: "OutboxProducer | None" = None,
        *,
        settings: OutboxSettings | None = None,
    ) -> None:
        self._store = store
        self._producer = producer
        self._settings = settings or OutboxSettings()
        ip = local_ip() if producer is None else producer.client.ip
        self._name = make_holder_name(ip)
        self._unique_ids = make_unique_ids(ip)
        self._ids_lock = threading.Lock()
        self._relay: Relay | None = None
        self._lease: Lease | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to relay; the producer is started already."""
        if self._task is not None:
            raise ClientError("this outbox was started already")
        self._loop = asyncio.get_running_loop()
        await self._store.create_tables()
        self._lease = Lease(self._name, self._settings.lease_s)
        self._relay = Relay(self._store, self._sender(), self._lease, self._settings)
        self._task = self._loop.create_task(self._relay.run(), name="outbox relay")

    async def stop(self) -> None:
        """Send no more, and let another relay go on at once; what waits is kept."""
        task, self._task = self._task, None
        try:
            if task is not None:
                await self._stop_relay(task)
        finally:
            await self._store.close()

    async def _stop_relay(self, task: asyncio.Task[None]) -> None:
        assert self._relay is not None and self._lease is not None  # noqa: PT018
        self._relay.stop()
        try:
            await asyncio.wait([task], timeout=_STOP_S)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        try:
            await self._store.run(self._lease.release)
        except Exception:
            log.exception("the lease of the outbox was not released; it ends by itself")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    def _sender(self) -> "OutboxProducer":
        if self._producer is None:
            raise ClientError("this outbox has no producer; make it with one to send: Outbox(s, p)")
        return self._producer

    # --- adding -----------------------------------------------------------------------------------

    def add(self, message: Message, connection: Any) -> str:
        """Put a message into the application's transaction; IllegalMessageError if it is none.

        Returns its id, which ``message.message_id`` is from now on. Any thread may call it; nothing
        is sent before the transaction commits.
        """
        message_id = self._prepare(message)
        self._store.table(connection).add(message, wall_ms())
        return message_id

    async def add_async(self, message: Message, connection: Any) -> str:
        """The same with an AsyncConnection or AsyncSession of SQLAlchemy."""
        return str(await connection.run_sync(lambda own: self.add(message, own)))

    async def send_or_keep(self, message: Message) -> SendResult | None:
        """Send a message now; if that fails keep it, to be sent later, and return None.

        While messages of the same sharding key wait, it is kept behind them. What nobody will ever
        take is not kept: the error says why.
        """
        self._prepare(message)
        now_ms = wall_ms()
        if message.sharding_key is None or not await self._has(lane_of(message)):
            try:
                return await self._sender().send(message)
            except ClientError as error:
                if is_hopeless(error):
                    raise
                await self._store.run(lambda table: table.add(message, now_ms))
        else:
            await self._store.run(lambda table: table.add(message, now_ms))
        self.wake()
        return None

    async def _has(self, lane: str) -> bool:
        return await self._store.run(lambda table: table.has(lane))

    def _prepare(self, message: Message) -> str:
        """See that it can be sent, and give it its id."""
        message.check()
        if not isinstance(message.keys, str):
            message.keys = list(message.keys)
        if message.message_id is None:
            with self._ids_lock:
                message.message_id = self._unique_ids.next_id(wall_ms())
        message.to_properties()
        return message.message_id

    # --- what waits -------------------------------------------------------------------------------

    def wake(self) -> None:
        """Let the relay look now, after a commit; any thread may call it."""
        if self._relay is not None and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._relay.wake)

    async def backlog(self) -> Backlog:
        """How many messages wait, since when, and how many were refused."""
        return await self._store.run(lambda table: table.backlog())

    async def retry_refused(self) -> int:
        """Let those be sent again that were refused for good; how many they are."""
        found = await self._store.run(lambda table: table.retry_refused())
        self.wake()
        return found

    async def wait_until_sent(self, timeout_s: float) -> bool:
        """Wait until nothing waits; whether it came to that in time."""
        deadline_s = monotonic_s() + timeout_s
        self.wake()
        while (await self.backlog()).waiting:
            if monotonic_s() >= deadline_s:
                return False
            await asyncio.sleep(_LOOK_S)
        return True
