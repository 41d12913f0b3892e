"""Everything is counted once, under its name, and what is gone or silent takes no room."""

from roketto.broker.stats import UNKNOWN_CODE, Statistics
from roketto.broker.stats_window import DAY, MINUTE
from roketto.protocol.codes import RequestCode, ResponseCode


def statistics(*, queues: bool = True, meters_max: int = 1_000) -> Statistics:
    return Statistics(now_s=lambda: 0.0, enable_detail_stat=queues, meters_max=meters_max)


def run(stats: Statistics, begin_s: int, end_s: int) -> None:
    for now_s in range(begin_s, end_s + 1):
        stats.tick(now_s)


def test_requests_are_counted_by_their_code() -> None:
    stats = statistics()
    stats.note_request(RequestCode.SEND_MESSAGE)
    stats.note_request(RequestCode.SEND_MESSAGE)
    stats.note_request(RequestCode.PULL_MESSAGE)
    assert stats.snapshot()["requests"] == {10: 2, 11: 1}


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
    assert stats.snapshot()["refusals"] == {(10, 16): 2, (10, 17): 1}


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
    assert [found.queues[queue].count for queue in (0, 1)] == [10, 1]


def test_gets_are_counted_for_topic_group_and_queue() -> None:
    stats = statistics()
    stats.note_get("T", "G", 3, 32, 6_400)
    stats.note_get("T", "H", 3, 1, 200)
    taken = stats.topics["T"].groups["G"]
    assert (taken.get.times, taken.get.count, taken.get.size) == (1, 32, 6_400)
    assert taken.queues[3].count == 32
    assert stats.get.count == 33


def test_a_get_that_found_nothing_is_a_miss_and_makes_no_entry() -> None:
    stats = statistics()
    stats.note_get("T", "G", 0, 0, 0)
    assert stats.get_missed == 1
    assert not stats.topics


def test_messages_sent_back_are_counted_for_their_group() -> None:
    stats = statistics()
    stats.note_send_back("T", "G")
    assert stats.topics["T"].groups["G"].send_back.count == 1


def test_system_topics_can_be_taken_out_of_the_totals() -> None:
    stats = statistics()
    stats.note_put("T", 0, 5, 500)
    stats.note_put("SCHEDULE_TOPIC_XXXX", 0, 3, 300)
    stats.note_get("rmq_sys_TRACE_DATA", "G", 0, 2, 200)
    assert stats.put.count - stats.system_put_count == 5
    assert stats.get.count - stats.system_get_count == 0


def test_without_detail_there_are_no_queues() -> None:
    stats = statistics(queues=False)
    stats.note_put("T", 0, 1, 100)
    stats.note_get("T", "G", 0, 1, 100)
    assert not stats.topics["T"].queues
    assert not stats.topics["T"].groups["G"].queues


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


def test_the_latencies_of_the_last_minute_are_shown() -> None:
    stats = statistics()
    for taken_ms in (20, 40, 3_000):
        stats.latency.note(taken_ms)
    run(stats, 1, 60)
    shown = stats.snapshot()
    assert shown["put_latency"]["max_ms"] == 3_000
    assert shown["put_latency"]["ranges"]["[10~50ms]"] == 2


def test_the_snapshot_has_every_figure_of_a_topic() -> None:
    stats = statistics()
    stats.note_put("T", 1, 2, 20)
    stats.note_get("T", "G", 1, 1, 10)
    run(stats, 1, 10)
    topic = stats.snapshot()["topics"]["T"]
    assert topic["put"]["minute"] == {
        "sum": 2, "tps": 0.2, "average": 2.0, "size_sum": 20, "size_tps": 2.0,
    }  # fmt: skip
    assert topic["queues"][1]["count"] == 2
    assert topic["groups"]["G"]["get"]["size"] == 10
    assert topic["groups"]["G"]["queues"][1]["times"] == 1
    assert topic["groups"]["G"]["send_back"]["times"] == 0


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
    stats = statistics(meters_max=5)
    stats.note_put("T", 0, 1, 1)
    stats.note_put("U", 0, 1, 1)
    stats.note_put("T", 1, 1, 1)
    stats.note_put("V", 0, 1, 1)
    stats.note_get("T", "G", 0, 1, 1)
    stats.note_get("V", "G", 0, 1, 1)
    stats.note_send_back("T", "G")
    stats.note_put("T", 2, 1, 1)
    assert sorted(stats.topics) == ["T", "U"]
    assert sorted(stats.topics["T"].queues) == [0, 1]
    assert (stats.put.count, stats.get.count) == (5, 2)
    assert stats.left_out == 5
    stats.forget_topic("U")
    stats.note_get("T", "G", 0, 1, 1)
    assert stats.topics["T"].groups["G"].get.count == 1


def test_room_of_what_was_forgotten_can_be_used_again() -> None:
    stats = statistics(meters_max=5)
    for round_number in range(10):
        stats.note_put(f"T{round_number}", 0, 1, 1)
        stats.note_get(f"T{round_number}", "G", 0, 1, 1)
        if round_number % 2:
            stats.forget_group("G")
        stats.forget_topic(f"T{round_number}")
    assert stats.left_out == 0


def test_what_was_silent_for_a_day_is_forgotten() -> None:
    stats = statistics()
    stats.note_put("T", 0, 1, 1)
    stats.note_get("T", "G", 0, 1, 1)
    stats.note_put("busy", 0, 1, 1)
    stats.note_get("busy", "G", 0, 1, 1)
    stats.note_send_back("sent back only", "G")
    for now_s in range(600, 30 * 3_600, 600):
        stats.note_put("busy", 1, 1, 1)
        stats.tick(now_s)
    assert sorted(stats.topics) == ["busy"]
    assert sorted(stats.topics["busy"].queues) == [1]
    assert not stats.topics["busy"].groups
    assert stats.figures(stats.topics["busy"].put, DAY).sum == 144
