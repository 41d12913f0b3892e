"""Slaves are told how far the wheel is, and what waits in it."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.handlers import timers as handlers
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.stats import TimerMetricsSerializeWrapper
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from unit.broker.send_rig import PLAIN, START_MS, SendRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path)
    rig.timers.start()
    yield rig
    rig.close()


def ask(rig: SendRig, code: RequestCode) -> bytes:
    answer = rig.handle(Command(code), handlers.ROUTES[code])
    assert isinstance(answer, Command)
    assert answer.code == ResponseCode.SUCCESS
    return bytes(answer.body)


def test_the_checkpoint_is_that_of_the_disk(rig: SendRig) -> None:
    """Seven numbers, as Java sends them."""
    rig.send(properties=PLAIN | {"TIMER_DELAY_SEC": "5"})
    while rig.timers.step() == 0:
        pass
    rig.store.close()
    rig.timers.close()
    body = ask(rig, RequestCode.GET_TIMER_CHECK_POINT)
    assert struct.unpack(">7q", body) == (START_MS, 52, 1, 1, 0, START_MS, 1)


def test_what_waits_is_counted_by_topic(rig: SendRig) -> None:
    for _ in range(2):
        rig.send(properties=PLAIN | {"TIMER_DELAY_SEC": "5"})
    while rig.timers.step() == 0:
        pass
    body = ask(rig, RequestCode.GET_TIMER_METRICS)
    metrics = decode_body(TimerMetricsSerializeWrapper, body)
    assert (metrics.timing_count["T"].count, metrics.timing_count["T"].time_stamp) == (2, START_MS)


@pytest.mark.parametrize("code", handlers.ROUTES)
def test_without_a_wheel_there_is_nothing_to_tell(rig: SendRig, code: RequestCode) -> None:
    """Java says null."""
    rig.config.timer_wheel_enable = False
    with pytest.raises(RequestError, match="is null: timerWheelEnable is false") as caught:
        ask(rig, code)
    assert caught.value.code == ResponseCode.SYSTEM_ERROR
