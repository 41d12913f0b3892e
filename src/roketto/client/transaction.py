"""Transactions: messages that are delivered if, and only if, something else was done as well.

A *half message* is stored first, which nobody is given. Then the local transaction is done, and its
end is told to the broker: commit delivers the message, roll back drops it. A broker that was not
told asks, some seconds later and then again: this producer, or another one of its group. So a
process may die anywhere in between, as long as one of the group can tell what was done::

    half message --> local transaction --> its end (37)
                     broker asks (39) --> check --> its end (37)
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Self

from roketto.client.client import Client
from roketto.client.errors import (
    ClientClosedError,
    ClientError,
    IllegalMessageError,
    SendFailedError,
)
from roketto.client.local_transaction import (
    Check,
    Execute,
    LocalCalls,
    Outcomes,
    PreparedMessage,
    Told,
    TransactionListener,
    TransactionState,
    prepared,
)
from roketto.client.marked import mark
from roketto.client.message import Message, SendResult
from roketto.client.producer import Producer
from roketto.client.send_settings import SendSettings
from roketto.client.settings import ClientSettings
from roketto.client.transaction_checks import Checks
from roketto.client.transaction_ends import EndHook, Ends, Half, TransactionResult
from roketto.clock import wall_ms
from roketto.protocol import property_names as names
from roketto.protocol.headers.transactions import CheckTransactionStateRequest
from roketto.protocol.record import Record

__all__ = [
    "PreparedMessage", "Transaction", "TransactionListener", "TransactionProducer",
    "TransactionResult", "TransactionState",
]  # fmt: skip

log = logging.getLogger(__name__)

_STOP_S: Final = 3.0
"""How long ends that are on their way may take when the producer stops."""


class Transaction:
    """One transaction, as a context manager; ``TransactionProducer.transaction`` makes it.

    Inside, the half message is stored. Leaving commits, an exception rolls back.
    """

    def __init__(self, producer: "TransactionProducer", message: Message) -> None:
        self._producer = producer
        self._given = message
        self._half: Half | None = None
        self._is_rolled_back = False
        self.result: TransactionResult | None = None
        """How it ended; None inside."""

    @property
    def message_id(self) -> str:
        """What ``check`` is asked about it by: keep it with what is done."""
        return self.message.message_id

    @property
    def message(self) -> PreparedMessage:
        return self._begun().message

    @property
    def sent(self) -> SendResult:
        """Where the half message is."""
        return self._begun().sent

    def roll_back(self) -> None:
        """Let leaving roll back without an exception."""
        self._is_rolled_back = True

    def _begun(self) -> Half:
        if self._half is None:
            raise ClientError("the transaction has not begun: use it with `async with`")
        return self._half

    async def __aenter__(self) -> Self:
        if self._half is not None:
            raise ClientError(f"transaction {self.message_id} was begun before; make a new one")
        half = await self._producer._prepare(self._given)
        if not half.sent.is_ok:
            await self._producer._end(half, Told(TransactionState.ROLLBACK))
            raise SendFailedError(
                f"the message for {self._given.topic} was stored, but not safely"
                f" ({half.sent.status.name}): the transaction is rolled back before it has begun;"
                " try again later",
                [],
            )
        self._half = half
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        is_commit = error is None and not self._is_rolled_back
        state = TransactionState.COMMIT if is_commit else TransactionState.ROLLBACK
        self.result = await self._producer._end(self._begun(), Told(state))


class TransactionProducer(Producer):
    """A producer of messages in transactions, and of others.

    async with TransactionProducer("orders", check=was_paid) as producer:
        async with producer.transaction(Message("Paid", b"...")) as sent:
            await database.pay(order, sent.message_id)

        await producer.send_in_transaction(Message("Paid", b"..."), execute=pay, arg=order)

    ``check(message)`` (or that of ``listener``) tells what became of transactions that this process
    does not know: those of another process of the group, or of itself before it was started anew.
    Without, brokers give those up in the end whose process has died in between. Let members of the
    group that only check have ``topics``, so that the brokers of these know them.

    Ends are sent one-way, as in Java: a broker that did not get one asks, and is told again. With
    ``confirms_end`` the broker's answer is awaited, and results say whether it came.
    """

    def __init__(
        self,
        group: str,
        name_servers: str | Sequence[str] | None = None,
        *,
        listener: TransactionListener | None = None,
        check: Check | None = None,
        confirms_end: bool = False,
        checks_at_once: int = 8,
        threads_max: int = 8,
        client: Client | None = None,
        settings: ClientSettings | None = None,
        sending: SendSettings | None = None,
        topics: Iterable[str] = (),
    ) -> None:
        super().__init__(
            group, name_servers, client=client, settings=settings, sending=sending, topics=topics
        )
        if check is None and listener is not None:
            check = listener.check
        self._listener = listener
        self._outcomes = Outcomes()
        self._local = LocalCalls(f"transactions-{group[:100]}", threads_max)
        self._ends = Ends(self.client, self.group, confirms=confirms_end)
        self._checks = Checks(
            self.client, self._ends, self._outcomes, self._local, check, checks_at_once
        )
        self._ending: set[asyncio.Task[TransactionResult]] = set()

    @property
    def end_hooks(self) -> list[EndHook]:
        """Those who look at each end before it is told."""
        return self._ends.hooks

    async def stop(self) -> None:
        """Let what is under way end, leave questions to others, and take leave of brokers."""
        try:
            await self._checks.close()
            if self._ending:
                await asyncio.wait(tuple(self._ending), timeout=_STOP_S)
            for task in tuple(self._ending):
                task.cancel()
            await asyncio.gather(*self._ending, return_exceptions=True)
        finally:
            self._local.close()
            await super().stop()

    def check_transaction(
        self, address: str, request: CheckTransactionStateRequest, half: Record
    ) -> None:
        """The broker at ``address`` asks what became of a transaction; to be answered later."""
        self._checks.add(address, request, half)

    # --- transactions -----------------------------------------------------------------------------

    def transaction(self, message: Message) -> Transaction:
        """A transaction as a context manager: leaving it commits, an exception rolls back.

        So does a cancellation. Let the commit of your database be the last thing inside: a block
        that raises after it has a message that is not delivered.

        SendFailedError, before anything of the block runs, where the message is not stored safely.
        """
        return Transaction(self, message)

    async def send_in_transaction(
        self, message: Message, execute: Execute | None = None, arg: Any = None
    ) -> TransactionResult:
        """Store a message, do the local transaction, and tell the broker what became of it.

        ``execute(message, arg)`` does it, or that of the listener. What it raises is not raised
        here but is in the result, as UNKNOWN: the broker will ask. Where the message is stored but
        not safely (the status of ``sent`` is not SEND_OK) it is not called, and the message is
        rolled back.
        """
        if execute is None:
            if self._listener is None:
                raise ClientError(
                    f"what is the local transaction of a message for {message.topic}? Give execute,"
                    " or make the producer with a listener"
                )
            execute = self._listener.execute
        half = await self._prepare(message)
        if not half.sent.is_ok:
            return await self._end(half, Told(TransactionState.ROLLBACK))
        try:
            told = await self._local.execute(execute, half.message, arg)
        except BaseException:  # cancelled in the middle of it: its check may tell
            self._outcomes.end(half.message.message_id, TransactionState.UNKNOWN)
            raise
        if told.error is not None:
            log.warning(
                "the local transaction of %s for %s has raised; the broker will ask what became"
                " of it", half.message.message_id, message.topic, exc_info=told.error,
            )  # fmt: skip
        result = await self._end(half, told)
        if told.cancelled is not None:
            raise told.cancelled
        return result

    async def _prepare(self, given: Message) -> Half:
        """Store the half message."""
        if given.is_delayed:
            raise IllegalMessageError(
                f"a message for {given.topic} is in a transaction, and delayed, which not all"
                " brokers do together: send it without a delay, or not in a transaction"
            )
        message = prepared(given, self.client.unique_ids.next_id(wall_ms()))
        marks = {names.TRANSACTION_PREPARED: "true", names.PRODUCER_GROUP: self.group}
        # A broker asks only those whom it knows by their heartbeats.
        await self._introduce(message.topic, *self._begin(None))
        self._outcomes.begin(message.message_id)
        try:
            sent = await self._send_alone(mark(message, marks))
        except BaseException:
            # It may be stored all the same. What would be done with it is never begun.
            self._outcomes.end(message.message_id, TransactionState.ROLLBACK, is_told=False)
            raise
        return Half(message, sent)

    async def _end(self, half: Half, told: Told) -> TransactionResult:
        """Tell the broker, even if the caller is cancelled meanwhile."""
        self._outcomes.end(half.message.message_id, told.state)
        task = asyncio.get_running_loop().create_task(self._tell(half, told))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return await asyncio.shield(task)

    async def _tell(self, half: Half, told: Told) -> TransactionResult:
        try:
            result = await self._ends.tell(half, told)
        except asyncio.CancelledError:  # by stop, which is not the caller's doing
            error = ClientClosedError(
                f"producer {self.group} was stopped before the broker has answered; it will ask"
            )
            result = TransactionResult(half.sent, told.state, told.error, error)
        if result.end_error is not None:
            self._outcomes.end(half.message.message_id, told.state, is_told=False)
        return result
