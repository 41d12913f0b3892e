"""What handlers work with: the tables, the store and the clock of one broker."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

from roketto.broker.clients import Clients
from roketto.broker.config import BrokerConfig
from roketto.broker.delays import Delays
from roketto.broker.durability import Durability
from roketto.broker.filters import Filters
from roketto.broker.groups import Groups
from roketto.broker.locks import QueueLocks
from roketto.broker.longpoll import LongPolls
from roketto.broker.lookup import Lookups
from roketto.broker.offsets import Offsets
from roketto.broker.priority import Priorities
from roketto.broker.publications import Publications
from roketto.broker.registration import Registration
from roketto.broker.relays import Relays
from roketto.broker.sending import Sending
from roketto.broker.sinks import Sinks
from roketto.broker.stats import Statistics
from roketto.broker.timers import Timers
from roketto.broker.topics import Topics
from roketto.broker.transactions import Transactions
from roketto.config_file import ConfigFile
from roketto.protocol.command import Command
from roketto.remoting.connection import Connection, Reply
from roketto.store.mode_table import ModeTable
from roketto.store.store import Store


@dataclass(slots=True, eq=False, kw_only=True)
class Context:
    """One broker as its handlers see it; app.py makes it, and nothing in it knows of the others.

    ``address`` is where clients reach this broker, ``store_host`` the same as records keep it.
    """

    config: BrokerConfig
    config_file: ConfigFile
    clock_ms: Callable[[], int]
    address: str
    store_host: bytes
    store: Store
    sending: Sending
    topics: Topics
    groups: Groups
    modes: ModeTable
    offsets: Offsets
    clients: Clients
    locks: QueueLocks
    filters: Filters
    polls: LongPolls
    lookups: Lookups
    relays: Relays
    priorities: Priorities
    durability: Durability
    delays: Delays
    timers: Timers
    transactions: Transactions
    sinks: Sinks
    publications: Publications
    stats: Statistics
    registration: Registration
    saved: Callable[[], Coroutine[Any, Any, None]]
    """Returns when what was changed in the tables is on the disk; StoreError if it cannot be."""


Handler: TypeAlias = Callable[[Context, Connection, Command], Reply]
"""Parse, decide, act, answer; None when the answer comes later, by ``Connection.reply``."""
