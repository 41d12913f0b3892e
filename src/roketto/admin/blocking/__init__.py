"""Blocking: the API of roketto.admin for threads; ``./dev blocking`` writes it."""

from roketto.client.lazy import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from roketto.admin.blocking.api import Admin
    from roketto.admin.blocking.clients import Clients
    from roketto.admin.blocking.cluster import Cluster
    from roketto.admin.blocking.groups import Groups
    from roketto.admin.blocking.kv import Kv
    from roketto.admin.blocking.messages import Messages
    from roketto.admin.blocking.offsets import Offsets
    from roketto.admin.blocking.topics import Topics
    from roketto.admin.blocking.tracks import Tracks
    from roketto.admin.blocking.traffic import Traffic

__all__ = [
    "Admin",
    "Clients",
    "Cluster",
    "Groups",
    "Kv",
    "Messages",
    "Offsets",
    "Topics",
    "Tracks",
    "Traffic",
]

_WHERE = {
    "Admin": "roketto.admin.blocking.api",
    "Clients": "roketto.admin.blocking.clients",
    "Cluster": "roketto.admin.blocking.cluster",
    "Groups": "roketto.admin.blocking.groups",
    "Kv": "roketto.admin.blocking.kv",
    "Messages": "roketto.admin.blocking.messages",
    "Offsets": "roketto.admin.blocking.offsets",
    "Topics": "roketto.admin.blocking.topics",
    "Tracks": "roketto.admin.blocking.tracks",
    "Traffic": "roketto.admin.blocking.traffic",
}
if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, _WHERE)
