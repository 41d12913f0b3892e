"""What is to be said of the asyncio API where its source does not: what is for users, and how."""

from collections.abc import Mapping
from typing import Final

PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "roketto.client": (
        "client", "producer", "transaction", "active_consumer", "pull", "lite_pull", "push",
        "outbox", "trace",
    ),
    "roketto.admin": (
        "api", "clients", "cluster", "groups", "kv", "messages", "offsets", "topics", "tracks",
        "traffic",
    ),
}  # fmt: skip
"""The modules of both packages with public classes that wait for something."""

ROLES: Final = (
    ("roketto.client.roles", "ProducerRole"),
    ("roketto.client.roles", "ConsumerRole"),
    ("roketto.client.pull_loop", "PullOwner"),
)
"""What brokers and loops ask of producers and consumers; users do not..."""
FOR_USERS: Final = frozenset({"group", "topics", "is_paused"})
"""...but for these."""

LEFT_OUT: Final[Mapping[str, set[str]]] = {
    "Client": {
        "add_consumer", "add_producer", "calls", "check_started", "heartbeats", "inbound", "ip",
        "names", "pool", "remove_consumer", "remove_producer", "routes", "send_heartbeats",
        "unique_ids",
    },
    "Producer": {"client"},
    "ActiveConsumer": {"client", "store"},
    "PushConsumer": {"client"},
    "Outbox": {"add_async"},
    "Admin": {"client"},
}  # fmt: skip
"""What is of no use without a loop, by class."""

ATTRIBUTES: Final[Mapping[str, Mapping[str, str]]] = {
    "Client": {"id": "str", "settings": "ClientSettings"},
    "Producer": {"group": "str", "sending": "SendSettings"},
    "Transaction": {"result": "TransactionResult | None"},
    "ActiveConsumer": {"group": "str", "model": "MessageModel"},
    "LitePullConsumer": {"auto_commit": "bool", "limits": "LiteLimits"},
    "PushConsumer": {"group": "str"},
}
"""The types of what ``__init__`` sets."""

EARLY: Final[Mapping[str, set[str]]] = {
    "PushConsumer": {"subscribe", "unsubscribe"},
    "Outbox": {"backlog", "retry_refused", "wait_until_sent"},
}
"""What can be called before the start, too."""
IN_PLACE: Final[Mapping[str, set[str]]] = {"Outbox": {"add", "wake"}}
"""Functions that any thread may call. A database's connection may be of the caller's thread."""

ALIASES: Final = {"OutboxProducer": ("roketto.client.producer", "Producer")}
"""Protocols that stand for one class."""
BY_HAND: Final = {"OpenMessage": "roketto.client.facade"}
"""Blocking classes that are not made."""
FACADE: Final = "roketto.client.facade"

WORDS: Final = (
    (r"\(await (\w[\w.]*\([^()]*\))\)", r"\1"),
    (r"\b(?:async|await) ", ""),
    (r"\basyncio\.Event", "threading.Event"),
    (r"\bcoroutines\b", "threads"),
    (r"\bone task polls\b", "one thread polls"),
)
"""What docstrings say of coroutines, and what of threads."""
