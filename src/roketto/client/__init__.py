"""The Python client: asyncio producers and consumers for any RocketMQ cluster.

All that applications need can be imported from here. ``roketto.client.blocking`` has the same for
threads.
"""

from roketto.client.lazy import lazily

TYPE_CHECKING = False  # typing alone would take longer than all the rest
if TYPE_CHECKING:
    from roketto.client.active_consumer import IllegalConsumerError
    from roketto.client.allocation import (
        Averagely,
        AveragelyByCircle,
        ConsistentHash,
        Fixed,
        MachineRoom,
        MachineRoomNearby,
        Strategy,
    )
    from roketto.client.batching import split_result
    from roketto.client.client import Client
    from roketto.client.dedup import Deduplicator, IllegalKeyError
    from roketto.client.dedup_stores import MemoryStore, SqlAlchemyStore, SqliteStore
    from roketto.client.errors import (
        BrokerNotFoundError,
        ClientClosedError,
        ClientError,
        IllegalMessageError,
        NoNameServerError,
        NotStartedError,
        RefusedError,
        ReplyTimeoutError,
        SendFailedError,
        TopicNotFoundError,
        UnreachableError,
        UnreadableError,
    )
    from roketto.client.hooks import SendContext, SendHook
    from roketto.client.iteration import OpenMessage
    from roketto.client.listeners import (
        ConsumeContext,
        Consumed,
        ConsumeHook,
        ConsumeResult,
        Listener,
    )
    from roketto.client.lite_assignment import NotAssignedError
    from roketto.client.lite_limits import LiteLimits
    from roketto.client.lite_pull import LitePullConsumer
    from roketto.client.local_transaction import PreparedMessage, TransactionListener
    from roketto.client.message import Message, MessageQueue, SendResult, SendStatus
    from roketto.client.offset_file import OffsetFileError
    from roketto.client.offset_store import BrokerOffsets, LocalOffsets, OffsetStore
    from roketto.client.outbox import Outbox
    from roketto.client.outbox_relay import OutboxSettings
    from roketto.client.outbox_store import SqlAlchemyOutbox, SqliteOutbox
    from roketto.client.portal import ForkedError, SelfWaitError
    from roketto.client.positions import BoundaryType, FromWhere
    from roketto.client.producer import Producer
    from roketto.client.pull import PullConsumer
    from roketto.client.pulling import Pulled, PullStatus
    from roketto.client.push import PushConsumer
    from roketto.client.push_tuning import PushTuning
    from roketto.client.received import ReceivedMessage
    from roketto.client.replies import make_reply
    from roketto.client.selectors import HashSelector, RandomSelector, RoundRobin, Selector
    from roketto.client.send_settings import BatchSettings, Compression, SendSettings
    from roketto.client.settings import ClientSettings
    from roketto.client.subscription import IllegalSubscriptionError, Sql
    from roketto.client.trace import ListenerTracer, tracing
    from roketto.client.trace_dispatcher import TraceDispatcher, TraceRole
    from roketto.client.trace_record import TraceError, TransactionState
    from roketto.client.transaction import Transaction, TransactionProducer
    from roketto.client.transaction_ends import TransactionResult
    from roketto.protocol.bodies.heartbeat import MessageModel
    from roketto.protocol.signing import Credentials
    from roketto.remoting.tls import TlsFiles, client_context

__all__ = [
    "Averagely",
    "AveragelyByCircle",
    "BatchSettings",
    "BoundaryType",
    "BrokerNotFoundError",
    "BrokerOffsets",
    "Client",
    "ClientClosedError",
    "ClientError",
    "ClientSettings",
    "Compression",
    "ConsistentHash",
    "ConsumeContext",
    "ConsumeHook",
    "ConsumeResult",
    "Consumed",
    "Credentials",
    "Deduplicator",
    "Fixed",
    "ForkedError",
    "FromWhere",
    "HashSelector",
    "IllegalConsumerError",
    "IllegalKeyError",
    "IllegalMessageError",
    "IllegalSubscriptionError",
    "Listener",
    "ListenerTracer",
    "LiteLimits",
    "LitePullConsumer",
    "LocalOffsets",
    "MachineRoom",
    "MachineRoomNearby",
    "MemoryStore",
    "Message",
    "MessageModel",
    "MessageQueue",
    "NoNameServerError",
    "NotAssignedError",
    "NotStartedError",
    "OffsetFileError",
    "OffsetStore",
    "OpenMessage",
    "Outbox",
    "OutboxSettings",
    "PreparedMessage",
    "Producer",
    "PullConsumer",
    "PullStatus",
    "Pulled",
    "PushConsumer",
    "PushTuning",
    "RandomSelector",
    "ReceivedMessage",
    "RefusedError",
    "ReplyTimeoutError",
    "RoundRobin",
    "Selector",
    "SelfWaitError",
    "SendContext",
    "SendFailedError",
    "SendHook",
    "SendResult",
    "SendSettings",
    "SendStatus",
    "Sql",
    "SqlAlchemyOutbox",
    "SqlAlchemyStore",
    "SqliteOutbox",
    "SqliteStore",
    "Strategy",
    "TlsFiles",
    "TopicNotFoundError",
    "TraceDispatcher",
    "TraceError",
    "TraceRole",
    "Transaction",
    "TransactionListener",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "UnreachableError",
    "UnreadableError",
    "client_context",
    "make_reply",
    "split_result",
    "tracing",
]

