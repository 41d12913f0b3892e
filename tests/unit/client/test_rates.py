"""Rates are those of the last minute, failures those of the last hour."""

import pytest

from roketto.client import rates
from roketto.client.rates import Rates


def test_what_is_older_than_its_window_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1_000.0
    monkeypatch.setattr(rates, "monotonic_s", lambda: now_s)
    topic = Rates().of("T")
    topic.pull(30, 4.0)
    topic.pull(30, 8.0)
    topic.consume(3, 1, 10.0)
    topic.consume(2, 0, 20.0)
    status = topic.status()
    assert (status.pull_tps, status.pull_rt) == (1.0, 6.0)
    assert (status.consume_ok_tps, status.consume_rt) == (5 / 60, 15.0)
    assert (status.consume_failed_tps, status.consume_failed_msgs) == (1 / 60, 1)
    now_s += 61
    status = topic.status()
    assert (status.pull_tps, status.pull_rt, status.consume_ok_tps) == (0, 0, 0)
    assert (status.consume_failed_tps, status.consume_failed_msgs) == (0, 1)
    now_s += 3_600
    assert topic.status().consume_failed_msgs == 0


def test_topics_that_are_gone_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_TOPICS_MAX", 2)
    found = Rates()
    first = found.of("a")
    assert found.of("a") is first
    found.of("b")
    found.of("c")
    assert found.of("a") is not first
