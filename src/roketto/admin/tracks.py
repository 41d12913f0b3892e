"""What became of one message: which groups have consumed it, and which have not."""

from dataclasses import dataclass
from enum import Enum

from roketto.admin.clients import Clients
from roketto.admin.errors import GroupOfflineError, NoProgressError
from roketto.admin.groups import Groups
from roketto.admin.progress import Progress
from roketto.admin.topics import Topics
from roketto.client.errors import ClientError, TopicNotFoundError
from roketto.client.received import ReceivedMessage
from roketto.protocol.bodies.connections import ConsumerConnection
from roketto.protocol.bodies.heartbeat import ConsumeType

__all__ = ["Track", "TrackType", "Tracks", "is_consumed", "is_filtered"]


class TrackType(Enum):
    """What a group has done with a message, in Java's words."""

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    """It has passed it by: its tag is not subscribed."""
    PULL = "PULL"
    """It pulls, and only itself knows."""
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    NOT_ONLINE = "NOT_ONLINE"
    CONSUME_BROADCASTING = "CONSUME_BROADCASTING"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Track:
    """One group and a message."""

    group: str
    type: TrackType
    error: ClientError | None = None
    """Why it is not known."""


class Tracks:
    """Made by ``Admin``, as ``admin.tracks``.

    for track in await admin.tracks.of(message):
        print(track.group, track.type.name)
    """

    def __init__(self, topics: Topics, groups: Groups, clients: Clients) -> None:
        self._topics = topics
        self._groups = groups
        self._clients = clients

    async def of(self, message: ReceivedMessage) -> list[Track]:
        """What the groups of its topic have done with it."""
        groups = await self._topics.groups(message.record.topic)
        return [await self._track(group, message) for group in groups]

    async def _track(self, group: str, message: ReceivedMessage) -> Track:
        try:
            connected = await self._clients.consumers(group)
            if connected.consume_type is ConsumeType.CONSUME_ACTIVELY:
                return Track(group, TrackType.PULL)
            if connected.consume_type is not ConsumeType.CONSUME_PASSIVELY:
                return Track(group, TrackType.UNKNOWN)
            progress = await self._groups.progress(group, message.record.topic)
        except (GroupOfflineError, TopicNotFoundError) as error:
            return Track(group, TrackType.NOT_ONLINE, error)
        except NoProgressError as error:
            kind = (
                TrackType.CONSUME_BROADCASTING
                if error.is_broadcasting
                else TrackType.NOT_CONSUME_YET
            )
            return Track(group, kind, error)
        except ClientError as error:
            return Track(group, TrackType.UNKNOWN, error)
        if not is_consumed(progress, message):
            return Track(group, TrackType.NOT_CONSUME_YET)
        if is_filtered(connected, message):
            return Track(group, TrackType.CONSUMED_BUT_FILTERED)
        return Track(group, TrackType.CONSUMED)


def is_consumed(progress: Progress, message: ReceivedMessage) -> bool:
    """Whether a group is past a message in its queue."""
    return any(
        one.queue == message.queue and one.consume_offset > message.queue_offset
        for one in progress.queues
    )


def is_filtered(connected: ConsumerConnection, message: ReceivedMessage) -> bool:
    """Whether a group does not subscribe to the tag of a message."""
    said = connected.subscription_table.get(message.record.topic)
    if said is None or not said.tags_set or "*" in said.tags_set:
        return False
    return message.tags not in said.tags_set