_WHERE: dict[str, str] = {
    "Averagely": "roketto.client.allocation",
    "AveragelyByCircle": "roketto.client.allocation",
    "BatchSettings": "roketto.client.send_settings",
    "BoundaryType": "roketto.client.positions",
    "BrokerNotFoundError": "roketto.client.errors",
    "BrokerOffsets": "roketto.client.offset_store",
    "Client": "roketto.client.client",
    "ClientClosedError": "roketto.client.errors",
    "ClientError": "roketto.client.errors",
    "ClientSettings": "roketto.client.settings",
    "Compression": "roketto.client.send_settings",
    "ConsistentHash": "roketto.client.allocation",
    "ConsumeContext": "roketto.client.listeners",
    "ConsumeHook": "roketto.client.listeners",
    "ConsumeResult": "roketto.client.listeners",
    "Consumed": "roketto.client.listeners",
    "Credentials": "roketto.protocol.signing",
    "Deduplicator": "roketto.client.dedup",
    "Fixed": "roketto.client.allocation",
    "ForkedError": "roketto.client.portal",
    "FromWhere": "roketto.client.positions",
    "HashSelector": "roketto.client.selectors",
    "IllegalConsumerError": "roketto.client.active_consumer",
    "IllegalKeyError": "roketto.client.dedup",
    "IllegalMessageError": "roketto.client.errors",
    "IllegalSubscriptionError": "roketto.client.subscription",
    "Listener": "roketto.client.listeners",
    "ListenerTracer": "roketto.client.trace",
    "LiteLimits": "roketto.client.lite_limits",
    "LitePullConsumer": "roketto.client.lite_pull",
    "LocalOffsets": "roketto.client.offset_store",
    "MachineRoom": "roketto.client.allocation",
    "MachineRoomNearby": "roketto.client.allocation",
    "MemoryStore": "roketto.client.dedup_stores",
    "Message": "roketto.client.message",
    "MessageModel": "roketto.protocol.bodies.heartbeat",
    "MessageQueue": "roketto.client.message",
    "NoNameServerError": "roketto.client.errors",
    "NotAssignedError": "roketto.client.lite_assignment",
    "NotStartedError": "roketto.client.errors",
    "OffsetFileError": "roketto.client.offset_file",
    "OffsetStore": "roketto.client.offset_store",
    "OpenMessage": "roketto.client.iteration",
    "Outbox": "roketto.client.outbox",
    "OutboxSettings": "roketto.client.outbox_relay",
    "PreparedMessage": "roketto.client.local_transaction",
    "Producer": "roketto.client.producer",
    "PullConsumer": "roketto.client.pull",
    "PullStatus": "roketto.client.pulling",
    "Pulled": "roketto.client.pulling",
    "PushConsumer": "roketto.client.push",
    "PushTuning": "roketto.client.push_tuning",
    "RandomSelector": "roketto.client.selectors",
    "ReceivedMessage": "roketto.client.received",
    "RefusedError": "roketto.client.errors",
    "ReplyTimeoutError": "roketto.client.errors",
    "RoundRobin": "roketto.client.selectors",
    "Selector": "roketto.client.selectors",
    "SelfWaitError": "roketto.client.portal",
    "SendContext": "roketto.client.hooks",
    "SendFailedError": "roketto.client.errors",
    "SendHook": "roketto.client.hooks",
    "SendResult": "roketto.client.message",
    "SendSettings": "roketto.client.send_settings",
    "SendStatus": "roketto.client.message",
    "Sql": "roketto.client.subscription",
    "SqlAlchemyOutbox": "roketto.client.outbox_store",
    "SqlAlchemyStore": "roketto.client.dedup_stores",
    "SqliteOutbox": "roketto.client.outbox_store",
    "SqliteStore": "roketto.client.dedup_stores",
    "Strategy": "roketto.client.allocation",
    "TlsFiles": "roketto.remoting.tls",
    "TopicNotFoundError": "roketto.client.errors",
    "TraceDispatcher": "roketto.client.trace_dispatcher",
    "TraceError": "roketto.client.trace_record",
    "TraceRole": "roketto.client.trace_dispatcher",
    "Transaction": "roketto.client.transaction",
    "TransactionListener": "roketto.client.local_transaction",
    "TransactionProducer": "roketto.client.transaction",
    "TransactionResult": "roketto.client.transaction_ends",
    "TransactionState": "roketto.client.trace_record",
    "UnreachableError": "roketto.client.errors",
    "UnreadableError": "roketto.client.errors",
    "client_context": "roketto.remoting.tls",
    "make_reply": "roketto.client.replies",
    "split_result": "roketto.client.batching",
    "tracing": "roketto.client.trace",
}
"""Each is imported when somebody asks for it: the package itself is quick to import."""

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, _WHERE)
