"""Pulls never say more than brokers were told; versions only grow."""

import pytest

from roketto.client import push_subscriptions
from roketto.client.active_consumer import IllegalConsumerError
from roketto.client.errors import RefusedError
from roketto.client.push_subscriptions import PushSubscriptions
from roketto.client.subscription import Sql
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.heartbeat import CheckClientRequestBody, MessageModel
from roketto.protocol.codes import RequestCode, ResponseCode
from unit.client.core_rig import TOPIC
from unit.client.push_parts import PushRig

CHECK = RequestCode.CHECK_CLIENT_CONFIG


def made(rig: PushRig, **topics: str | Sql) -> PushSubscriptions:
    client = rig.parts.client
    return PushSubscriptions(client, client.wrap("g"), MessageModel.CLUSTERING, topics)


async def test_what_is_wanted_counts_for_pulls_when_brokers_know_it() -> None:
    rig = PushRig(namespace="ns")
    subscriptions = made(rig, Orders="a")
    assert set(subscriptions.topics) == {"ns%Orders", "%RETRY%ns%g"}
    assert subscriptions.told("ns%Orders") is None
    subscriptions.mark_told()
    first = subscriptions.told("ns%Orders")
    assert first is not None
    subscriptions.renew(["ns%Orders", "gone"])
    assert subscriptions.told("ns%Orders") is first
    await subscriptions.tell()
    renewed = subscriptions.told("ns%Orders")
    assert renewed is not None
    assert (renewed.expression, renewed.version_ms > first.version_ms) == ("a", True)
    subscriptions.remove("Orders")
    assert subscriptions.told("ns%Orders") is None
    subscriptions.remove("%RETRY%g")
    assert [data.topic for data in subscriptions.data()] == ["%RETRY%ns%g"]


def test_a_version_grows_also_when_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    subscriptions = made(PushRig(), Orders="a")
    before = subscriptions.get("Orders")
    monkeypatch.setattr(push_subscriptions, "wall_ms", lambda: 5)
    after = subscriptions.add("Orders", "b")
    assert before is not None
    assert after.version_ms == before.version_ms + 1


async def test_brokers_are_asked_whether_they_understand_a_filter() -> None:
    """Of SQL92 only, and where the topic has a broker at all."""
    rig = PushRig()
    subscriptions = made(rig, Orders="a", Other=Sql("b > 3"))
    await rig.know_routes()
    await subscriptions.check_all()
    assert rig.codes() == []
    wanted = subscriptions.add(TOPIC, Sql("c > 3"))
    await subscriptions.check(wanted)
    (sent,) = (command for _, command in rig.rig.pool.sent if command.code == CHECK)
    body = decode_body(CheckClientRequestBody, sent.body)
    assert body.group == "g"
    assert body.subscription_data is not None
    assert body.subscription_data.sub_string == "c > 3"
    rig.broker.refuses = {CHECK: ResponseCode.SUBSCRIPTION_PARSE_FAILED}
    with pytest.raises(RefusedError):
        await subscriptions.check_all()


def test_a_topic_that_no_broker_has_is_refused_at_once() -> None:
    with pytest.raises(IllegalConsumerError, match="illegal characters"):
        made(PushRig()).add("No such topic", "*")
