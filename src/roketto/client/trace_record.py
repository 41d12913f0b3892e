"""The records of a message's trace: who sent it, who consumed it and with what outcome; pure.

They are text, in the body of messages of the trace topic: fields with 0x01 between them, a record
ends with 0x02. What is not there is the word ``null``. Java's clients write them and ``mqadmin
queryMsgTraceById`` and dashboards read them::

    Pub             time region group topic id tags keys host bytes cost kind offset-id success
    SubBefore       time region group request id retries keys
    SubAfter        request id cost success keys code time group
    EndTransaction  time region group topic id tags keys host kind transaction state checked
    Recall          time region group topic id success

``request`` is the same in a SubBefore and its SubAfter. Consumers of a cloud write no time
and no group into a SubAfter, only the 0x01 before them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final, TypeAlias

from roketto.client.errors import ClientError

__all__ = [
    "ConsumeCode", "EndTransactionTrace", "PubTrace", "RecallTrace", "SubAfterTrace",
    "SubBeforeTrace", "Trace", "TraceError", "TraceKind", "TransactionState", "decode_traces",
    "encode_trace", "encode_traces", "keys_of",
]  # fmt: skip

_FIELD_END: Final = "\x01"
_RECORD_END: Final = "\x02"
_NULL: Final = "null"


class TraceError(ClientError, ValueError):
    """A text that is no trace."""


class TraceKind(IntEnum):
    """What kind of message was sent; the numbers are Java's."""

    NORMAL = 0
    HALF = 1
    """One in a transaction that is not decided."""
    COMMIT = 2
    """The end of a transaction, however it ended."""
    DELAYED = 3
    ORDERED = 4


class ConsumeCode(IntEnum):
    """How consuming ended; the numbers are Java's."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURN_NULL = 3
    FAILED = 4


class TransactionState(Enum):
    """What became of a local transaction; the values are Java's words, its spelling included."""

    COMMIT = "COMMIT_MESSAGE"
    ROLLBACK = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOW"


@dataclass(frozen=True, slots=True, kw_only=True)
class PubTrace:
    """A message was sent."""

    time_ms: int
    region_id: str | None
    group: str | None
    topic: str | None
    message_id: str | None
    tags: str | None = None
    keys: str | None = None
    store_host: str | None = None
    body_bytes: int = 0
    """As it went over the wire, so after compression."""
    cost_ms: int = 0
    kind: TraceKind = TraceKind.NORMAL
    offset_id: str | None = None
    is_success: bool = True
    client_host: str | None = None
    """Only in records of old clients; not written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubBeforeTrace:
    """A consumer is about to consume a message."""

    time_ms: int
    region_id: str | None
    group: str | None
    request_id: str | None
    message_id: str | None
    retry_times: int = 0
    keys: str | None = None
    topic: str | None = None
    """Not written: a batch of traces is of one topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAfterTrace:
    """It has consumed it."""

    request_id: str | None
    message_id: str | None
    cost_ms: int = 0
    is_success: bool = True
    keys: str | None = None
    code: int = ConsumeCode.SUCCESS
    """A ConsumeCode; kept as a number where somebody has written another one."""
    time_ms: int | None = None
    """None, as is the group, of a cloud's consumers."""
    group: str | None = None
    region_id: str | None = None
    """Not written, nor is the topic."""
    topic: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionTrace:
    """A producer has said what became of a transaction."""

    time_ms: int
    region_id: str | None
    group: str | None
    topic: str | None
    message_id: str | None
    tags: str | None = None
    keys: str | None = None
    store_host: str | None = None
    kind: TraceKind = TraceKind.COMMIT
    transaction_id: str | None = None
    state: TransactionState = TransactionState.UNKNOWN
    is_from_check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallTrace:
    """A delayed message was taken back."""

    time_ms: int
    region_id: str | None
    group: str | None
    topic: str | None
    message_id: str | None
    is_success: bool = True
    keys: str | None = None
    """Not written."""


Trace: TypeAlias = PubTrace | SubBeforeTrace | SubAfterTrace | EndTransactionTrace | RecallTrace


# --- writing --------------------------------------------------------------------------------------


def encode_trace(trace: Trace) -> str:
    """One record."""
    return _FIELD_END.join(map(_text, _fields(trace))) + _RECORD_END


def encode_traces(traces: Iterable[Trace]) -> str:
    """Records one after the other, as they are the body of a message."""
    return "".join(map(encode_trace, traces))


def keys_of(traces: Iterable[Trace]) -> list[str]:
    """What a message with these traces is to be found by: ids and keys of the messages, once."""
    found: dict[str, None] = {}
    for trace in traces:
        found[trace.message_id or ""] = None
        found.update(dict.fromkeys((trace.keys or "").split(" ")))
    found.pop("", None)
    return list(found)


def _text(field: object) -> str:
    if field is None:
        return _NULL
    if isinstance(field, bool):
        return "true" if field else "false"
    return str(int(field)) if isinstance(field, int) else str(field)


