"""Which queues of a topic are this consumer's, as the members of its group share them."""

import logging
import random
from collections.abc import Mapping

from roketto.client.allocation import Strategy, sorted_ids, sorted_queues
from roketto.client.client import Client
from roketto.client.errors import ClientError, TopicNotFoundError, UnreachableError
from roketto.client.routes import MASTER_ID, Route
from roketto.protocol.bodies.connections import GetConsumerListByGroupResponseBody
from roketto.protocol.bodies.heartbeat import MessageModel
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import RequestCode
from roketto.protocol.headers.clients import GetConsumerListByGroupRequest

__all__ = ["Rebalance"]

log = logging.getLogger(__name__)


class Rebalance:
    """The share of one consumer. Group and topics are named as brokers know them.

    rebalance = Rebalance(client, "orders", Averagely(), MessageModel.CLUSTERING)
    queues = await rebalance.assign("Orders")       # None: keep those that you have
    """

    def __init__(self, client: Client, group: str, strategy: Strategy, model: MessageModel) -> None:
        self._client = client
        self._group = group
        self._strategy = strategy
        self._model = model

    async def members(self, topic: str) -> list[str]:
        """The client ids of the group, as a broker of the topic knows them; ClientError without.

        Brokers are asked in random order until one can be reached.
        """
        route = await self._client.routes.get(topic)
        failure: ClientError | None = None
        for address in _addresses(route):
            try:
                return await self._members_at(address)
            except UnreachableError as error:
                failure = error
        raise failure or TopicNotFoundError(topic, "its route has no broker")

    async def _members_at(self, address: str) -> list[str]:
        body = await self._client.calls.ask_for_body(
            GetConsumerListByGroupResponseBody,
            address,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP,
            GetConsumerListByGroupRequest(consumer_group=self._group),
        )
        return body.consumer_id_list

    async def assign(self, topic: str) -> list[MessageQueue] | None:
        """The queues that are this consumer's now; None if that cannot be told: keep those."""
        try:
            route = await self._client.routes.get(topic)
            queues = sorted_queues(route.subscribe_queues)
            if not queues:
                log.warning("topic %s has no queue that can be read", topic)
                return None
            if self._model is MessageModel.BROADCASTING:
                return queues
            members = sorted_ids(await self.members(topic))
        except TopicNotFoundError as error:
            log.debug("group %s has no share yet: %s", self._group, error)
            return None
        except ClientError as error:
            log.warning("group %s keeps its queues of %s: %s", self._group, topic, error)
            return None
        return self._share(topic, queues, members)

    def _share(
        self, topic: str, queues: list[MessageQueue], members: list[str]
    ) -> list[MessageQueue] | None:
        try:
            found = self._strategy.allocate(self._group, self._client.id, queues, members)
        except Exception:  # a strategy may be anybody's
            log.exception("group %s keeps its queues of %s: strategy %s failed", self._group, topic,
                          self._strategy.name)  # fmt: skip
            return None
        return list(dict.fromkeys(found))


def _addresses(route: Route) -> list[str]:
    """One address of each broker, in random order: its master, or else any slave."""
    found = [_address(by_id) for by_id in route.brokers.values() if by_id]
    return random.sample(found, len(found))


def _address(by_id: Mapping[int, str]) -> str:
    return by_id.get(MASTER_ID) or random.choice(list(by_id.values()))
