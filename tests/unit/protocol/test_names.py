"""Proves that exactly Java's names are legal, and that no name leads out of the store."""

from pathlib import PurePosixPath, PureWindowsPath
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden.record.vectors import load, text_of
from roketto.protocol import names
from roketto.protocol.errors import IllegalNameError
from roketto.protocol.names import check_group, check_lmq, check_topic, path_component

VECTORS = load("names")
LEGAL = st.text(
    st.sampled_from("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%|_-"),
    min_size=1,
    max_size=120,
)
HOSTILE = [
    "",
    " ",
    "\t\n",
    ".",
    "..",
    "../x",
    "../../../../tmp/x",
    "/",
    "/etc/passwd",
    "a/b",
    "a/../b",
    "\\",
    "..\\..\\x",
    "C:\\x",
    "C:x",
    "~",
    "~root",
    "a\x00",
    "\x00",
    "a\x00/../b",
    "a\n",
    "a\r\nb",
    "\x1b[2J",
    "%2e%2e%2f.",
    "a b",
    "a;b",
    "$(x)",
    "`x`",
    "a'b",
    'a"b',
    "a*",
    "a?",
    "{x}",
    "tópic",
    "Tоpic",  # noqa: RUF001  the o is Cyrillic
    "ａ",  # noqa: RUF001  a full-width a
    "a\u200b",
    "a\u202eb",
    "․․",  # noqa: RUF001  one-dot leaders
    "a\u2215b",
    "a\ud800",
    "😀",
    "a" * 65_536,
    "/" * 65_536,
    "%RETRY%../x",
    "%RETRY%" + "g" * 249,
    "%DLQ%a/b",
    "%LMQ%a/b",
    "%LMQ%",  # checked as a light queue only: as a topic it is legal in Java
]


def is_legal(check: Any, name: str) -> bool:
    try:
        check(name)
    except IllegalNameError:
        return False
    return True


@pytest.mark.parametrize("row", VECTORS["legal"], ids=lambda row: ascii(text_of(row["name"]))[:40])
def test_names_are_legal_exactly_when_java_says_so(row: dict[str, Any]) -> None:
    name = text_of(row["name"])
    assert is_legal(check_topic, name) == row["topic"]
    assert is_legal(check_group, name) == row["group"]
    assert names.is_system_topic(name) == row["system"]


def test_system_topics_are_those_of_java() -> None:
    assert sorted(names.SYSTEM_TOPICS) == VECTORS["system"]
    assert sorted(names.NOT_SENDABLE_TOPICS) == VECTORS["notSendable"]


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:30])
def test_hostile_names_pass_no_check(name: str) -> None:
    if name != "%LMQ%":
        for check in (check_topic, check_group, path_component):
            with pytest.raises(IllegalNameError):
                check(name)
    with pytest.raises(IllegalNameError):
        check_lmq(name)


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:30])
def test_reasons_are_short_and_printable_however_long_the_name(name: str) -> None:
    with pytest.raises(IllegalNameError) as caught:
        check_lmq(name)
    assert caught.value.code == 29
    assert len(caught.value.reason) < 900
    assert caught.value.reason.isprintable()
    assert caught.value.reason.isascii()


def test_an_escaped_nul_is_three_ordinary_characters() -> None:
    check_topic("%00")
    assert path_component("ns%00topic") == "ns%00topic"


def test_reasons_name_the_thing_the_value_and_the_bound() -> None:
    with pytest.raises(
        IllegalNameError, match=r"topic 'x{64}'\.\.\. has 128 characters, more than 127"
    ):
        check_topic("x" * 128)
    with pytest.raises(IllegalNameError, match=r"group 'a\.b' contains illegal characters"):
        check_group("a.b")
    with pytest.raises(IllegalNameError, match="the specified group is blank"):
        check_group("")


