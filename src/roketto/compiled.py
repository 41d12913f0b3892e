"""Which modules are compiled where there is a C compiler, and whether they are here.

The typed source is the only source: mypyc compiles these modules as they are when a wheel is built
(hatch_build.py), and everything works the same without.
"""

from typing import Final

from roketto.protocol import record

HOT_MODULES: Final = (
    "roketto.broker.clients",
    "roketto.broker.consumer_group",
    "roketto.broker.context",
    "roketto.broker.dispatch",
    "roketto.broker.durability",
    "roketto.broker.expiry",
    "roketto.broker.filters",
    "roketto.broker.groups",
    "roketto.broker.handlers.pull",
    "roketto.broker.handlers.send",
    "roketto.broker.lanes",
    "roketto.broker.longpoll",
    "roketto.broker.offsets",
    "roketto.broker.plain_send",
    "roketto.broker.pull_lane",
    "roketto.broker.put",
    "roketto.broker.send_lane",
    "roketto.broker.sending",
    "roketto.broker.stats",
    "roketto.broker.stats_topics",
    "roketto.broker.stats_window",
    "roketto.broker.topics",
    "roketto.broker.wanted",
    "roketto.clock",
    "roketto.protocol.batch",
    "roketto.protocol.command",
    "roketto.protocol.compact_header",
    "roketto.protocol.crc",
    "roketto.protocol.errors",
    "roketto.protocol.frame",
    "roketto.protocol.headers.send_kinds",
    "roketto.protocol.hosts",
    "roketto.protocol.ids",
    "roketto.protocol.javahash",
    "roketto.protocol.limits",
    "roketto.protocol.properties",
    "roketto.protocol.record",
    "roketto.protocol.record_layout",
    "roketto.protocol.tags",
    "roketto.protocol.utf8",
    "roketto.remoting.connection",
    "roketto.remoting.load",
    "roketto.store.appender",
    "roketto.store.batch_records",
    "roketto.store.catchup",
    "roketto.store.commitlog",
    "roketto.store.consumequeue",
    "roketto.store.dispatch",
    "roketto.store.even_batch",
    "roketto.store.index",
    "roketto.store.indexfile",
    "roketto.store.keyhashes",
    "roketto.store.ledger",
    "roketto.store.logscan",
    "roketto.store.put_result",
    "roketto.store.put_status",
    "roketto.store.queues",
    "roketto.store.reading",
    "roketto.store.recent_units",
    "roketto.store.record_check",
    "roketto.store.recovery",
    "roketto.store.run_properties",
    "roketto.store.segment",
    "roketto.store.segments",
    "roketto.store.store",
    "roketto.store.unit",
    "roketto.store.unit_runs",
    "roketto.store.waiting",
    "roketto.store.waiting_keys",
)
"""On the way of every message; hatch_build.py reads this list without importing it."""


def is_compiled() -> bool:
    """Whether this installation runs the compiled modules."""
    return not (record.__file__ or "").endswith(".py")
