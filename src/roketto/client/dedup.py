"""Consumption that takes effect once: keys of messages in the application's own transaction.

Brokers deliver each message at least once. Where its key is recorded in the same transaction as
what its consumption changes, both are there or neither is, and another delivery changes nothing.
"""

import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Any, Literal, overload

from roketto.client.dedup_stores import KEY_CHARS_MAX, Claim, DedupStore
from roketto.client.errors import ClientError
from roketto.client.listeners import ConsumeContext, ConsumeResult, Listener
from roketto.client.received import ReceivedMessage

__all__ = ["ConnectedListener", "Deduplicator", "IllegalKeyError", "Once"]

_Answer = ConsumeResult | None
ConnectedListener = Callable[
    [list[ReceivedMessage], ConsumeContext, Any], _Answer | Awaitable[_Answer]
]
"""A listener that is given the connection in whose transaction the key is recorded."""


class IllegalKeyError(ClientError, ValueError):
    """A key that does not fit its column."""


class Once:
    """One delivery of a message, for ``with`` or ``async with``; the value is whether it is new."""

    def __init__(self, store: DedupStore, group: str, key: str, connection: Any) -> None:
        self._store = store
        self._arguments = group, key, connection
        self._claim: AbstractContextManager[Claim] | None = None
        self._claim_async: AbstractAsyncContextManager[Claim] | None = None

    def claim(self) -> AbstractContextManager[Claim]:
        """The same with the connection whose transaction it is in."""
        return self._store.claim(*self._arguments)

    def claim_async(self) -> AbstractAsyncContextManager[Claim]:
        return self._store.claim_async(*self._arguments)

    def __enter__(self) -> bool:
        self._claim = self.claim()
        return self._claim.__enter__().is_new

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        assert self._claim is not None
        self._claim.__exit__(kind, error, trace)

    async def __aenter__(self) -> bool:
        self._claim_async = self.claim_async()
        return (await self._claim_async.__aenter__()).is_new

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        assert self._claim_async is not None
        await self._claim_async.__aexit__(kind, error, trace)


def _message_id(message: ReceivedMessage) -> str:
    return message.message_id


class Deduplicator:
    """Tells messages that a group has consumed from those that it has not.

    deduplicator = Deduplicator(SqliteStore("shop.db"), "billing")

    with sqlite3.connect("shop.db") as connection:
        with deduplicator.once(message, connection) as is_new:
            if is_new:
                connection.execute("UPDATE accounts ...")

    ``key`` says which messages are the same: those with one id, unless the application has a better
    answer, such as the number of an order. Deliveries of one key at the same time wait for each
    other. It has nothing to start or to stop, and may be used by several threads.
    """

    def __init__(
        self,
        store: DedupStore,
        group: str,
        key: Callable[[ReceivedMessage], str] = _message_id,
    ) -> None:
        self._store = store
        self.group = _checked("group", group)
        self._key = key

    def once(self, message: ReceivedMessage, connection: Any = None) -> Once:
        """A block that consumes a message, if its value says that it is new.

        ``connection`` is the application's, and so is its transaction: the block does not commit
        it, and undoes its own part if it fails. Without a connection the key is recorded when the
        block has ended; should the process die in between, the message is new once more.
        """
        key = _checked("key", self._key(message))
        return Once(self._store, self.group, key, connection)

    @overload
    def wrap(self, listener: Listener) -> Listener: ...

    @overload
    def wrap(self, listener: ConnectedListener, *, with_connection: Literal[True]) -> Listener: ...

    def wrap(self, listener: Callable[..., Any], *, with_connection: bool = False) -> Listener:
        """A listener for a push consumer that gets each message once.

        It is called with one message at a time, also where a consumer has more. What it has not
        consumed (it raises, or answers anything but SUCCESS or COMMIT) is new once more. The key is
        recorded in a transaction of the store that ends with the call; ``with_connection`` gives
        its connection to the listener, as a third argument, to write with it. A listener that
        writes to the same SQLite file by another connection would wait for itself.
        """
        if _is_coroutine_function(listener):
            return _wrap_coroutine(self, listener, with_connection)
        return _wrap_function(self, listener, with_connection)


class _NotConsumedError(Exception):
    """Takes the answer of a listener out of a block whose effect is to be undone."""

    def __init__(self, answer: _Answer) -> None:
        super().__init__()
        self.answer = answer


def _wrap_function(
    deduplicator: Deduplicator, listener: Callable[..., Any], with_connection: bool
) -> Listener:
    def consume(messages: list[ReceivedMessage], context: ConsumeContext) -> _Answer:
        for message in messages:
            try:
                with deduplicator.once(message).claim() as claim:
                    more = (claim.connection,) if with_connection else ()
                    if claim.is_new:
                        _expect_success(listener([message], context, *more), context)
            except _NotConsumedError as error:
                return error.answer
        return ConsumeResult.SUCCESS

    return consume


def _wrap_coroutine(
    deduplicator: Deduplicator, listener: Callable[..., Any], with_connection: bool
) -> Listener:
    async def consume(messages: list[ReceivedMessage], context: ConsumeContext) -> _Answer:
        for message in messages:
            try:
                async with deduplicator.once(message).claim_async() as claim:
                    more = (claim.connection,) if with_connection else ()
                    if claim.is_new:
                        _expect_success(await listener([message], context, *more), context)
            except _NotConsumedError as error:
                return error.answer
        return ConsumeResult.SUCCESS

    return consume


def _expect_success(answer: Any, context: ConsumeContext) -> None:
    if inspect.isawaitable(answer):
        raise ClientError("a listener that is no coroutine function returns what is to be awaited")
    if not context.auto_commit:
        raise ClientError(
            "a listener that commits for itself (auto_commit) may roll back what is recorded as"
            " consumed; use `with deduplicator.once(message, connection)` in it instead of wrap"
        )
    if answer not in (ConsumeResult.SUCCESS, ConsumeResult.COMMIT):
        raise _NotConsumedError(answer)


def _is_coroutine_function(listener: object) -> bool:
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(
        getattr(listener, "__call__", None)  # noqa: B004 (an object whose call is a coroutine)
    )


def _checked(what: str, text: str) -> str:
    if not 0 < len(text) <= KEY_CHARS_MAX:
        raise IllegalKeyError(
            f"a {what} of {len(text)} characters, {text[:64]!r}; it takes 1 to {KEY_CHARS_MAX}: use"
            " another one, or its hash"
        )
    return text
