"""Values out of their bounds are refused with the bounds; limits of a topic are shared."""

import pytest

from roketto.client.active_consumer import IllegalConsumerError
from roketto.client.push_tuning import PushTuning


def test_the_defaults_are_those_of_java_but_for_larger_pulls() -> None:
    tuning = PushTuning()
    assert (tuning.concurrency, tuning.batch_max, tuning.pull_count_max) == (20, 1, 256)
    assert (tuning.count_max(64), tuning.mib_max(64), tuning.span_max) == (1000, 100, 2000)
    assert tuning.reconsume_limit(in_order=False) == 16
    assert tuning.reconsume_limit(in_order=True) == 2**31 - 1
    assert PushTuning(reconsume_max=0).reconsume_limit(in_order=True) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [("concurrency", 0), ("batch_max", 1025), ("suspend_ms", 9), ("topic_cached_mib_max", 0)],
)
def test_a_value_out_of_its_bounds_is_refused(name: str, value: int) -> None:
    with pytest.raises(IllegalConsumerError, match=f"{name} is {value}; it takes"):
        PushTuning(**{name: value})  # type: ignore[arg-type]


def test_what_a_topic_may_have_is_shared_by_its_queues() -> None:
    tuning = PushTuning(topic_cached_count_max=100, topic_cached_mib_max=3)
    assert (tuning.count_max(4), tuning.mib_max(4)) == (25, 1)
    assert (tuning.count_max(0), tuning.mib_max(0)) == (1000, 100)


@pytest.mark.parametrize(("asked", "waited"), [(-1, 1.0), (0, 0.01), (99_999, 30.0), (50, 0.05)])
def test_a_queue_waits_within_bounds(asked: int, waited: float) -> None:
    assert PushTuning().suspend_s(asked) == waited
