"""Timer messages are taken, delivered at once or refused as Java does it."""

from pathlib import Path

import pytest

from roketto.broker.config import BrokerConfig
from roketto.broker.timer_gate import TimerGate
from roketto.protocol.headers.base import I64_MAX
from roketto.protocol.names import TIMER_TOPIC
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.store.files import Files
from roketto.store.put_status import PutRefusedError, PutStatus
from roketto.store.timer_wheel import TimerWheel

NOW_MS = 1_700_000_000_500


class Gate:
    """One at a certain time, with luck that is known."""

    def __init__(self, root: Path) -> None:
        self.config = BrokerConfig(store_path_root_dir=root, broker_ip1="10.0.0.1")
        self.luck = 0.0
        self.wheel = TimerWheel(Files(), root / "timerwheel", 1000, 64)
        assert self.wheel.open()
        self.gate = TimerGate(
            self.wheel, self.config, clock_ms=lambda: NOW_MS, chance=lambda: self.luck
        )

    def pass_through(self, **properties: str) -> Record:
        record = Record("T", b"x", encode_properties(properties), queue_id=3)
        self.gate.check(record)
        self.gate.transform(record)
        return record

    def refusal(self, **properties: str) -> PutRefusedError:
        with pytest.raises(PutRefusedError) as caught:
            self.pass_through(**properties)
        return caught.value


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def test_a_timer_message_waits(gate: Gate) -> None:
    """For the slot that ends when it is due, or after."""
    record = gate.pass_through(TIMER_DELAY_SEC="5")
    assert (record.topic, record.queue_id) == (TIMER_TOPIC, 0)
    assert record.get_property("TIMER_OUT_MS") == "1700000005000"
    assert gate.pass_through(TIMER_DELAY_MS="500").get_property("TIMER_OUT_MS") == "1700000000000"


def test_others_pass_as_they_are(gate: Gate) -> None:
    """Messages without a time, and those whose time is over."""
    for properties in ({}, {"TIMER_DELAY_SEC": "0"}, {"TIMER_DELIVER_MS": str(NOW_MS)}):
        record = gate.pass_through(**properties)
        assert (record.topic, record.queue_id) == ("T", 3)
        assert record.properties == properties


def test_a_recall_that_comes_too_late_is_illegal(gate: Gate) -> None:
    """It would be delivered itself."""
    refused = gate.refusal(TIMER_DELIVER_MS=str(NOW_MS - 7), TIMER_DEL_UNIQKEY="key")
    assert refused.status is PutStatus.WHEEL_TIMER_MSG_ILLEGAL
    assert "7 ms ago" in refused.reason


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": "259201"},
        {"TIMER_DELAY_MS": "259200001"},
        {"TIMER_DELIVER_MS": str(I64_MAX)},
        {"TIMER_DELAY_SEC": str(I64_MAX)},
    ],
)
def test_what_is_too_far_ahead_is_illegal(gate: Gate, properties: dict[str, str]) -> None:
    """Three days are the default; numbers that Java's arithmetic wraps are not due at once."""
    refused = gate.refusal(**properties)
    assert refused.status is PutStatus.WHEEL_TIMER_MSG_ILLEGAL
    assert "259200000ms (timerMaxDelaySec)" in refused.reason
    gate.config.timer_max_delay_sec = 1 << 63
    gate.pass_through(**properties)


def test_without_a_wheel_no_time_can_be_had(gate: Gate) -> None:
    gate.config.timer_wheel_enable = False
    assert gate.refusal(TIMER_DELAY_SEC="5").status is PutStatus.WHEEL_TIMER_NOT_ENABLE
    gate.pass_through(KEYS="k")


@pytest.mark.parametrize(
    ("count", "luck", "is_taken"),
    [(10, 0.0, True), (15, 0.49, False), (15, 0.51, True), (20, 0.999, False)],
)
def test_a_crowded_slot_takes_some_by_chance(
    gate: Gate, count: int, luck: float, is_taken: bool
) -> None:
    """Up to the bound all, from its double on none."""
    gate.config.timer_congest_num_each_slot = 10
    gate.luck = luck
    gate.wheel.put(1_700_000_005_000, 0, 0, count)
    if is_taken:
        gate.pass_through(TIMER_DELAY_SEC="5")
    else:
        refused = gate.refusal(TIMER_DELAY_SEC="5")
        assert refused.status is PutStatus.WHEEL_TIMER_FLOW_CONTROL
        assert f"{count} messages are due" in refused.reason
    gate.pass_through(TIMER_DELAY_SEC="6")
