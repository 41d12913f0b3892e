"""Ids are known for their time, forgotten as they came, and no more than there is room for."""

import pytest

from roketto.broker.dedup_window import BY, EARLY_MAX, SECONDS, UNKNOWN, DedupWindow, Windows
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.properties import encode_properties


def topic(name: str = "T", **attributes: str) -> TopicConfig:
    return TopicConfig(
        topic_name=name, attributes={k.replace("_", "."): v for k, v in attributes.items()}
    )


def window_of(windows: Windows, name: str = "T", seconds: int = 60) -> DedupWindow:
    window = windows.of(topic(name, dedup_window_seconds=str(seconds)))
    assert window is not None
    return window


@pytest.mark.parametrize(
    ("name", "attributes", "seconds"),
    [
        ("T", {}, 0),
        ("T", {SECONDS: "0"}, 0),
        ("T", {SECONDS: "60"}, 60),
        ("T", {SECONDS: "99999"}, 86_400),
        ("T", {SECONDS: "1" * 50}, 0),
        ("T", {SECONDS: "-5"}, 0),
        ("T", {SECONDS: "soon"}, 0),
        ("T", {BY: "KEYS"}, 0),
        ("%RETRY%G", {SECONDS: "60"}, 0),
        ("%DLQ%G", {SECONDS: "60"}, 0),
        ("SCHEDULE_TOPIC_XXXX", {SECONDS: "60"}, 0),
    ],
)
def test_attributes_decide_which_topics_have_one(
    name: str, attributes: dict[str, str], seconds: int
) -> None:
    """Never one whose messages have the ids of others; a table may say anything."""
    windows = Windows(10)
    found = windows.of(TopicConfig(topic_name=name, attributes=attributes))
    assert (0 if found is None else found.seconds) == seconds
    assert windows.made.is_set() == bool(seconds)


def test_a_window_stays_until_its_attributes_change() -> None:
    """Permissions and queues are none of them; what was known before is read again then."""
    windows = Windows(10)
    window = window_of(windows)
    window.remember("a", 100)
    config = topic(dedup_window_seconds="60")
    config.perm = 4
    assert windows.of(config) is window
    changed = windows.of(topic(dedup_window_seconds="60", dedup_by="KEYS"))
    assert changed is not None
    assert changed is not window
    assert (changed.is_by_keys, changed.is_ready, len(changed)) == (True, False, 0)
    assert windows.room.left == 10
    assert windows.of(topic()) is None
    assert not windows.by_topic


def test_whoever_waits_for_a_window_that_goes_is_told() -> None:
    """It looks for the topic again, and finds what it is now."""
    windows = Windows(10)
    window = window_of(windows)
    windows.drop("T")
    windows.drop("T")
    assert window.is_ready
    assert window.ready.is_set()


@pytest.mark.parametrize(
    ("is_by_keys", "properties", "identity"),
    [
        (False, {"UNIQ_KEY": "u", "KEYS": "k"}, "u"),
        (True, {"UNIQ_KEY": "u", "KEYS": "k1 k2"}, "k1 k2"),
        (True, {"UNIQ_KEY": "u"}, None),
        (True, {"KEYS": " "}, None),
        (False, {"KEYS": "k"}, None),
    ],
)
def test_an_id_is_one_of_two_properties(
    is_by_keys: bool, properties: dict[str, str], identity: str | None
) -> None:
    """All keys together are one id; what has none is never a duplicate."""
    window = DedupWindow(Windows(10), "T", 60, is_by_keys)
    assert window.identity(encode_properties(properties)) == identity


def test_an_id_is_known_until_its_time_is_over() -> None:
    """At least for the window, and for a sixty-fourth of it and a second longer at most."""
    windows = Windows(1_000)
    window = window_of(windows, seconds=64)
    now_ms, log_end = 1_000_000, 0
    forgotten_at: dict[str, int] = {}
    stored_at: dict[str, int] = {}
    for second in range(200):
        identity = f"id {second}"
        if second < 100:
            window.remember(identity, log_end)
            stored_at[identity] = now_ms
            log_end += 200
        now_ms += 1_000
        window.mark(now_ms, log_end)
        assert not window.expire(now_ms, 10)
        for known in stored_at:
            if known not in forgotten_at and window.find(known) == UNKNOWN:
                forgotten_at[known] = now_ms
    ages_ms = [forgotten_at[known] - stored_at[known] for known in stored_at]
    assert min(ages_ms) >= 64_000
    assert max(ages_ms) <= 64_000 + 1_000 + 1_000
    assert len(window) == 0
    assert windows.room.left == 1_000
    assert windows.room.forgotten == 0


