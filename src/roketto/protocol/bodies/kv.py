"""The KV configuration of a name server as it keeps it on disk."""

from msgspec import field

from roketto.protocol.bodies.base import Body

__all__ = ["KVConfigSerializeWrapper"]


class KVConfigSerializeWrapper(Body):
    """Namespace -> key -> value: the contents of kvConfig.json."""

    config_table: dict[str, dict[str, str]] = field(default_factory=dict)
