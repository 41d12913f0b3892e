"""Questions of brokers: what became of a transaction? (CHECK_TRANSACTION_STATE, 39)."""

import asyncio
import logging
from typing import Final

from roketto.client.client import Client
from roketto.client.local_transaction import (
    Check,
    LocalCalls,
    Outcomes,
    Told,
    TransactionState,
)
from roketto.client.received import ReceivedMessage
from roketto.client.transaction_ends import Ends
from roketto.protocol import property_names as names
from roketto.protocol.errors import CompressionError
from roketto.protocol.headers.transactions import CheckTransactionStateRequest
from roketto.protocol.record import Record

__all__ = ["CHECKS_MAX", "Checks"]

log = logging.getLogger(__name__)

CHECKS_MAX: Final = 2_000
"""Java's checkRequestHoldMax: questions that are not answered yet. Others are asked again."""

SETTLED_S: Final = 5.0
"""Java's brokers note a commit within transactionOpBatchInterval, 3 s. Until then they may ask, and
each commit that they are told delivers the message once more. If the first one was lost they ask
again later."""


class Checks:
    """Answers brokers, until ``close``; each question in a task of its own.

    What this process has told a broker before it says again, but not a moment after it has told
    that. Where its local transaction is under way nobody is asked: a check that looks for its
    traces would not find them yet. All else is for ``check``, of which ``at_once`` run at a time.
    """

    def __init__(
        self,
        client: Client,
        ends: Ends,
        outcomes: Outcomes,
        local: LocalCalls,
        check: Check | None,
        at_once: int,
    ) -> None:
        self._client = client
        self._ends = ends
        self._outcomes = outcomes
        self._local = local
        self._check = check
        self._turns = asyncio.Semaphore(at_once)
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def add(self, address: str, request: CheckTransactionStateRequest, half: Record) -> None:
        """Answer a question later."""
        if self._is_closed:
            return
        if len(self._tasks) >= CHECKS_MAX:
            log.warning(
                "%s asks about a transaction for %s while %d others are looked into, which is the"
                " bound; it will ask again", address, half.topic, CHECKS_MAX,
            )  # fmt: skip
            return
        task = asyncio.get_running_loop().create_task(self._answer(address, request, half))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Leave questions to others of the group."""
        self._is_closed = True
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(
        self, address: str, request: CheckTransactionStateRequest, half: Record
    ) -> None:
        told = await self._find_out(address, request, half)
        if told.state is not TransactionState.COMMIT:
            log.info(
                "%s has asked about %s for %s: %s%s",
                address, _message_id(half), half.topic, told.state.name,
                f" ({told.error or told.reason})" if told.error or told.reason else "",
            )  # fmt: skip
        if await self._ends.answer(address, request, half, told):
            self._outcomes.end(_message_id(half), told.state)

    async def _find_out(
        self, address: str, request: CheckTransactionStateRequest, half: Record
    ) -> Told:
        message_id = _message_id(half)
        if self._outcomes.is_open(message_id):
            return _unknown("the local transaction is under way")
        known = self._outcomes.of(message_id)
        if known is not None:
            if known.state is TransactionState.COMMIT and known.told_s_ago < SETTLED_S:
                return _unknown(f"the commit was sent {known.told_s_ago:.1f} s ago")
            return Told(known.state)
        if self._check is None:
            return _unknown("nobody here checks transactions; make the producer with a listener")
        try:
            half.decompress()
        except CompressionError as error:
            return Told(TransactionState.UNKNOWN, error)
        broker_name = request.target_broker_name or self._broker_name(address)
        received = ReceivedMessage(half, broker_name, self._client.unwrap(half.topic))
        async with self._turns:
            return await self._local.check(self._check, received)

    def _broker_name(self, address: str) -> str:
        """Brokers of 4.9 do not say who they are."""
        for name, addresses in self._client.routes.brokers().items():
            if address in addresses.values():
                return name
        return ""


def _message_id(half: Record) -> str:
    return half.get_property(names.UNIQ_KEY) or half.offset_id


def _unknown(reason: str) -> Told:
    return Told(TransactionState.UNKNOWN, reason=reason)
