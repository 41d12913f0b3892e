"""A minute is told in one line, with what has changed in it and nothing from before."""

from roketto.broker.minutes import Minutes
from roketto.broker.stats import Statistics
from roketto.protocol.codes import RequestCode, ResponseCode


def test_a_minute_is_what_the_counters_have_gained() -> None:
    """Requests and refusals by name, the most frequent first; bytes in megabytes."""
    stats = Statistics(now_s=lambda: 0.0)
    stats.note_request(RequestCode.HEART_BEAT)
    minutes = Minutes(stats)
    for _ in range(3):
        stats.note_request(RequestCode.PULL_MESSAGE)
    stats.note_request(RequestCode.SEND_MESSAGE_V2)
    stats.note_request(47_110)
    stats.note_put("T", 0, 2, 1_000_000)
    stats.note_get("T", "G", 0, 5, 700)
    stats.note_bytes(2_540_000, 99)
    stats.note_refusal(RequestCode.SEND_MESSAGE_V2, ResponseCode.SYSTEM_BUSY)
    stats.note_refusal(47_110, 999)
    assert minutes.describe(60) == (
        "last 60 s: put 2 (1.0 MB), got 5, 2.5 MB in, 0.0 MB out; requests: 3 PULL_MESSAGE,"
        " 1 SEND_MESSAGE_V2, 1 unknown; refused: 1 SEND_MESSAGE_V2 (SYSTEM_BUSY), 1 unknown (999)"
    )
    stats.note_request(RequestCode.HEART_BEAT)
    assert minutes.describe(60) == (
        "last 60 s: put 0 (0.0 MB), got 0, 0.0 MB in, 0.0 MB out; requests: 1 HEART_BEAT"
    )


def test_a_minute_without_requests_has_no_line() -> None:
    """A broker that nobody uses does not fill its log."""
    stats = Statistics(now_s=lambda: 0.0)
    minutes = Minutes(stats)
    stats.note_bytes(100, 100)
    assert minutes.describe(60) is None


def test_many_kinds_are_added_up() -> None:
    """A line has a bound."""
    stats = Statistics(now_s=lambda: 0.0)
    minutes = Minutes(stats)
    for code in list(RequestCode)[:20]:
        stats.note_request(code)
    line = minutes.describe(60)
    assert line is not None
    assert line.endswith(", 8 of 8 other kinds")
