"""Administration: topics, groups, offsets, messages and clusters, as mqadmin has them."""

from typing import TYPE_CHECKING, Final

from roketto.client.lazy import lazily

if TYPE_CHECKING:
    from roketto.admin.api import Admin
    from roketto.admin.clients import SubscriptionConflict
    from roketto.admin.errors import (
        ClusterNotFoundError,
        GroupNotFoundError,
        GroupOfflineError,
        MessageNotFoundError,
        NoProgressError,
        PartlyFailedError,
    )
    from roketto.admin.fleet import Broker
    from roketto.admin.messages import Found
    from roketto.admin.offsets import END
    from roketto.admin.progress import Progress, QueueProgress
    from roketto.admin.topics import READ, WRITE, QueueStatus, TopicStatus
    from roketto.admin.tracks import Track, TrackType
    from roketto.admin.traffic import TrafficRow
    from roketto.protocol.bodies.groups import SubscriptionGroupConfig

__all__ = [
    "END",
    "READ",
    "WRITE",
    "Admin",
    "Broker",
    "ClusterNotFoundError",
    "Found",
    "GroupNotFoundError",
    "GroupOfflineError",
    "MessageNotFoundError",
    "NoProgressError",
    "PartlyFailedError",
    "Progress",
    "QueueProgress",
    "QueueStatus",
    "SubscriptionConflict",
    "SubscriptionGroupConfig",
    "TopicStatus",
    "Track",
    "TrackType",
    "TrafficRow",
]

_WHERE: Final = {
    "Admin": "roketto.admin.api",
    "Broker": "roketto.admin.fleet",
    "ClusterNotFoundError": "roketto.admin.errors",
    "END": "roketto.admin.offsets",
    "Found": "roketto.admin.messages",
    "GroupNotFoundError": "roketto.admin.errors",
    "GroupOfflineError": "roketto.admin.errors",
    "MessageNotFoundError": "roketto.admin.errors",
    "NoProgressError": "roketto.admin.errors",
    "PartlyFailedError": "roketto.admin.errors",
    "Progress": "roketto.admin.progress",
    "QueueProgress": "roketto.admin.progress",
    "QueueStatus": "roketto.admin.topics",
    "READ": "roketto.admin.topics",
    "SubscriptionConflict": "roketto.admin.clients",
    "SubscriptionGroupConfig": "roketto.protocol.bodies.groups",
    "TopicStatus": "roketto.admin.topics",
    "Track": "roketto.admin.tracks",
    "TrackType": "roketto.admin.tracks",
    "TrafficRow": "roketto.admin.traffic",
    "WRITE": "roketto.admin.topics",
}
"""Each is imported when somebody asks for it: the package itself is quick to import."""

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, _WHERE)
