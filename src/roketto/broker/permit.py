"""That a group may read a queue as it asks to, for as long as nothing was changed.

Whatever a pull has to be checked against is kept in tables, and what is in them is never changed
but replaced. So who was allowed to read once still is while he finds the same objects there.
"""

from roketto.broker.context import Context
from roketto.broker.groups import READ_FORBIDDEN
from roketto.broker.wanted import Wanted
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.bodies.heartbeat import MessageModel, SubscriptionData
from roketto.protocol.bodies.topics import TopicConfig

__all__ = ["Permit"]


class Permit:
    """What ``check`` of handlers/pull.py has found for one kind of pulls.

    ``subscription`` is that of the group's heartbeats, None if the pull itself says what it wants.
    """

    __slots__ = ("_may_broadcast", "group", "subscription", "topic", "wanted")

    def __init__(
        self,
        topic: TopicConfig,
        group: SubscriptionGroupConfig,
        subscription: SubscriptionData | None,
        wanted: Wanted,
    ) -> None:
        assert not wanted.needs_properties, "an SQL92 filter may change without its subscription"
        self.topic: TopicConfig = topic
        self.group: SubscriptionGroupConfig = group
        self.subscription: SubscriptionData | None = subscription
        self.wanted: Wanted = wanted
        self._may_broadcast: bool = group.consume_broadcast_enable

    def holds(self, context: Context, topic: str, group: str) -> bool:
        """Whether the same check would find the same; without rejectPullConsumerEnable."""
        groups = context.groups
        if context.topics.get(topic) is not self.topic or groups.get(group) is not self.group:
            return False
        if self.subscription is None:
            return True
        online = context.clients.consumer_group(group)
        return (
            online is not None
            and online.subscription(topic) is self.subscription
            and (self._may_broadcast or online.message_model is not MessageModel.BROADCASTING)
            and not groups.forbidden(group, topic) & READ_FORBIDDEN
        )
