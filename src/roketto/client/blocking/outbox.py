"""Blocking: ``roketto.client.outbox`` for threads; ``./dev blocking`` writes it."""

from typing import Any

from roketto.client.blocking.producer import Producer
from roketto.client.facade import LivingFacade, inner_of
from roketto.client.message import Message, SendResult
from roketto.client.outbox import Outbox as AsyncOutbox
from roketto.client.outbox_relay import OutboxSettings
from roketto.client.outbox_store import Backlog, OutboxStore

__all__ = ["Outbox"]


class Outbox(LivingFacade[AsyncOutbox]):
    """An outbox in a database.

    with Producer("shop") as producer, Outbox(SqliteOutbox(path), producer) as outbox:
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
        producer: Producer | None = None,
        *,
        settings: OutboxSettings | None = None,
    ) -> None:
        self._hold(AsyncOutbox(store, inner_of(producer), settings=settings))

    def add(self, message: Message, connection: Any) -> str:
        """Put a message into the application's transaction; IllegalMessageError if it is none."""
        return self._inner.add(message, connection)

    def send_or_keep(self, message: Message) -> SendResult | None:
        """Send a message now; if that fails keep it, to be sent later, and return None."""
        return self._run(self._inner.send_or_keep(message))

    def wake(self) -> None:
        """Let the relay look now, after a commit; any thread may call it."""
        self._inner.wake()

    def backlog(self) -> Backlog:
        """How many messages wait, since when, and how many were refused."""
        return self._run_early(self._inner.backlog())

    def retry_refused(self) -> int:
        """Let those be sent again that were refused for good; how many they are."""
        return self._run_early(self._inner.retry_refused())

    def wait_until_sent(self, timeout_s: float) -> bool:
        """Wait until nothing waits; whether it came to that in time."""
        return self._run_early(self._inner.wait_until_sent(timeout_s))