def test_a_turn_forgets_no_more_than_it_may() -> None:
    """A hundred thousand that end together do not stop everything."""
    window = window_of(Windows(1_000), seconds=1)
    for number in range(10):
        window.remember(str(number), number)
    window.mark(1_000, 10)
    assert window.expire(5_000, 4)
    assert len(window) == 6
    assert window.expire(5_000, 4)
    assert not window.expire(5_000, 4)
    assert len(window) == 0


def test_without_room_the_oldest_goes_and_that_counts() -> None:
    """Of the topic that takes the most; the others keep theirs."""
    windows = Windows(4)
    noisy, quiet = window_of(windows, "Noisy"), window_of(windows, "Quiet")
    for number in range(6):
        noisy.remember(f"n{number}", number)
    assert [noisy.find(f"n{number}") for number in range(6)] == [UNKNOWN, UNKNOWN, 2, 3, 4, 5]
    assert windows.room.forgotten == 2
    quiet.remember("q0", 6)
    quiet.remember("q1", 7)
    assert (len(noisy), len(quiet)) == (2, 2)
    quiet.remember("q2", 8)
    assert (len(noisy), len(quiet)) == (2, 2)
    assert quiet.find("q0") == UNKNOWN
    assert windows.room.left == 0
    assert windows.room.forgotten == 5


def test_a_message_that_takes_the_place_of_another_is_found() -> None:
    """As the message of a transaction does when it is committed; the room of both counts."""
    windows = Windows(3)
    window = window_of(windows, seconds=1)
    window.remember("a", 100)
    window.remember("b", 200)
    window.remember("a", 300)
    assert window.find("a") == 300
    window.remember("c", 400)
    assert window.find("a") == 300
    assert windows.room.forgotten == 0, "what went was no id that is known"
    window.mark(1_000, 400)
    window.expire(3_000, 10)
    assert [window.find(one) for one in "abc"] == [UNKNOWN, UNKNOWN, 400]


def test_one_that_comes_while_others_are_read_again_costs_none_of_them() -> None:
    """It is behind them in the log, and is forgotten after them."""
    windows = Windows(4)
    window = window_of(windows)
    window.remember_early("new", 900)
    for number in range(1, 4):
        window.recall(f"old {number}", number * 100, 1_000, is_last=False)
    window.set_ready()
    assert [window.find(f"old {number}") for number in range(1, 4)] == [100, 200, 300]
    window.remember_early("last", 1_000)
    window.remember("very last", 1_100)
    assert [window.find(f"old {number}") for number in range(1, 4)] == [UNKNOWN, UNKNOWN, 300]
    assert [window.find(one) for one in ("new", "last", "very last")] == [900, 1_000, 1_100]
    assert windows.room.forgotten == 2


def test_of_more_than_may_come_early_the_first_are_forgotten() -> None:
    """However long it takes to read again what came before."""
    windows = Windows(2 * EARLY_MAX)
    window = window_of(windows)
    for number in range(EARLY_MAX + 2):
        window.remember_early(f"id {number}", number)
    assert (len(window), windows.room.forgotten) == (0, 2)
    window.set_ready()
    assert (len(window), windows.room.forgotten) == (EARLY_MAX, 2)
    assert [window.find(f"id {number}") for number in range(3)] == [UNKNOWN, UNKNOWN, 2]
    assert window.find(f"id {EARLY_MAX + 1}") == EARLY_MAX + 1


def test_a_window_that_goes_forgets_what_came_early() -> None:
    """Its room is for others."""
    windows = Windows(4)
    window = window_of(windows)
    window.remember_early("new", 900)
    windows.drop("T")
    assert window.find("new") == UNKNOWN
    assert windows.room.left == 4


def test_what_is_read_again_counts_as_it_came() -> None:
    """The first of an id, unless another is said to have taken its place."""
    window = window_of(Windows(10), seconds=10)
    window.recall("a", 100, 5_000, is_last=False)
    window.recall("a", 200, 6_000, is_last=False)
    assert window.find("a") == 100
    window.recall("a", 300, 7_000, is_last=True)
    assert window.find("a") == 300
    window.recall("b", 400, 16_000, is_last=False)
    window.expire(16_999, 10)
    assert window.find("a") == 300
    window.expire(26_000, 10)
    assert (window.find("a"), window.find("b")) == (UNKNOWN, 400)


def test_operators_are_shown_figures_where_there_are_windows() -> None:
    """Nothing where nobody uses it."""
    windows = Windows(10)
    assert windows.figures() == {}
    window_of(windows).remember("a", 1)
    assert windows.figures() == {
        "dedupTopics": "1", "dedupIds": "1", "dedupIdsMax": "10", "dedupDuplicates": "0",
        "dedupForgottenEarly": "0",
    }  # fmt: skip
