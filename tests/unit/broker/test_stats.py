"""Everything is counted once, under its name, and what is gone or silent takes no room."""

from datetime import datetime

from roketto.broker.stats import SCHEDULE_GROUP, UNKNOWN_CODE, Statistics
from roketto.broker.stats_topics import ALL_QUEUES
from roketto.broker.stats_window import DAY, MINUTE
from roketto.protocol.codes import RequestCode, ResponseCode


class Clock:
    """The time of day, set by hand."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def statistics(
    *,
    queues: bool = True,
    meters_max: int = 1_000,
    clock: Clock | None = None,
    is_sync: bool = False,
) -> Statistics:
    return Statistics(
        now_s=lambda: 0.0, clock_ms=clock or Clock(), enable_detail_stat=queues, is_sync=is_sync,
        meters_max=meters_max,
    )  # fmt: skip


def run(stats: Statistics, begin_s: int, end_s: int) -> None:
    for now_s in range(begin_s, end_s + 1):
        assert not stats.tick(now_s)


def test_requests_are_counted_by_their_code() -> None:
    stats = statistics()
    stats.note_request(RequestCode.SEND_MESSAGE)
    stats.note_request(RequestCode.SEND_MESSAGE)
    stats.note_request(RequestCode.PULL_MESSAGE)
    assert {code: count for code, count in stats.requests.items() if count} == {10: 2, 11: 1}


def test_sends_of_the_quick_lane_count_as_requests() -> None:
    """Also if they are looked at twice."""
    stats = statistics()
    stats.note_request(RequestCode.SEND_MESSAGE_V2)
    stats.plain_sends += 2
    stats.plain_ends += 1
    for _ in range(2):
        assert stats.requests[RequestCode.SEND_MESSAGE_V2] == 3
        assert stats.requests[RequestCode.END_TRANSACTION] == 1


def test_codes_that_nobody_knows_share_one_counter() -> None:
    stats = statistics()
    size = len(stats.requests)
    for code in range(50_000, 50_100):
        stats.note_request(code)
        stats.note_refusal(code, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    assert len(stats.requests) == size
    assert stats.requests[UNKNOWN_CODE] == 100
    assert stats.refusals == {(UNKNOWN_CODE, 3): 100}


def test_refusals_are_counted_by_request_and_reason() -> None:
    stats = statistics()
    stats.note_refusal(RequestCode.SEND_MESSAGE, ResponseCode.NO_PERMISSION)
    stats.note_refusal(RequestCode.SEND_MESSAGE, ResponseCode.NO_PERMISSION)
    stats.note_refusal(RequestCode.SEND_MESSAGE, ResponseCode.TOPIC_NOT_EXIST)
    assert stats.refusals == {(10, 16): 2, (10, 17): 1}


def test_bytes_are_counted_both_ways() -> None:
    stats = statistics()
    stats.note_bytes(100, 7)
    stats.note_bytes(101, 9)
    assert (stats.bytes_in, stats.bytes_out) == (101, 9)


def test_a_batch_is_one_put_of_many_messages() -> None:
    stats = statistics()
    stats.note_put("T", 0, 10, 2_000)
    stats.note_put("T", 1, 1, 200)
    found = stats.topics["T"]
    assert (found.put.times, found.put.count, found.put.size) == (2, 11, 2_200)
    assert (stats.put.times, stats.put.count, stats.put.size) == (2, 11, 2_200)
    assert not found.queues, "only delay levels are told apart"
    assert not found.latency, "both took no time"


def test_gets_are_counted_for_topic_and_group() -> None:
    stats = statistics()
    stats.note_get("T", "G", 3, 32, 6_400, 7)
    stats.note_get("T", "G", 3, 1, 200, 2)
    stats.note_get("T", "H", 3, 1, 200)
    taken = stats.topics["T"].groups["G"]
    assert (taken.get.times, taken.get.count, taken.get.size) == (2, 33, 6_600)
    assert (taken.latency[3].times, taken.latency[3].count) == (2, 9)
    assert stats.get.count == 34


def test_the_longest_get_is_known_also_if_it_found_nothing() -> None:
    stats = statistics()
    stats.note_get("T", "G", 0, 1, 10, 7)
    stats.note_get("T", "G", 0, 0, 0, 30)
    stats.note_get("T", "G", 0, 1, 10, 2)
    assert stats.get_max_ms == 30


def test_a_put_takes_the_time_since_it_was_stored() -> None:
    """Only what took a millisecond is noted, all are counted; a clock that was set back is none."""
    clock = Clock(1_000)
    stats = statistics(clock=clock)
    for stored_ms in (1_000, 995, 1_005, 1_000):
        stats.note_put("T", 2, 1, 100, stored_ms)
    stats.note_put("T", 2, 1, 100)
    assert (stats.topics["T"].latency[2].times, stats.topics["T"].latency[2].count) == (1, 5)
    run(stats, 1, 60)
    assert stats.latency.ranges_before[:2] == [4, 1]
    assert stats.latency.max_ms == 5


def test_with_a_synced_disk_puts_take_as_long_as_they_wait_for_it() -> None:
    """Which Durability says; the time of the append alone is not that of the put."""
    stats = statistics(clock=Clock(1_000), is_sync=True)
    stats.note_put("T", 2, 1, 100, 995)
    stats.latency.note(20)
    run(stats, 1, 60)
    assert stats.latency.ranges_before[:3] == [0, 0, 1]
    assert stats.topics["T"].latency[2].count == 5


def test_delay_levels_are_told_apart() -> None:
    """As in Java they are the only queues that are, on their way in and out."""
    stats = statistics()
    stats.note_put("SCHEDULE_TOPIC_XXXX", 2, 1, 300)
    stats.note_delivered(2, 280)
    found = stats.topics["SCHEDULE_TOPIC_XXXX"]
    assert (found.queues[2].count, found.queues[2].size) == (1, 300)
    taken = found.groups[SCHEDULE_GROUP]
    assert (taken.get.count, taken.queues[2].count, taken.queues[2].size) == (1, 1, 280)
    assert stats.get.count == 0, "nobody outside has got it"


def test_a_dead_letter_that_was_given_back_counts_for_the_store_only() -> None:
    """One that comes again counts for the topic in which it waits, as in Java."""
    stats = statistics()
    stats.note_put_back("SCHEDULE_TOPIC_XXXX", 2, 100, 0)
    stats.note_put_back("%DLQ%G", 0, 100, 0)
    assert sorted(stats.topics) == ["SCHEDULE_TOPIC_XXXX"]
    assert (stats.put.count, stats.put_aside.count, stats.user_put_count) == (2, 1, 0)


def test_the_records_of_transactions_count_for_the_store_only() -> None:
    stats = statistics()
    stats.note_put("T", 0, 1, 100)
    stats.note_put("RMQ_SYS_TRANS_HALF_TOPIC", 0, 1, 100)
    stats.note_put("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, 1, 100)
    assert (stats.put.count, stats.put_aside.count, stats.user_put_count) == (3, 1, 1)


def test_topics_that_take_turns_are_told_apart() -> None:
    stats = statistics()
    for topic in ("T", "U", "U", "T", "T"):
        stats.note_put(topic, 0, 1, 10)
    assert {name: found.put.count for name, found in stats.topics.items()} == {"T": 3, "U": 2}
    assert stats.put.count == 5


def test_a_get_that_found_nothing_is_a_miss_and_makes_no_entry() -> None:
    stats = statistics()
    stats.note_get("T", "G", 0, 0, 0)
    assert stats.get_missed == 1
    assert not stats.topics


def test_messages_sent_back_are_counted_for_their_group() -> None:
    stats = statistics()
    stats.note_send_back("T", "G")
    stats.note_dead("T", "G")
    taken = stats.topics["T"].groups["G"]
    assert (taken.send_back.count, taken.dead.count) == (1, 1)


def test_system_topics_can_be_taken_out_of_the_totals() -> None:
    stats = statistics()
    stats.note_put("T", 0, 5, 500)
    stats.note_put("SCHEDULE_TOPIC_XXXX", 0, 3, 300)
    stats.note_get("rmq_sys_TRACE_DATA", "G", 0, 2, 200)
    assert (stats.user_put_count, stats.user_get_count) == (5, 0)


def test_without_detail_there_are_no_queues() -> None:
    stats = statistics(queues=False)
    stats.note_put("SCHEDULE_TOPIC_XXXX", 0, 1, 100)
    stats.note_delivered(0, 100)
    stats.note_get("T", "G", 0, 1, 100, 3)
    stats.note_get("T", "G", 1, 1, 100, 4)
    assert not stats.topics["SCHEDULE_TOPIC_XXXX"].queues
    assert not stats.topics["SCHEDULE_TOPIC_XXXX"].groups[SCHEDULE_GROUP].queues
    latency = stats.topics["T"].groups["G"].latency
    assert {key: meter.count for key, meter in latency.items()} == {ALL_QUEUES: 7}


def test_rates_of_topics_and_groups_cover_a_minute() -> None:
    stats = statistics()
    for now_s in range(1, 61):
        stats.note_put("T", 0, 3, 300)
        stats.note_get("T", "G", 0, 2, 200)
        stats.tick(now_s)
    assert stats.topic_tps("T") == 3.0
    assert stats.group_tps("G", "T") == 2.0
    assert stats.byte_figures(stats.topics["T"].put, MINUTE).tps == 300.0


def test_unknown_topics_and_groups_have_no_rate() -> None:
    stats = statistics()
    stats.note_put("T", 0, 1, 1)
    assert (stats.topic_tps("U"), stats.group_tps("G", "U"), stats.group_tps("G", "T")) == (0, 0, 0)


def test_rates_of_the_broker_cover_three_spans_once_they_are_full() -> None:
    stats = statistics()
    for now_s in range(1, 62):
        stats.note_put("T", 0, 4, 400)
        stats.note_get("T", "G", 0, 3, 300)
        stats.note_get("T", "G", 0, 0, 0)
        stats.tick(now_s)
    rates = stats.recent_tps()
    assert rates == {
        "put": [4.0, 4.0], "get_found": [1.0, 1.0], "get_missed": [1.0, 1.0], "got": [3.0, 3.0],
    }  # fmt: skip
    run(stats, 62, 700)
    assert len(stats.recent_tps()["put"]) == 3


def test_a_tick_that_comes_twice_changes_nothing() -> None:
    stats = statistics()
    for _ in range(50):
        stats.tick(1.0)
    assert stats.recent_tps()["put"] == []


def test_midnight_divides_the_totals() -> None:
    clock = Clock(int(datetime.fromisoformat("2026-05-04T23:59:58").timestamp() * 1000))
    stats = statistics(clock=clock)
    for now_s in range(1, 5):
        clock.now_ms += 1_000
        stats.note_put("T", 0, 10, 100)
        stats.note_put("SCHEDULE_TOPIC_XXXX", 0, 1, 100)
        stats.note_get("T", "G", 0, 1, 10)
        stats.tick(now_s)
    assert (stats.mornings.put_today, stats.mornings.get_today) == (20, 2)
    assert (stats.user_put_count, stats.user_get_count) == (40, 4)


def test_a_deleted_topic_begins_again_from_nothing() -> None:
    stats = statistics()
    stats.note_put("T", 0, 5, 500)
    stats.forget_topic("T")
    stats.forget_topic("never seen")
    assert stats.topic_tps("T") == 0
    stats.note_put("T", 0, 1, 100)
    assert stats.topics["T"].put.count == 1
    assert stats.put.count == 6


def test_a_deleted_group_is_gone_from_every_topic() -> None:
    stats = statistics()
    for topic in ("T", "U"):
        stats.note_get(topic, "G", 0, 1, 1)
        stats.note_get(topic, "H", 0, 1, 1)
    stats.forget_group("G")
    assert [sorted(found.groups) for found in stats.topics.values()] == [["H"], ["H"]]


def test_beyond_the_bound_only_the_totals_count() -> None:
    stats = statistics(meters_max=3, clock=Clock(1_000))
    stats.note_put("T", 0, 1, 1)
    stats.note_put("U", 0, 1, 1)
    stats.note_put("T", 1, 1, 1, 999)
    stats.note_put("V", 0, 1, 1)
    stats.note_get("T", "G", 0, 1, 1)
    stats.note_get("V", "G", 0, 1, 1)
    stats.note_send_back("T", "G")
    stats.note_dead("T", "G")
    stats.note_delivered(0, 1)
    stats.note_put("T", 2, 1, 1, 999)
    assert sorted(stats.topics) == ["T", "U"]
    assert sorted(stats.topics["T"].latency) == [1]
    assert (stats.put.count, stats.get.count) == (5, 2)
    assert stats.left_out == 7
    stats.forget_topic("U")
    stats.note_put("W", 0, 1, 1)
    assert stats.topics["W"].put.count == 1


def test_delay_levels_have_a_bound_too() -> None:
    stats = statistics(meters_max=1)
    stats.note_put("SCHEDULE_TOPIC_XXXX", 0, 1, 1)
    assert not stats.topics["SCHEDULE_TOPIC_XXXX"].queues
    assert stats.left_out == 1


def test_room_of_what_was_forgotten_can_be_used_again() -> None:
    stats = statistics(meters_max=6, clock=Clock(1_000))
    for round_number in range(10):
        stats.note_put(f"T{round_number}", 0, 1, 1, 999)
        stats.note_get(f"T{round_number}", "G", 0, 1, 1, 1)
        if round_number % 2:
            stats.forget_group("G")
        stats.forget_topic(f"T{round_number}")
    assert stats.left_out == 0


def test_what_was_silent_for_a_day_is_forgotten() -> None:
    stats = statistics(clock=Clock(1_000))
    stats.note_put("T", 0, 1, 1, 999)
    stats.note_get("T", "G", 0, 1, 1, 1)
    stats.note_put("busy", 0, 1, 1, 999)
    stats.note_get("busy", "G", 0, 1, 1)
    stats.note_send_back("sent back only", "G")
    stats.note_put("SCHEDULE_TOPIC_XXXX", 0, 1, 1)
    stats.note_delivered(0, 1)
    for now_s in range(600, 30 * 3_600, 600):
        stats.note_put("busy", 1, 1, 1, 999)
        assert not stats.tick(now_s)
    assert sorted(stats.topics) == ["busy"]
    assert sorted(stats.topics["busy"].latency) == [1]
    assert not stats.topics["busy"].groups
    assert stats.figures(stats.topics["busy"].put, DAY).sum == 144


def test_a_topic_that_was_silent_for_a_day_begins_again() -> None:
    """Also if it was the last that something was put into."""
    stats = statistics()
    stats.note_put("T", 0, 5, 500)
    for hour in range(1, 30):
        stats.tick(hour * 3_600)
    assert not stats.topics
    stats.note_put("T", 0, 1, 100)
    assert stats.topics["T"].put.count == 1


def test_what_was_forgotten_leaves_its_room() -> None:
    """Silent topics and groups: as many as before find room when they are gone."""
    stats = statistics(meters_max=12, clock=Clock(1_000))
    for round_number in range(3):
        for name in "TU":
            stats.note_put(f"{name}{round_number}", 0, 1, 1, 999)
            stats.note_get(f"{name}{round_number}", "G", 0, 1, 1, 1)
        for hour in range(26):
            run(stats, *(2 * [(round_number * 26 + hour + 1) * 3_600]))
    assert (stats.left_out, stats.topics) == (0, {})


def test_much_that_is_silent_is_forgotten_in_steps() -> None:
    stats = statistics(meters_max=10_000)
    for number in range(450):
        stats.note_put(f"T{number}", 0, 1, 1)
    for hour in range(1, 25):
        while stats.tick(hour * 3_600):
            pass
    left = [len(stats.topics)]
    while stats.tick(25 * 3_600):
        left.append(len(stats.topics))
    assert left == [450, 250, 50]
    assert not stats.topics


def test_many_meters_make_many_turns() -> None:
    stats = statistics(meters_max=10_000)
    for number in range(3_000):
        stats.note_put(f"T{number}", 0, 1, 1)
    turns = 1
    while stats.tick(10):
        turns += 1
    assert turns == 2  # of 2,000; with the totals there are 3,002
    assert {stats.topic_tps(f"T{number}") for number in range(3_000)} == {0.1}
