"""Operators see a push consumer under the names that Java's tools look for."""

import pytest

from roketto.client.listeners import ConsumeContext, Consumed, ConsumeResult
from roketto.client.positions import FromWhere
from roketto.client.running_info import direct_result, make_running_info
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.heartbeat import SubscriptionData
from roketto.protocol.bodies.running import CMResult, ConsumerRunningInfo
from unit.client.core_rig import GROUP, TOPIC
from unit.client.push_parts import PushRig, filled, message, name


def test_a_consumer_tells_its_settings_queues_and_rates() -> None:
    rig = PushRig(in_order=True, batch_max=7)
    (queue, _), (young, _) = filled(3, 4), filled(queue_id=1)
    rig.store.update(queue.name, 3, increase_only=True)
    rig.parts.rates.of(TOPIC).pull(60, 2.0)
    info = make_running_info(
        rig.parts, [queue, young], [SubscriptionData(topic=TOPIC)], started_ms=17,
        from_where=FromWhere.LAST, timestamp_ms=0, strategy_name="AVG",
    )  # fmt: skip
    assert decode_body(ConsumerRunningInfo, encode_body(info)) == info
    wanted = {
        "consumerGroup": GROUP,
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "consumeMessageBatchMaxSize": "7",
        "pullThresholdForTopic": "-1",
        "consumeTimeout": "15",
        "PROP_CONSUMEORDERLY": "true",
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "PROP_CONSUMER_START_TIMESTAMP": "17",
        "PROP_THREADPOOL_CORE_SIZE": "20",
        "PROP_NAMESERVER_ADDR": "names;",
        "clientIP": "10.1.1.1",
    }
    assert wanted.items() <= info.properties.items()
    assert info.properties["PROP_CLIENT_VERSION"].startswith("V")
    assert info.mq_table[name()].commit_offset == 3
    assert info.mq_table[name()].cached_msg_count == 2
    assert info.mq_table[name(1)].commit_offset == -1
    assert info.status_table[TOPIC].pull_tps == 1.0


@pytest.mark.parametrize(
    ("result", "error", "shown"),
    [
        (ConsumeResult.SUCCESS, None, CMResult.CR_SUCCESS),
        (ConsumeResult.SUSPEND, None, CMResult.CR_LATER),
        (ConsumeResult.ROLLBACK, None, CMResult.CR_ROLLBACK),
        (ConsumeResult.COMMIT, None, CMResult.CR_COMMIT),
        (None, None, CMResult.CR_RETURN_NULL),
        (None, ValueError("why"), CMResult.CR_THROW_EXCEPTION),
    ],
)
def test_an_operator_is_told_how_one_message_went(
    result: ConsumeResult | None, error: Exception | None, shown: CMResult
) -> None:
    consumed = Consumed(GROUP, [message(0)], ConsumeContext(name()), result, error, 12.4)
    told = direct_result(consumed, in_order=True)
    assert (told.consume_result, told.order, told.auto_commit) == (shown, True, True)
    assert told.spent_time_ms == 12
    assert told.remark == (None if error is None else "ValueError: why")
