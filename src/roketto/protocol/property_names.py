"""Names of the message properties that clients and brokers of RocketMQ give a meaning."""

from typing import Final

# --- set by users -------------------------------------------------------------------------------

KEYS: Final = "KEYS"
"""Keys of the index, separated by single blanks."""
TAGS: Final = "TAGS"
DELAY: Final = "DELAY"
"""Delay level, 1..18; also set by the broker for retries."""
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
SHARDING_KEY: Final = "__SHARDINGKEY"
"""The message group of a FIFO message."""
LITE_TOPIC: Final = "__LITE_TOPIC"
PRIORITY: Final = "_SYS_MSG_PRIORITY_"
CHECK_IMMUNITY_TIME_IN_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
"""A transaction is not checked before it is that old."""
INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
"""Light queues that get the message too, separated by commas."""
BUYER_ID: Final = "BUYER_ID"

# --- set by clients -----------------------------------------------------------------------------

WAIT: Final = "WAIT"
"""``true`` or ``false``: whether the answer waits for flush and replicas."""
UNIQ_KEY: Final = "UNIQ_KEY"
"""The id that the producer gave the message."""
EXTEND_UNIQ_INFO: Final = "EXTEND_UNIQ_INFO"
TRANSACTION_PREPARED: Final = "TRAN_MSG"
"""``true`` marks a half message."""
TRANSACTION_ID: Final = "__transactionId__"
PRODUCER_GROUP: Final = "PGROUP"
MIN_OFFSET: Final = "MIN_OFFSET"
"""Added by the consumer when it pulls, like MAX_OFFSET; never stored."""
MAX_OFFSET: Final = "MAX_OFFSET"
RECONSUME_TIME: Final = "RECONSUME_TIME"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
CONSUME_START_TIME: Final = "CONSUME_START_TIME"
INSTANCE_ID: Final = "INSTANCE_ID"
"""The namespace."""
CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL: Final = "TTL"
ARRIVE_TIME: Final = "ARRIVE_TIME"
MSG_TYPE: Final = "MSG_TYPE"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
BORN_HOST: Final = "__BORNHOST"
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
TRANSIENT_PREFIX: Final = "__RMQ.TRANSIENT."
"""Properties that begin so are never stored."""
TRANSIENT_TOPIC_SYS_FLAG: Final = "__RMQ.TRANSIENT.TOPIC_SYS_FLAG"
TRANSIENT_GROUP_SYS_FLAG: Final = "__RMQ.TRANSIENT.GROUP_SYS_FLAG"

# --- set by brokers -----------------------------------------------------------------------------

RETRY_TOPIC: Final = "RETRY_TOPIC"
"""The topic that a retried message came from."""
ORIGIN_GROUP: Final = "ORIGIN_GROUP"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
REAL_TOPIC: Final = "REAL_TOPIC"
"""The topic, and REAL_QUEUE_ID the queue, of a message that waits elsewhere for its time."""
REAL_QUEUE_ID: Final = "REAL_QID"
MSG_REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
CLUSTER: Final = "CLUSTER"
INNER_NUM: Final = "INNER_NUM"
"""How many messages an inner batch holds, and INNER_BASE the queue offset of its first."""
INNER_BASE: Final = "INNER_BASE"
INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
DUP_INFO: Final = "DUP_INFO"
TRANSACTION_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
TRANSACTION_OFFSET: Final = "TRANS_OFFSET"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
POP_CK: Final = "POP_CK"
"""The receipt of a popped message."""
POP_CK_OFFSET: Final = "POP_CK_OFFSET"
FIRST_POP_TIME: Final = "1ST_POP_TIME"
FORWARD_QUEUE_ID: Final = "PROPERTY_FORWARD_QUEUE_ID"
REDIRECT: Final = "REDIRECT"
TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
TIMER_ROLL_LABEL: Final = "TIMER_ROLL_LABEL"
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
TIMER_DEL_UNIQKEY: Final = "TIMER_DEL_UNIQKEY"
TIMER_DELAY_LEVEL: Final = "TIMER_DELAY_LEVEL"
TIMER_ENGINE_TYPE: Final = "E_T"
CRC32: Final = "__CRC32#"
"""Checksum of the record; always the last property (see crc.py)."""

# --- of no use any more, still reserved ---------------------------------------------------------

TRANSFER_FLAG: Final = "TRANSFER_FLAG"
CORRECTION_FLAG: Final = "CORRECTION_FLAG"
MQ2_FLAG: Final = "MQ2_FLAG"

RESERVED: Final = frozenset(
    {
        KEYS, TAGS, DELAY, TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, LITE_TOPIC, PRIORITY,
        BUYER_ID, WAIT, UNIQ_KEY, EXTEND_UNIQ_INFO, TRANSACTION_PREPARED, PRODUCER_GROUP,
        MIN_OFFSET, MAX_OFFSET, RECONSUME_TIME, MAX_RECONSUME_TIMES, CONSUME_START_TIME,
        INSTANCE_ID, CORRELATION_ID, REPLY_TO_CLIENT, TTL, ARRIVE_TIME, MSG_TYPE, BORN_HOST,
        BORN_TIMESTAMP, DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID, RETRY_TOPIC, ORIGIN_GROUP,
        ORIGIN_MESSAGE_ID, REAL_TOPIC, REAL_QUEUE_ID, MSG_REGION, TRACE_ON, CLUSTER,
        INNER_MULTI_QUEUE_OFFSET, DUP_INFO, TRANSACTION_PREPARED_QUEUE_OFFSET, PUSH_REPLY_TIME,
        POP_CK, POP_CK_OFFSET, FIRST_POP_TIME, TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS,
        TIMER_ROLL_TIMES, TIMER_OUT_MS, TIMER_DEL_UNIQKEY, TIMER_DELAY_LEVEL, CRC32,
        TRANSFER_FLAG, CORRECTION_FLAG, MQ2_FLAG,
    }
)  # fmt: skip
"""What users may not set as properties of their own (as in Java)."""
