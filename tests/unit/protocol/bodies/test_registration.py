"""Registrations of every version and form are read, and written as a Java name server expects."""

import base64
import struct
import zlib
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.bodies import registration
from roketto.protocol.bodies.registration import (
    RegisterBrokerBody,
    decode_registration,
    encode_registration,
)
from roketto.protocol.bodies.topics import (
    DataVersion,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicFilterType,
    TopicQueueMappingInfo,
)
from roketto.protocol.errors import BodyError
from roketto.protocol.limits import REGISTRATION_BYTES_MAX
from unit.protocol.bodies.families import (
    bodies,
    check_bytes,
    check_golden,
    check_round_trip,
    golden,
)

V4_9, V5 = 401, 413
WORDS = st.text(st.characters(codec="utf-8", exclude_characters=" "), max_size=6)
NUMBERS = st.integers(-(2**31), 2**31 - 1)


def block(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def packed(*topics: bytes, count: int | None = None, servers: bytes = b"[]") -> bytes:
    """A compressed registration of version 4 with these topic lines."""
    number = struct.pack(">i", len(topics) if count is None else count)
    return zlib.compress(block(b"{}") + number + b"".join(map(block, topics)) + block(servers))


def topics_of(data: bytes) -> dict[str, TopicConfig]:
    body = decode_registration(data, version=V4_9, compressed=True)
    return body.topic_config_serialize_wrapper.topic_config_table


def test_bodies_keep_the_bytes_of_java() -> None:
    assert check_golden(registration) == 2


@given(bodies(registration))
def test_any_value_survives_both_forms(value: msgspec.Struct) -> None:
    check_round_trip(value)


def test_plain_and_compressed_registration_of_5_5_say_the_same() -> None:
    forms = golden("forms-5.5.0.tsv")
    plain = decode_registration(forms["registration plain"].encode(), version=V5)
    compressed = base64.b64decode(forms["registration compressed"])
    assert decode_registration(compressed, version=V5, compressed=True) == plain
    assert encode_registration(plain) == forms["registration plain"].encode()


def test_compressed_registration_has_the_layout_of_5_5() -> None:
    theirs = base64.b64decode(golden("forms-5.5.0.tsv")["registration compressed"])
    body = decode_registration(theirs, version=V5, compressed=True)
    ours = encode_registration(body, compressed=True)
    assert zlib.decompress(ours) == zlib.decompress(theirs)
    assert ours[:2] == theirs[:2] == b"\x78\xda"


def test_compressed_registration_of_4_9_ends_before_the_mappings() -> None:
    data = base64.b64decode(golden("forms-4.9.7.tsv")["registration compressed"])
    body = decode_registration(data, version=V4_9, compressed=True)
    assert body.filter_server_list == ["10.0.0.9:30911"]
    table = body.topic_config_serialize_wrapper.topic_config_table
    assert table["other"] == TopicConfig(
        topic_name="other", read_queue_nums=4, write_queue_nums=8, perm=6
    )
    with pytest.raises(BodyError, match="announces 4 items of 1 or more bytes"):
        decode_registration(data, version=V5, compressed=True)


def test_registration_below_version_37_is_a_bare_topic_table() -> None:
    text = golden("forms-4.9.7.tsv")["registration bare"].encode()
    body = decode_registration(text, version=36)
    wrapper = body.topic_config_serialize_wrapper
    assert wrapper.data_version == DataVersion(timestamp=1_700_000_000_000)
    assert sorted(wrapper.topic_config_table) == ["other", "plain"]
    assert body.filter_server_list == []
    assert decode_registration(text, version=37) == RegisterBrokerBody()


def test_plain_registration_of_4_9_gains_the_members_of_5() -> None:
    text = golden("4.9.7.tsv")["RegisterBrokerBody"].encode()
    body = decode_registration(text, version=V4_9)
    check_bytes(text, encode_registration(body), "4.9.7")


@given(
    st.dictionaries(
        WORDS,
        st.builds(
            TopicConfig,
            attributes=st.dictionaries(WORDS.filter("$ref".__ne__), WORDS, max_size=3),
            perm=NUMBERS,
            read_queue_nums=NUMBERS,
            topic_filter_type=st.sampled_from(TopicFilterType),
            write_queue_nums=NUMBERS,
        ),
        max_size=4,
    ),
    st.lists(WORDS, max_size=2),
    st.dictionaries(WORDS, st.builds(TopicQueueMappingInfo, epoch=NUMBERS), max_size=2),
)
def test_any_registration_survives_compression(
    topics: dict[str, TopicConfig],
    servers: list[str],
    mappings: dict[str, TopicQueueMappingInfo],
) -> None:
    for name, topic in topics.items():
        topic.topic_name = name
    for name, mapping in mappings.items():
        mapping.topic = name
    wrapper = TopicConfigAndMappingSerializeWrapper(
        data_version=DataVersion(1, 2, 3),
        topic_config_table=topics,
        topic_queue_mapping_info_map=mappings,
    )
    body = RegisterBrokerBody(servers, wrapper)
    data = encode_registration(body, compressed=True)
    assert decode_registration(data, version=V5, compressed=True) == body


@pytest.mark.parametrize(
    ("line", "attributes"),
    [
        (b"T 1 2 6 SINGLE_TAG", {}),
        (b"T 1 2 6 SINGLE_TAG ", {}),
        (b'T 1 2 6 SINGLE_TAG {"a":"b"}', {"a": "b"}),
        (b'T 1 2 6 SINGLE_TAG {"a":"b c"}', {}),
        (b'T 1 2 6 SINGLE_TAG {"a":"b"} more', {"a": "b"}),
    ],
)
def test_topic_lines_have_five_items_or_more(line: bytes, attributes: dict[str, str]) -> None:
    assert topics_of(packed(line)) == {
        "T": TopicConfig(
            attributes=attributes, perm=6, read_queue_nums=1, topic_name="T", write_queue_nums=2
        )
    }


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"T 1 2 6", "has 4 items; expected 5 or 6"),
        (b"T x 2 6 SINGLE_TAG", "has 'x' for a 32-bit integer"),
        (b"T 1.5 2 6 SINGLE_TAG", "has '1.5' for a 32-bit integer"),
        (b"T 1 2147483648 6 SINGLE_TAG", "has '2147483648' for a 32-bit integer"),
        (b"T 1 2 6 NO_TAG", "has an unknown filter type"),
    ],
)
def test_damaged_topic_lines_are_refused(line: bytes, complaint: str) -> None:
    with pytest.raises(BodyError) as caught:
        topics_of(packed(line))
    assert complaint in caught.value.reason


def test_bytes_that_are_no_zlib_stream_are_refused() -> None:
    with pytest.raises(BodyError, match="no zlib stream"):
        topics_of(b"{}")


def test_stream_that_unpacks_to_too_much_is_refused() -> None:
    bomb = zlib.compress(bytes(REGISTRATION_BYTES_MAX + 1), 1)
    with pytest.raises(BodyError, match="unpacks to 67108864 bytes or more"):
        topics_of(bomb)


@pytest.mark.parametrize("count", [-1, 1000, 2**31 - 1])
def test_count_that_cannot_be_true_is_refused(count: int) -> None:
    with pytest.raises(BodyError, match="compressed registration announces"):
        topics_of(packed(b"T 1 2 6 SINGLE_TAG", count=count))


def test_cut_stream_is_refused() -> None:
    data = packed(b"T 1 2 6 SINGLE_TAG")
    for length in range(2, len(data)):
        with pytest.raises(BodyError, match=f"of {length} bytes is cut"):
            topics_of(data[:length])


@given(st.binary(max_size=80))
def test_arbitrary_layouts_give_a_body_or_a_body_error(layout: bytes) -> None:
    with suppress(BodyError):
        decode_registration(zlib.compress(layout), version=V5, compressed=True)
