"""Legal names of topics and groups; the one gate between a peer's string and a file path.

Names are ASCII letters, digits, ``%``, ``|``, ``_`` and ``-``, as in Java. None of these means
anything to a file system or gets decoded on the way (``%00`` is three characters and stays so),
hence a legal name is one directory name below the store and cannot be another path.
"""

import re
from typing import Final

from roketto.protocol.errors import IllegalNameError
from roketto.protocol.limits import (
    FILE_NAME_BYTES_MAX,
    GROUP_BYTES_MAX,
    RETRY_TOPIC_BYTES_MAX,
    TOPIC_BYTES_MAX,
)

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
LMQ_PREFIX: Final = "%LMQ%"
"""Light queues: one queue per device or session, filled through a property."""
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
REPLY_TOPIC_SUFFIX: Final = "_REPLY_TOPIC"
"""After the name of the cluster: where answers to request messages go."""
NAMESPACE_SEPARATOR: Final = "%"

DEFAULT_TOPIC: Final = "TBW102"
"""The model of topics that are made on first use."""
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
HALF_OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
HALF_ROCKSDB_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
HALF_OP_ROCKSDB_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
TRANSACTION_GIVEN_UP_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC: Final = "CHECKPOINT_TOPIC"
TIMER_TOPIC: Final = SYSTEM_TOPIC_PREFIX + "wheel_timer"
"""Where messages wait for a time of their own."""
STAGED_TOPIC: Final = SYSTEM_TOPIC_PREFIX + "staged"
SINKS_TOPIC: Final = SYSTEM_TOPIC_PREFIX + "sinks"
"""Where pieces of batches wait for what their sinks decide, and what they have decided. Ours."""

NOT_SENDABLE_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        HALF_OP_TOPIC,
        HALF_ROCKSDB_TOPIC,
        HALF_OP_ROCKSDB_TOPIC,
        TRANSACTION_GIVEN_UP_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
"""Topics the broker alone writes to."""

OWN_TOPICS: Final = frozenset({STAGED_TOPIC, SINKS_TOPIC})
"""The same of ours: Java's brokers know nothing of them."""

SYSTEM_TOPICS: Final = NOT_SENDABLE_TOPICS | {
    DEFAULT_TOPIC,
    BENCHMARK_TOPIC,
    TRACE_TOPIC,
    CHECKPOINT_TOPIC,
}

_LEGAL: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
# Light queues carry what MQTT and the like call their subscriptions: any visible ASCII that no
# file system and no list of such names gives a meaning.
_LEGAL_LMQ: Final = re.compile(r"%LMQ%[!-+\-.0-Z\[\]-~]+")
# Pop keeps its retries in %RETRY%<group>+<topic> (enableRetryTopicV2), a name that brokers make.
_LEGAL_POP_RETRY: Final = re.compile(r"%RETRY%[%|a-zA-Z0-9_-]+\+[%|a-zA-Z0-9_-]+")
_SHOWN_CHARS: Final = 64


def check_topic(topic: str) -> None:
    """Raise IllegalNameError unless ``topic`` may be the name of a topic."""
    has_prefix = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    _check("topic", topic, RETRY_TOPIC_BYTES_MAX if has_prefix else TOPIC_BYTES_MAX)


def check_group(group: str) -> None:
    """Raise IllegalNameError unless ``group`` may be the name of a producer or consumer group."""
    _check("group", group, GROUP_BYTES_MAX)


def check_lmq(name: str) -> None:
    """Raise IllegalNameError unless ``name`` may be the name of a light queue (``%LMQ%...``)."""
    _check_length("light queue", name, FILE_NAME_BYTES_MAX)
    if not _LEGAL_LMQ.fullmatch(name):
        raise IllegalNameError(
            f"light queue {_shown(name)} is not {LMQ_PREFIX} and then visible ASCII characters"
            r" other than / \ and comma"
        )


def path_component(topic: str) -> str:
    """``topic`` as the name of one directory; nothing else may turn a peer's string into a path.

    Legal topics, light queues and the broker's own retry topics of pop pass, unchanged. Everything
    else raises IllegalNameError: the caller forgot to check what it was given.
    """
    if len(topic) <= FILE_NAME_BYTES_MAX and (
        _LEGAL.fullmatch(topic) or _LEGAL_LMQ.fullmatch(topic) or _LEGAL_POP_RETRY.fullmatch(topic)
    ):
        return topic
    raise IllegalNameError(
        f"topic {_shown(topic)} of {len(topic)} characters cannot name a directory; it must be a"
        f" legal topic of at most {FILE_NAME_BYTES_MAX}"
    )


def _check(kind: str, name: str, length_max: int) -> None:
    _check_length(kind, name, length_max)
    if not _LEGAL.fullmatch(name):
        raise IllegalNameError(
            f"{kind} {_shown(name)} contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
        )


def _check_length(kind: str, name: str, length_max: int) -> None:
    if not name or name.isspace():
        raise IllegalNameError(f"the specified {kind} is blank; give it a name")
    if len(name) > length_max:
        raise IllegalNameError(
            f"{kind} {_shown(name)} has {len(name)} characters, more than {length_max};"
            f" choose a shorter name"
        )


def _shown(name: str) -> str:
    return ascii(name) if len(name) <= _SHOWN_CHARS else f"{name[:_SHOWN_CHARS]!a}..."


def is_system_topic(topic: str) -> bool:
    """Whether the topic is the broker's: users neither delete it nor give it a namespace."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_group(group: str) -> bool:
    """Whether the group is the broker's."""
    return group.startswith(SYSTEM_GROUP_PREFIX)


def is_retry_topic(topic: str) -> bool:
    """Whether the topic holds messages that a group consumes again."""
    return topic.startswith(RETRY_PREFIX)


def is_dlq_topic(topic: str) -> bool:
    """Whether the topic holds messages that a group gave up on."""
    return topic.startswith(DLQ_PREFIX)


def is_lmq(name: str) -> bool:
    """Whether the name is one of a light queue."""
    return name.startswith(LMQ_PREFIX)


def retry_topic(group: str) -> str:
    """The topic that holds what ``group`` consumes again."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """The topic that holds what ``group`` gave up on."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """The topic that holds answers to request messages."""
    return cluster + REPLY_TOPIC_SUFFIX
