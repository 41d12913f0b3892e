"""Lag is what a broker has less what a group consumed; what brokers say is added up."""

from roketto.admin.progress import merge_progress, owners_of
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.bodies.running import ConsumerRunningInfo, ProcessQueueInfo
from roketto.protocol.bodies.stats import ConsumeStats, OffsetWrapper

A0, A1 = MessageQueue("a", 0, "T"), MessageQueue("a", 1, "T")
B0, RETRY = MessageQueue("b", 0, "T"), MessageQueue("a", 0, "%RETRY%g")


def test_lag_and_what_is_in_flight_are_summed_over_brokers() -> None:
    a = ConsumeStats(
        consume_tps=1.5,
        offset_table={A1: OffsetWrapper(10, 4, 77, 6), A0: OffsetWrapper(3, 3, 70, 3)},
    )
    b = ConsumeStats(2.0, {B0: OffsetWrapper(9, 0, 0, 9), RETRY: OffsetWrapper(2, 1, 5, 1)})
    progress = merge_progress("g", [b, a], {A1: "client"})
    assert [one.queue for one in progress.queues] == [RETRY, A0, A1, B0]
    assert [one.lag for one in progress.queues] == [1, 0, 6, 9]
    assert [one.in_flight for one in progress.queues] == [0, 0, 2, 9]
    assert (progress.lag, progress.in_flight, progress.consume_tps) == (16, 11, 3.5)
    assert progress.topics == ["%RETRY%g", "T"]
    assert [one.client_id for one in progress.of_topic("T")] == [None, "client", None]
    assert progress.queues[2].last_consume_ms == 77


def test_brokers_before_5_have_nothing_in_flight() -> None:
    """They do not say how far they have sent, which reads as 0."""
    progress = merge_progress("g", [ConsumeStats(0.0, {A0: OffsetWrapper(9, 8, 1, 0)})], {})
    assert (progress.lag, progress.in_flight) == (1, 0)


def test_a_group_that_is_ahead_of_its_broker_has_less_than_no_lag() -> None:
    progress = merge_progress("g", [ConsumeStats(0.0, {A0: OffsetWrapper(5, 8, 1, 8)})], {})
    assert progress.lag == -3


def test_consumers_say_which_queues_are_theirs() -> None:
    infos = {
        "x": ConsumerRunningInfo(mq_table={A0: ProcessQueueInfo()}),
        "y": ConsumerRunningInfo(mq_table={A1: ProcessQueueInfo(), B0: ProcessQueueInfo()}),
    }
    assert owners_of(infos) == {A0: "x", A1: "y", B0: "y"}
