"""The share of a consumer is computed from its route and its group, or kept where that fails."""

from collections.abc import Sequence
from typing import Final

import pytest

from roketto.client.allocation import Averagely, Strategy
from roketto.client.errors import RefusedError, TopicNotFoundError, UnreachableError
from roketto.client.rebalance import Rebalance
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.connections import GetConsumerListByGroupResponseBody
from roketto.protocol.bodies.heartbeat import MessageModel
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from unit.client.core_rig import GROUP, MASTER, SLAVE, TOPIC, Rig, route_data, unreachable

LIST = RequestCode.GET_CONSUMER_LIST_BY_GROUP


def members_are(*ids: str) -> Rig:
    body = encode_body(GetConsumerListByGroupResponseBody(consumer_id_list=list(ids)))
    return Rig(lambda address, command: command.answer(body=body))


def rebalance(
    rig: Rig, model: MessageModel = MessageModel.CLUSTERING, strategy: Strategy | None = None
) -> Rebalance:
    return Rebalance(rig.client, GROUP, strategy or Averagely(), model)


class Broken:
    """A strategy of somebody who has not tested it."""

    name: Final = "BROKEN"

    def allocate(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
    ) -> list[MessageQueue]:
        raise ZeroDivisionError


class Twice(Broken):
    """One that gives a queue twice."""

    def allocate(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
    ) -> list[MessageQueue]:
        return [queues[0], queues[0]]


async def test_members_share_the_queues_in_the_order_of_all() -> None:
    """Ids and queues are sorted, however they come."""
    rig = members_are()
    rig.routes[TOPIC] = route_data({"b": {0: MASTER}, "a": {0: MASTER}}, 2)
    others = ("zzz", "000")
    body = GetConsumerListByGroupResponseBody(consumer_id_list=["zzz", rig.client.id, "000"])
    rig._brokers = lambda address, command: command.answer(body=encode_body(body))
    assert await rebalance(rig).assign(TOPIC) == [MessageQueue("b", 0, TOPIC)]
    assert rig.sent(LIST) == [(MASTER, {"consumerGroup": GROUP})]
    assert sorted(others)[0] < rig.client.id < sorted(others)[1]


async def test_whoever_gets_everything_asks_nobody() -> None:
    """Broadcasting: all queues, without knowing the others."""
    rig = members_are()
    found = await rebalance(rig, MessageModel.BROADCASTING).assign(TOPIC)
    assert found == [MessageQueue("broker-a", number, TOPIC) for number in range(4)]
    assert rig.sent(LIST) == []


async def test_a_consumer_that_its_broker_does_not_know_has_no_queue() -> None:
    """Others have them: two would consume everything twice."""
    assert await rebalance(members_are("somebody else")).assign(TOPIC) == []


async def test_another_broker_is_asked_if_one_is_away() -> None:
    """In random order, each once; then the last error counts."""
    is_up = True

    def answer(address: str, command: Command) -> Command:
        if address == MASTER or not is_up:
            raise unreachable(address)
        return command.answer(body=b'{"consumerIdList":["x"]}')

    rig = Rig(answer)
    rig.routes[TOPIC] = route_data({"a": {0: MASTER}, "b": {2: SLAVE}})
    for _ in range(10):
        assert await rebalance(rig).members(TOPIC) == ["x"]
    assert {address for address, _ in rig.sent(LIST)} == {MASTER, SLAVE}
    is_up = False
    rig.pool.sent.clear()
    with pytest.raises(UnreachableError):
        await rebalance(rig).members(TOPIC)
    assert len(rig.sent(LIST)) == 2


@pytest.mark.parametrize("body", [b"", b"{", b'{"consumerIdList":7}'])
async def test_what_cannot_be_told_changes_nothing(body: bytes) -> None:
    """No answer, a refusal, an answer without sense, a topic without a queue or a route."""
    rig = Rig(lambda address, command: command.answer(body=body))
    assert await rebalance(rig).assign(TOPIC) is None
    rig = Rig(lambda address, command: command.answer(ResponseCode.SYSTEM_ERROR, remark="no"))
    assert await rebalance(rig).assign(TOPIC) is None
    with pytest.raises(RefusedError, match="no"):
        await rebalance(rig).members(TOPIC)
    rig.routes[TOPIC] = route_data({"a": {0: MASTER}}, perm=2)
    rig.client.routes._routes.clear()
    assert await rebalance(rig, MessageModel.BROADCASTING).assign(TOPIC) is None
    assert await rebalance(rig).assign("NoSuchTopic") is None
    rig.routes["Empty"] = route_data({})
    with pytest.raises(TopicNotFoundError, match="no broker"):
        await rebalance(rig).members("Empty")


async def test_a_strategy_that_fails_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with its name; and one that gives a queue twice gives it once."""
    rig = members_are("x")
    assert await rebalance(rig, strategy=Broken()).assign(TOPIC) is None
    assert "strategy BROKEN failed" in caplog.text
    twice = await rebalance(rig, strategy=Twice()).assign(TOPIC)
    assert twice == [MessageQueue("broker-a", 0, TOPIC)]
