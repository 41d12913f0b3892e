"""What a push consumer is subscribed to, and what of that brokers have been told."""

from collections.abc import Collection, Iterable, Mapping

from roketto.client.active_consumer import IllegalConsumerError
from roketto.client.calls import expect_success
from roketto.client.client import Client
from roketto.client.subscription import ALL_TAGS, TAG, Sql, Subscription, make_subscription
from roketto.clock import wall_ms
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.heartbeat import CheckClientRequestBody, MessageModel, SubscriptionData
from roketto.protocol.codes import RequestCode
from roketto.protocol.errors import IllegalNameError
from roketto.protocol.names import check_topic, retry_topic

__all__ = ["PushSubscriptions"]


class PushSubscriptions:
    """Topics as brokers know them, and what is wanted of each.

    Pulls say no more than heartbeats have said before: brokers refuse a version that is newer than
    what they were told.
    """

    def __init__(
        self, client: Client, group: str, model: MessageModel, topics: Mapping[str, str | Sql]
    ) -> None:
        self._client = client
        self._group = group
        self._wanted: dict[str, Subscription] = {}
        self._told: dict[str, Subscription] = {}
        for topic, expression in topics.items():
            self.add(topic, expression)
        if model is MessageModel.CLUSTERING:
            retries = retry_topic(group)
            self._wanted[retries] = make_subscription(retries, ALL_TAGS, wall_ms())

    @property
    def topics(self) -> Collection[str]:
        return self._wanted.keys()

    def get(self, topic: str) -> Subscription | None:
        """What is wanted of a topic, told or not."""
        return self._wanted.get(self._client.wrap(topic))

    def told(self, topic: str) -> Subscription | None:
        """What brokers know that is wanted of it."""
        return self._told.get(topic)

    def data(self) -> list[SubscriptionData]:
        """As heartbeats tell it."""
        return [wanted.data() for wanted in self._wanted.values()]

    def add(self, topic: str, expression: str | Sql) -> Subscription:
        """Want something of a topic, instead of what was wanted before."""
        named = self._client.wrap(topic)
        try:
            check_topic(named)
        except IllegalNameError as error:
            raise IllegalConsumerError(error.reason) from error
        wanted = make_subscription(named, expression, self._next_version_ms(named))
        self._wanted[named] = wanted
        return wanted

    def remove(self, topic: str) -> None:
        """Want nothing of it; nothing happens if that is so."""
        named = self._client.wrap(topic)
        if named != retry_topic(self._group):
            self._wanted.pop(named, None)
            self._told.pop(named, None)

    def renew(self, topics: Iterable[str]) -> None:
        """Let brokers take what is wanted for new: queues have moved."""
        for topic in topics:
            if topic in self._wanted:
                self._wanted[topic] = self._wanted[topic].renewed(self._next_version_ms(topic))

    def _next_version_ms(self, topic: str) -> int:
        """Later than any before, also where the clock was set back or is not fine enough."""
        known = self._wanted.get(topic)
        return max(wall_ms(), 0 if known is None else known.version_ms + 1)

    async def tell(self) -> None:
        """Tell all brokers; the consumer has been added to its client."""
        telling = dict(self._wanted)
        await self._client.send_heartbeats()
        self.mark_told(telling)

    def mark_told(self, telling: Mapping[str, Subscription] | None = None) -> None:
        """Brokers know these, or all."""
        telling = self._wanted if telling is None else telling
        self._told = {topic: told for topic, told in telling.items() if topic in self._wanted}

    async def check(self, subscription: Subscription) -> None:
        """RefusedError if a broker of its topic does not understand what is wanted of it."""
        route = self._client.routes.known(subscription.topic)
        if subscription.expression_type == TAG or route is None or not route.brokers:
            return
        body = CheckClientRequestBody(
            client_id=self._client.id,
            group=self._group,
            namespace=self._client.settings.namespace or None,
            subscription_data=subscription.data(),
        )
        address = await self._client.routes.any_of(next(iter(route.brokers)))
        answer = await self._client.calls.ask(
            address, RequestCode.CHECK_CLIENT_CONFIG, body=encode_body(body)
        )
        expect_success(address, answer)

    async def check_all(self) -> None:
        """The same for all of them."""
        for subscription in list(self._wanted.values()):
            await self.check(subscription)