def _fields(trace: Trace) -> Sequence[object]:
    if isinstance(trace, PubTrace):
        return (
            "Pub", trace.time_ms, trace.region_id, trace.group, trace.topic, trace.message_id,
            trace.tags, trace.keys, trace.store_host, trace.body_bytes, trace.cost_ms, trace.kind,
            trace.offset_id, trace.is_success,
        )  # fmt: skip
    if isinstance(trace, SubBeforeTrace):
        return (
            "SubBefore", trace.time_ms, trace.region_id, trace.group, trace.request_id,
            trace.message_id, trace.retry_times, trace.keys,
        )  # fmt: skip
    if isinstance(trace, SubAfterTrace):
        # One field that is empty stands for the two that are not there: Java has its 0x01.
        tail = ("",) if trace.time_ms is None else (trace.time_ms, trace.group)
        return (
            "SubAfter", trace.request_id, trace.message_id, trace.cost_ms, trace.is_success,
            trace.keys, trace.code, *tail,
        )  # fmt: skip
    if isinstance(trace, EndTransactionTrace):
        return (
            "EndTransaction", trace.time_ms, trace.region_id, trace.group, trace.topic,
            trace.message_id, trace.tags, trace.keys, trace.store_host, trace.kind,
            trace.transaction_id, trace.state.value, trace.is_from_check,
        )  # fmt: skip
    return (
        "Recall", trace.time_ms, trace.region_id, trace.group, trace.topic, trace.message_id,
        trace.is_success,
    )  # fmt: skip


# --- reading --------------------------------------------------------------------------------------


def decode_traces(text: str) -> list[Trace]:
    """The records of a message's body; those of other types are left out, as Java does.

    TraceError if one of a known type has too few fields, or others than it should.
    """
    found: list[Trace] = []
    for record in text.split(_RECORD_END):
        fields = record.split(_FIELD_END)
        decode = _DECODERS.get(fields[0])
        if decode is None:
            continue
        while fields[-1] == "":  # Java drops these, and so counts fewer fields
            del fields[-1]
        try:
            found.append(decode(fields))
        except (IndexError, ValueError) as error:
            raise TraceError(
                f"a trace {fields[0]} of {len(fields)} fields cannot be read ({error}):"
                f" {record[:200]!r}"
            ) from error
    return found


def _string(field: str) -> str | None:
    return None if field == _NULL else field


def _is_true(field: str) -> bool:
    return field.lower() == "true"


def _pub(fields: list[str]) -> PubTrace:
    # 4.4 had no offset id, and some clients add their own address behind everything.
    count = len(fields)
    success = fields[12] if count == 13 else fields[13] if count >= 14 else "true"
    return PubTrace(
        time_ms=int(fields[1]),
        region_id=_string(fields[2]),
        group=_string(fields[3]),
        topic=_string(fields[4]),
        message_id=_string(fields[5]),
        tags=_string(fields[6]),
        keys=_string(fields[7]),
        store_host=_string(fields[8]),
        body_bytes=int(fields[9]),
        cost_ms=int(fields[10]),
        kind=TraceKind(int(fields[11])),
        offset_id=_string(fields[12]) if count >= 14 else None,
        is_success=_is_true(success),
        client_host=_string(fields[14]) if count >= 15 else None,
    )


def _sub_before(fields: list[str]) -> SubBeforeTrace:
    return SubBeforeTrace(
        time_ms=int(fields[1]),
        region_id=_string(fields[2]),
        group=_string(fields[3]),
        request_id=_string(fields[4]),
        message_id=_string(fields[5]),
        retry_times=int(fields[6]),
        keys=_string(fields[7]),
    )


def _sub_after(fields: list[str]) -> SubAfterTrace:
    count = len(fields)
    return SubAfterTrace(
        request_id=_string(fields[1]),
        message_id=_string(fields[2]),
        cost_ms=int(fields[3]),
        is_success=_is_true(fields[4]),
        keys=_string(fields[5]),
        code=int(fields[6]) if count >= 7 else ConsumeCode.SUCCESS,
        time_ms=int(fields[7]) if count >= 9 else None,
        group=_string(fields[8]) if count >= 9 else None,
    )


def _end_transaction(fields: list[str]) -> EndTransactionTrace:
    return EndTransactionTrace(
        time_ms=int(fields[1]),
        region_id=_string(fields[2]),
        group=_string(fields[3]),
        topic=_string(fields[4]),
        message_id=_string(fields[5]),
        tags=_string(fields[6]),
        keys=_string(fields[7]),
        store_host=_string(fields[8]),
        kind=TraceKind(int(fields[9])),
        transaction_id=_string(fields[10]),
        state=TransactionState(fields[11]),
        is_from_check=_is_true(fields[12]),
    )


def _recall(fields: list[str]) -> RecallTrace:
    return RecallTrace(
        time_ms=int(fields[1]),
        region_id=_string(fields[2]),
        group=_string(fields[3]),
        topic=_string(fields[4]),
        message_id=_string(fields[5]),
        is_success=_is_true(fields[6]),
    )


_DECODERS: Final[dict[str, Callable[[list[str]], Trace]]] = {
    "Pub": _pub,
    "SubBefore": _sub_before,
    "SubAfter": _sub_after,
    "EndTransaction": _end_transaction,
    "Recall": _recall,
}
