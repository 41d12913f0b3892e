"""The ends of transactions, as brokers are told them (END_TRANSACTION, 37)."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from roketto.client.calls import expect_success
from roketto.client.client import Client
from roketto.client.errors import ClientError, UnreachableError
from roketto.client.local_transaction import PreparedMessage, Told, TransactionState
from roketto.client.message import MessageQueue, SendResult
from roketto.protocol import property_names as names
from roketto.protocol.codes import RequestCode
from roketto.protocol.errors import RecordError
from roketto.protocol.headers.transactions import (
    CheckTransactionStateRequest,
    EndTransactionRequest,
)
from roketto.protocol.ids import decode_offset_id
from roketto.protocol.record import Record
from roketto.protocol.sysflags import (
    TRANSACTION_COMMIT,
    TRANSACTION_NONE,
    TRANSACTION_ROLLBACK,
)
from roketto.remoting.errors import RemotingError

__all__ = ["EndContext", "EndHook", "Ends", "Half", "TransactionResult"]

log = logging.getLogger(__name__)

_DECISIONS: Final = {
    TransactionState.COMMIT: TRANSACTION_COMMIT,
    TransactionState.ROLLBACK: TRANSACTION_ROLLBACK,
    TransactionState.UNKNOWN: TRANSACTION_NONE,
}
_DEFAULT_REGION: Final = "DefaultRegion"

# As Java's clients begin what brokers write into their logs.
_EXECUTE_FAILED: Final = "executeLocalTransactionBranch exception"
_CHECK_FAILED: Final = "checkLocalTransactionState Exception"


@dataclass(frozen=True, slots=True)
class Half:
    """A half message that is stored."""

    message: PreparedMessage
    sent: SendResult


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """How a transaction ended, as far as this process knows."""

    sent: SendResult
    """Where the half message is: its offset is one among half messages."""
    state: TransactionState
    error: BaseException | None = None
    """What the local transaction has raised; the state is UNKNOWN then."""
    end_error: ClientError | None = None
    """Why the broker could not be told. It will ask."""
    is_confirmed: bool = False
    """The broker has answered that it is done; only with ``confirms_end``."""

    @property
    def message_id(self) -> str:
        return self.sent.message_id


@dataclass(frozen=True, slots=True, kw_only=True)
class EndContext:
    """An end that is about to be told, for those who look at it."""

    group: str
    """Without the namespace, as the topic is."""
    topic: str
    message_id: str
    transaction_id: str | None
    tags: str | None
    keys: str | None
    address: str
    region_id: str
    is_traced: bool
    state: TransactionState
    is_from_check: bool


EndHook = Callable[[EndContext], None]
"""Called with each end before it is told. It must not wait; what it raises is logged."""


class Ends:
    """Tells brokers the ends of one producer's transactions.

    result = await ends.tell(half, Told(TransactionState.COMMIT))
    await ends.answer(address, request, record, told)       # to a broker that has asked
    """

    def __init__(self, client: Client, group: str, *, confirms: bool = False) -> None:
        self._client = client
        self._group = group
        self._confirms = confirms
        self.hooks: list[EndHook] = []

    async def tell(self, half: Half, told: Told) -> TransactionResult:
        """Tell the broker that has a half message; what fails is in the result."""
        message, sent = half.message, half.sent
        is_confirmed = False
        failure: ClientError | None = None
        try:
            topic = self._client.wrap(message.topic)
            routes = self._client.routes
            queue = MessageQueue(sent.queue.broker_name, sent.queue.queue_id, topic)
            address = await routes.master_of(routes.broker_of(queue), topic)
            request = EndTransactionRequest(
                topic=topic,
                producer_group=self._group,
                half_queue_offset=sent.queue_offset,
                log_offset=_log_offset(sent),
                commit_or_rollback=_DECISIONS[told.state],
                msg_id=sent.message_id,
                transaction_id=sent.transaction_id,
                target_broker_name=sent.queue.broker_name,
            )
            self._look(self._context(half, address, told.state))
            is_confirmed = await self._send(address, request, told.remark(_EXECUTE_FAILED))
        except ClientError as error:
            failure = error
            log.warning(
                "%s of %s for %s was not told, and the broker will ask: %s",
                told.state.name, sent.message_id, message.topic, error,
            )  # fmt: skip
        return TransactionResult(sent, told.state, told.error, failure, is_confirmed)

    async def answer(
        self, address: str, request: CheckTransactionStateRequest, half: Record, told: Told
    ) -> bool:
        """Tell a broker that has asked; whether that was possible. If not it asks again."""
        message_id = half.get_property(names.UNIQ_KEY) or half.offset_id
        end = EndTransactionRequest(
            topic=request.topic,
            producer_group=self._group,
            half_queue_offset=request.half_queue_offset,
            log_offset=request.log_offset,
            commit_or_rollback=_DECISIONS[told.state],
            from_transaction_check=True,
            msg_id=message_id,
            transaction_id=request.transaction_id,
            target_broker_name=request.target_broker_name,
        )
        self._look(self._check_context(half, message_id, address, told.state))
        try:
            await self._send(address, end, told.remark(_CHECK_FAILED))
        except ClientError as error:
            log.warning("%s has asked about %s and was not told: %s", address, message_id, error)
            return False
        return True

    async def _send(self, address: str, end: EndTransactionRequest, remark: str | None) -> bool:
        """Send an end; whether the broker has said that it is done."""
        calls = self._client.calls
        command = calls.command(RequestCode.END_TRANSACTION, end)
        command.remark = remark
        # Who does not know gets no answer.
        if self._confirms and end.commit_or_rollback != TRANSACTION_NONE:
            expect_success(address, await calls.send(address, command))
            return True
        try:
            is_sent = await calls.pool.send_one_way(address, command)
        except RemotingError as error:
            raise calls.unreachable(error) from error
        if not is_sent:
            raise UnreachableError(
                address, f"{calls.describe(address)} does not read what it is sent", is_sent=False
            )
        return False

    # --- those who look at it ---------------------------------------------------------------------

    def _look(self, context: EndContext) -> None:
        for hook in self.hooks:
            try:
                hook(context)
            except Exception:
                log.exception("%r failed at the end of %s", hook, context.message_id)

    def _context(self, half: Half, address: str, state: TransactionState) -> EndContext:
        message, sent = half.message, half.sent
        keys = message.keys if isinstance(message.keys, str) else " ".join(message.keys)
        return EndContext(
            group=self._client.unwrap(self._group),
            topic=message.topic,
            message_id=sent.message_id,
            transaction_id=message.message_id,
            tags=message.tags or None,
            keys=keys or None,
            address=address,
            region_id=sent.region_id,
            is_traced=sent.is_traced,
            state=state,
            is_from_check=False,
        )

    def _check_context(
        self, half: Record, message_id: str, address: str, state: TransactionState
    ) -> EndContext:
        return EndContext(
            group=self._client.unwrap(self._group),
            topic=self._client.unwrap(half.topic),
            message_id=message_id,
            transaction_id=half.get_property(names.UNIQ_KEY),
            tags=half.get_property(names.TAGS),
            keys=half.get_property(names.KEYS),
            address=address,
            region_id=half.get_property(names.MSG_REGION) or _DEFAULT_REGION,
            is_traced=half.get_property(names.TRACE_ON) != "false",
            state=state,
            is_from_check=True,
        )


def _log_offset(sent: SendResult) -> int:
    text = sent.offset_id or sent.message_id
    try:
        return decode_offset_id(text).log_offset
    except RecordError as error:
        raise ClientError(
            f"the broker {sent.queue.broker_name} has given a half message the id {text!r}, which"
            f" says not where it is: {error}"
        ) from error
