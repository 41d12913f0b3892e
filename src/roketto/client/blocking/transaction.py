"""Blocking: ``roketto.client.transaction`` for threads; ``./dev blocking`` writes it."""

from collections.abc import Iterable, Sequence
from typing import Any

from roketto.client.blocking.client import Client
from roketto.client.blocking.producer import Producer
from roketto.client.facade import ContextFacade, inner_of
from roketto.client.local_transaction import Check, Execute, PreparedMessage, TransactionListener
from roketto.client.message import Message, SendResult
from roketto.client.send_settings import SendSettings
from roketto.client.settings import ClientSettings
from roketto.client.transaction import Transaction as AsyncTransaction
from roketto.client.transaction import TransactionProducer as AsyncTransactionProducer
from roketto.client.transaction_ends import EndHook, TransactionResult

__all__ = ["Transaction", "TransactionProducer"]


class Transaction(ContextFacade[AsyncTransaction]):
    """One transaction, as a context manager; ``TransactionProducer.transaction`` makes it.

    Inside, the half message is stored. Leaving commits, an exception rolls back.
    """

    @property
    def result(self) -> TransactionResult | None:
        return self._inner.result

    @property
    def message_id(self) -> str:
        """What ``check`` is asked about it by: keep it with what is done."""
        return self._call(lambda: self._inner.message_id)

    @property
    def message(self) -> PreparedMessage:
        return self._call(lambda: self._inner.message)

    @property
    def sent(self) -> SendResult:
        """Where the half message is."""
        return self._call(lambda: self._inner.sent)

    def roll_back(self) -> None:
        """Let leaving roll back without an exception."""
        self._call(self._inner.roll_back)


class TransactionProducer(Producer):
    """A producer of messages in transactions, and of others.

    with TransactionProducer("orders", check=was_paid) as producer:
        with producer.transaction(Message("Paid", b"...")) as sent:
            database.pay(order, sent.message_id)

        producer.send_in_transaction(Message("Paid", b"..."), execute=pay, arg=order)

    ``check(message)`` (or that of ``listener``) tells what became of transactions that this process
    does not know: those of another process of the group, or of itself before it was started anew.
    Without, brokers give those up in the end whose process has died in between. Let members of the
    group that only check have ``topics``, so that the brokers of these know them.

    Ends are sent one-way, as in Java: a broker that did not get one asks, and is told again. With
    ``confirms_end`` the broker's answer is awaited, and results say whether it came.
    """

    _inner: AsyncTransactionProducer

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
        self._hold(
            AsyncTransactionProducer(
                group,
                name_servers,
                listener=listener,
                check=check,
                confirms_end=confirms_end,
                checks_at_once=checks_at_once,
                threads_max=threads_max,
                client=inner_of(client),
                settings=settings,
                sending=sending,
                topics=topics,
            )
        )

    @property
    def end_hooks(self) -> list[EndHook]:
        """Those who look at each end before it is told."""
        return self._call(lambda: self._inner.end_hooks)

    def transaction(self, message: Message) -> Transaction:
        """A transaction as a context manager: leaving it commits, an exception rolls back."""
        return Transaction._of(self._call(self._inner.transaction, message), self._life)

    def send_in_transaction(
        self, message: Message, execute: Execute | None = None, arg: Any = None
    ) -> TransactionResult:
        """Store a message, do the local transaction, and tell the broker what became of it."""
        return self._run(self._inner.send_in_transaction(message, execute, arg))
