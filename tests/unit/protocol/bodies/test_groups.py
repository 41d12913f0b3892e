"""Consumer groups have Java's bytes and defaults."""

import msgspec
from hypothesis import given

from roketto.protocol.bodies import groups
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.groups import (
    ExponentialRetryPolicy,
    GroupRetryPolicyType,
    SubscriptionGroupConfig,
)
from unit.protocol.bodies.families import bodies, check_golden, check_round_trip


def test_bodies_keep_the_bytes_of_java() -> None:
    assert check_golden(groups) == 8


@given(bodies(groups))
def test_any_value_survives_both_forms(value: msgspec.Struct) -> None:
    check_round_trip(value)


def test_missing_members_have_the_defaults_of_java() -> None:
    group = decode_body(SubscriptionGroupConfig, b'{"groupName":"g"}')
    assert group.consume_enable
    assert (group.retry_max_times, group.retry_queue_nums) == (16, 1)
    assert group.group_retry_policy.type is GroupRetryPolicyType.CUSTOMIZED
    policy = decode_body(ExponentialRetryPolicy, b"{}")
    assert (policy.initial, policy.max, policy.multiplier) == (5_000, 7_200_000, 2)


def test_default_group_is_written_as_java_writes_it() -> None:
    assert encode_body(SubscriptionGroupConfig(group_name="CG")) == (
        b'{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,'
        b'"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,'
        b'"groupName":"CG","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,'
        b'"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,'
        b'"whichBrokerWhenConsumeSlowly":1}'
    )