def test_retry_and_dead_letter_topics_may_be_longer() -> None:
    for prefix in (names.RETRY_PREFIX, names.DLQ_PREFIX):
        longest = prefix + "g" * (255 - len(prefix))
        check_topic(longest)
        assert path_component(longest) == longest
        with pytest.raises(IllegalNameError, match="256 characters, more than 255"):
            check_topic(longest + "g")


@pytest.mark.parametrize("name", ["%LMQ%x", "%LMQ%$p2p%GID@client-1", "%LMQ%a.b+c:d|e", "%LMQ%.."])
def test_light_queues_take_what_mqtt_makes_of_its_topics(name: str) -> None:
    check_lmq(name)
    assert path_component(name) == name


@pytest.mark.parametrize("name", ["%LMQ%a,b", "%LMQ%a\\b", "%LMQ%a b", "%LMQ%\x7f", "%lmq%a", "x"])
def test_light_queues_take_no_separator_of_paths_or_lists(name: str) -> None:
    with pytest.raises(IllegalNameError, match="light queue"):
        check_lmq(name)


def test_the_brokers_own_retry_topics_of_pop_can_be_directories() -> None:
    assert path_component("%RETRY%group+topic") == "%RETRY%group+topic"
    with pytest.raises(IllegalNameError):
        path_component("%RETRY%group+../x")
    with pytest.raises(IllegalNameError):
        path_component("group+topic")
    with pytest.raises(IllegalNameError, match="of 261 characters"):
        path_component("%RETRY%" + "g" * 127 + "+" + "t" * 126)


def test_of_10000_fuzzed_names_none_leads_out_of_the_store() -> None:
    random = Random(11)
    pieces = [
        "..",
        "/",
        "\\",
        "\x00",
        "%00",
        "%2e",
        "%RETRY%",
        "%DLQ%",
        "%LMQ%",
        "~",
        ".",
        "a",
        "Z",
        "9",
    ]
    pieces += ["+", "|", "_", "-", " ", "\n", "é", "\u2215", "\uff0e", "\ud800", "x" * 130]
    passed = 0
    for _ in range(10_000):
        name = "".join(random.choices(pieces, k=random.randint(0, 6)))
        try:
            path = PurePosixPath("/store", path_component(name))
        except IllegalNameError:
            continue
        passed += 1
        assert path.parent == PurePosixPath("/store")
        assert path.name == name
    assert 100 < passed < 5_000


@given(LEGAL)
def test_legal_names_are_accepted_and_stay_as_they_are(name: str) -> None:
    check_topic(name)
    check_group(name)
    assert path_component(name) == name


@given(st.text(st.characters()) | st.text(st.sampled_from("%LMQRETY+./\\\x00~ a"), max_size=40))
def test_whatever_passes_the_gate_is_one_component_below_the_store(name: str) -> None:
    try:
        component = path_component(name)
    except IllegalNameError:
        return
    path = PurePosixPath("/store") / component
    assert path.parent == PurePosixPath("/store")
    assert path.name == name
    assert component not in (".", "..")
    assert len(component.encode()) <= 255
    assert not PureWindowsPath(component).root


@given(st.text(st.characters()))
def test_checks_raise_nothing_but_illegal_name(name: str) -> None:
    for check in (check_topic, check_group, check_lmq):
        is_legal(check, name)


def test_names_derived_from_groups_and_clusters() -> None:
    assert names.retry_topic("g") == "%RETRY%g"
    assert names.dlq_topic("g") == "%DLQ%g"
    assert names.reply_topic("DefaultCluster") == "DefaultCluster_REPLY_TOPIC"
    assert names.is_retry_topic("%RETRY%g")
    assert not names.is_retry_topic("%DLQ%g")
    assert names.is_dlq_topic("%DLQ%g")
    assert not names.is_dlq_topic("g")
    assert names.is_lmq("%LMQ%x")
    assert not names.is_lmq("x")
    assert names.is_system_group("CID_RMQ_SYS_TRANS")
    assert not names.is_system_group("group")
