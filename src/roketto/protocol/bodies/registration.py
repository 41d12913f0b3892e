"""What a broker tells a name server: its topics, plain or compressed.

The body of REGISTER_BROKER depends on the broker's version and the header's ``compressed``:

=================  ==============================================
version < 37       a bare TopicConfigSerializeWrapper as JSON
not compressed     RegisterBrokerBody as JSON
compressed         a zlib stream of the layout below
=================  ==============================================

All lengths and counts are big-endian signed 32-bit integers:

==============  ==================================================================
4 + n           DataVersion as JSON
4               number of topics
4 + n each      one topic: ``name read write perm filterType attributes``
4 + n           filter servers as a JSON array
4               number of queue mappings (only peers of version 413 and above)
4 + n each      TopicQueueMappingInfo as JSON
==============  ==================================================================

A topic's line has single spaces between its items. Peers of 4.x write five items. The flags
``order`` and ``topicSysFlag`` are not carried.
"""

import struct
import zlib
from typing import Final

from msgspec import field

from roketto.protocol.bodies.base import Body, decode_body, encode_body
from roketto.protocol.bodies.topics import (
    DataVersion,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicConfigSerializeWrapper,
    TopicFilterType,
    TopicQueueMappingInfo,
)
from roketto.protocol.errors import BodyError
from roketto.protocol.fastjson import excerpt, parse_number
from roketto.protocol.limits import REGISTRATION_BYTES_MAX

__all__ = ["RegisterBrokerBody", "decode_registration", "encode_registration"]

VERSION_REGISTER_BROKER_BODY: Final = 37
"""V3_0_11: the first whose registration carries filter servers."""

VERSION_QUEUE_MAPPING: Final = 413
"""V5_0_0: the first whose compressed registration ends with queue mappings."""

_INT: Final = struct.Struct(">i")


class RegisterBrokerBody(Body):
    """The topics of a broker and the filter servers beside it."""

    filter_server_list: list[str] = field(default_factory=list)
    topic_config_serialize_wrapper: TopicConfigAndMappingSerializeWrapper = field(
        default_factory=TopicConfigAndMappingSerializeWrapper
    )


def decode_registration(
    data: bytes | memoryview, *, version: int, compressed: bool = False
) -> RegisterBrokerBody:
    """Read the body of REGISTER_BROKER sent by a broker of ``version``."""
    if version < VERSION_REGISTER_BROKER_BODY:
        bare = decode_body(TopicConfigSerializeWrapper, data)
        return RegisterBrokerBody(
            topic_config_serialize_wrapper=TopicConfigAndMappingSerializeWrapper(
                data_version=bare.data_version, topic_config_table=bare.topic_config_table
            )
        )
    if not compressed:
        return decode_body(RegisterBrokerBody, data)
    return _unpack(_inflate(data), mappings=version >= VERSION_QUEUE_MAPPING)


def encode_registration(body: RegisterBrokerBody, *, compressed: bool = False) -> bytes:
    """Write the body of REGISTER_BROKER as a broker of version 5 does."""
    if not compressed:
        return encode_body(body)
    wrapper = body.topic_config_serialize_wrapper
    topics = wrapper.topic_config_table.values()
    mappings = wrapper.topic_queue_mapping_info_map.values()
    parts = [
        _block(encode_body(wrapper.data_version)),
        _INT.pack(len(topics)),
        *[_block(_topic_line(topic).encode()) for topic in topics],
        _block(encode_body(body.filter_server_list)),
        _INT.pack(len(mappings)),
        *[_block(encode_body(mapping)) for mapping in mappings],
    ]
    return zlib.compress(b"".join(parts), 9)


def _block(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def _inflate(data: bytes | memoryview) -> bytes:
    inflater = zlib.decompressobj()
    try:
        text = inflater.decompress(data, REGISTRATION_BYTES_MAX)
    except zlib.error as error:
        raise BodyError(f"compressed registration is no zlib stream: {error}") from None
    if inflater.eof:
        return text
    if len(text) < REGISTRATION_BYTES_MAX:
        raise BodyError(f"compressed registration of {len(data)} bytes is cut; send it again")
    raise BodyError(
        f"compressed registration unpacks to {REGISTRATION_BYTES_MAX} bytes or more; "
        f"turn on enableSplitRegistration at the broker"
    )


def _unpack(text: bytes, *, mappings: bool) -> RegisterBrokerBody:
    cursor = _Cursor(text)
    wrapper = TopicConfigAndMappingSerializeWrapper()
    wrapper.data_version = decode_body(DataVersion, cursor.block())
    for _ in range(cursor.count()):
        topic = _parse_topic_line(cursor.block().decode("utf-8", "replace"))
        wrapper.topic_config_table[topic.topic_name] = topic
    filter_servers = decode_body(list[str], cursor.block())
    if mappings:
        for _ in range(cursor.count()):
            mapping = decode_body(TopicQueueMappingInfo, cursor.block())
            wrapper.topic_queue_mapping_info_map[mapping.topic or ""] = mapping
    return RegisterBrokerBody(filter_servers, wrapper)


class _Cursor:
    """Reads lengths, counts and blocks of an unpacked registration."""

    __slots__ = ("position", "text")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.position = 0

    def count(self) -> int:
        """A number of blocks; each takes at least four bytes, so a lie is found at once."""
        (number,) = _INT.unpack(self.take(4))
        return self.within(number, 4)

    def block(self) -> bytes:
        (length,) = _INT.unpack(self.take(4))
        return self.take(self.within(length, 1))

    def within(self, number: int, size: int) -> int:
        rest = len(self.text) - self.position
        if not 0 <= number * size <= rest:
            raise BodyError(
                f"compressed registration announces {number} items of {size} or more bytes "
                f"at byte {self.position}, where {rest} bytes are left"
            )
        return number

    def take(self, size: int) -> bytes:
        self.within(size, 1)
        self.position += size
        return self.text[self.position - size : self.position]


def _topic_line(topic: TopicConfig) -> str:
    attributes = encode_body(topic.attributes).decode()
    return (
        f"{topic.topic_name} {topic.read_queue_nums} {topic.write_queue_nums} {topic.perm} "
        f"{topic.topic_filter_type.name} {attributes}"
    )


def _parse_topic_line(line: str) -> TopicConfig:
    items = line.split(" ")
    if len(items) < 5:
        raise BodyError(f"topic line {excerpt(line)} has {len(items)} items; expected 5 or 6")
    name, *numbers, kind = items[:5]
    read, write, perm = (_parse_line_number(number, line) for number in numbers)
    if kind not in TopicFilterType.__members__:
        raise BodyError(f"topic line {excerpt(line)} has an unknown filter type")
    return TopicConfig(
        attributes=_parse_attributes(items[5]) if len(items) > 5 else {},
        perm=perm,
        read_queue_nums=read,
        topic_filter_type=TopicFilterType[kind],
        topic_name=name,
        write_queue_nums=write,
    )


def _parse_line_number(text: str, line: str) -> int:
    number = parse_number(text)
    if not isinstance(number, int) or not -(2**31) <= number < 2**31:
        raise BodyError(f"topic line {excerpt(line)} has {excerpt(text)} for a 32-bit integer")
    return number


def _parse_attributes(text: str) -> dict[str, str]:
    """Attributes with a blank in them are cut by the split above; Java drops them, so do we."""
    try:
        return decode_body(dict[str, str], text.encode())
    except BodyError:
        return {}
