"""Which modules are compiled where there is a C compiler, and whether they are here.

The typed source is the only source: mypyc compiles these modules as they are when a wheel is built
(hatch_build.py), and everything works the same without.
"""

from typing import Final

from roketto.protocol import record

HOT_MODULES: Final = (
    "roketto.protocol.batch",
    "roketto.protocol.compact_header",
    "roketto.protocol.crc",
    "roketto.protocol.errors",
    "roketto.protocol.frame",
    "roketto.protocol.hosts",
    "roketto.protocol.ids",
    "roketto.protocol.javahash",
    "roketto.protocol.limits",
    "roketto.protocol.properties",
    "roketto.protocol.record",
    "roketto.protocol.record_layout",
    "roketto.protocol.tags",
    "roketto.protocol.utf8",
    "roketto.store.batch_records",
    "roketto.store.commitlog",
    "roketto.store.consumequeue",
    "roketto.store.dispatch",
    "roketto.store.index",
    "roketto.store.indexfile",
    "roketto.store.keyhashes",
    "roketto.store.put_status",
    "roketto.store.queues",
    "roketto.store.reading",
    "roketto.store.record_check",
    "roketto.store.segment",
    "roketto.store.segments",
    "roketto.store.store",
    "roketto.store.waiting",
)
"""On the way of every message; hatch_build.py reads this list without importing it."""


def is_compiled() -> bool:
    """Whether this installation runs the compiled modules."""
    return not (record.__file__ or "").endswith(".py")
