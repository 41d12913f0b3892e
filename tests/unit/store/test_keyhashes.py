"""Proves that the keys of many messages are found and hashed at once as Java does one by one."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from roketto.protocol.javahash import java_hash
from roketto.protocol.properties import decode_properties, find_spans
from roketto.store import keyhashes
from roketto.store.keyhashes import PROPERTIES_BYTES_MAX, KeyHashes

TEXTS = st.text(st.sampled_from("ab \x01\x02\u00e9\u4e2d\U0001f680K"), max_size=12)
NAMES = st.sampled_from(["UNIQ_KEY", "KEYS", "KEYSX", "UNIQ_KEYS", "XKEYS", "TAGS", "UNIQ_KE", ""])
ITEMS = st.tuples(NAMES, TEXTS, st.sampled_from(["", "\x02", "\x02\x02", "\x01\x02"]))
STRINGS = st.lists(ITEMS, max_size=5).map(
    lambda items: "".join(f"{name}\x01{value}{end}" for name, value, end in items).encode()
)


def one_by_one(topics: list[str], properties: list[bytes]) -> list[tuple[int, int]]:
    """What Java files, message by message: the unique key, then each of the keys."""
    filed = []
    for number, (topic, raw) in enumerate(zip(topics, properties, strict=True)):
        found = decode_properties(raw)
        keys = [found["UNIQ_KEY"]] if found.get("UNIQ_KEY") else []
        keys += [key for key in found.get("KEYS", "").split(" ") if key]
        filed += [(number, abs(java_hash(f"{topic}#{key}")) & 0x7FFF_FFFF) for key in keys]
    return filed


def at_once(topics: list[str], properties: list[bytes]) -> list[tuple[int, int]]:
    numbers, hashes = KeyHashes().many(topics, properties)
    return list(zip(numbers.tolist(), hashes.tolist(), strict=True))


def when_they_come(topics: list[str], properties: list[bytes]) -> list[tuple[int, int]]:
    hashes, entries = KeyHashes(), BytesWriter()
    for number, (topic, raw) in enumerate(zip(topics, properties, strict=True)):
        hashes.write_entries(entries, topic, raw, find_spans(raw), number, 7)
    filed = list(struct.iter_unpack("<qqq", entries.getvalue()))
    assert all(time_ms == 7 for *_, time_ms in filed)
    return [(number, key_hash) for key_hash, number, _ in filed]


@given(st.lists(st.tuples(TEXTS, STRINGS | st.binary(max_size=40)), min_size=1, max_size=6))
def test_many_messages_have_the_hashes_that_each_has_alone(
    messages: list[tuple[str, bytes]],
) -> None:
    """Whatever their properties are: repeated, empty, cut, not UTF-8, or named almost alike."""
    topics = [topic for topic, _ in messages]
    properties = [raw for _, raw in messages]
    assert at_once(topics, properties) == one_by_one(topics, properties)
    assert when_they_come(topics, properties) == one_by_one(topics, properties)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"KEYS\x01k",
        b"KEYS\x01k\x02UNIQ_KEY\x01u\x02",
        b"UNIQ_KEY\x01\x02KEYS\x01 a  b \x02x\x01a b\x02",
        b"UNIQ_KEY\x01a\x02UNIQ_KEY\x01b\x02UNIQ_KEY\x01\x02",
        b"KEYS\x01a b\x02KEYS\x01c\x02",
        b"a b\x02KEYS\x01c\x02",
        b"KEYS\x01\xe4\xb8\xad a \xff\x02UNIQ_KEY\x01\xf0\x9f\x9a\x80\x02",
        b"KEYS\x01a\x01b\x02UNIQ_KEY",
    ],
)
def test_odd_property_strings_are_read_as_the_codec_reads_them(raw: bytes) -> None:
    """Between two that are as usual, to see that neither takes anything from the other."""
    usual = b"UNIQ_KEY\x01u\x02KEYS\x01k1 k2\x02"
    topics, properties = ["T", "U\u00e9", "T"], [usual, raw, usual]
    assert at_once(topics, properties) == one_by_one(topics, properties)
    assert when_they_come(topics, properties) == one_by_one(topics, properties)


def test_long_property_strings_are_looked_at_together_up_to_the_bound() -> None:
    raw = b"KEYS\x01" + b"k" * 32_000 + b"\x02"
    count = PROPERTIES_BYTES_MAX // (len(raw) + 1)
    assert at_once(["T"] * count, [raw] * count) == one_by_one(["T"] * count, [raw] * count)


@given(st.text(st.characters(max_codepoint=0x7F), max_size=12), st.text(max_size=120))
def test_one_key_has_javas_hash_without_the_sign(topic: str, key: str) -> None:
    hashes = KeyHashes()
    expected = abs(java_hash(f"{topic}#{key}")) & 0x7FFF_FFFF
    assert hashes.one(topic, key) == expected
    assert hashes.one(topic, key) == expected


@pytest.mark.parametrize("length", [0, 1, 39, 40, 41, 200])
def test_the_hash_of_a_key_does_not_depend_on_its_length(length: int) -> None:
    key = ("7F000001ABCD00000000" * 11)[:length]
    assert KeyHashes().one("T", key) == abs(java_hash(f"T#{key}"))


def test_the_hash_without_a_positive_counterpart_is_zero() -> None:
    """Java's Math.abs of the least number is negative; Java files such a key under 0."""
    assert java_hash("T#jllgwNc") == -(2**31)
    assert KeyHashes().one("T", "jllgwNc") == 0
    assert at_once(["T"], [b"KEYS\x01jllgwNc"]) == [(0, 0)]
    assert when_they_come(["T"], [b"KEYS\x01jllgwNc"]) == [(0, 0)]


def test_remembered_topics_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyhashes, "_TOPICS_MAX", 3)
    hashes = KeyHashes()
    for number in range(20):
        assert hashes.one(f"t{number}", "k") == abs(java_hash(f"t{number}#k"))
        assert len(hashes._topics) <= 3
