"""The hashes that messages are filed under, of many messages at once.

Java files a message under the hash of ``topic#key`` for its unique key and each of its keys, which
are separated by blanks. Both stand in its property string (drawn in protocol/properties.py)::

    UNIQ_KEY 01 value 02 ... KEYS 01 value 02 ...

Here the strings of a thousand messages are joined, each behind an 02, and looked at with a few
numpy operations, which costs a tenth of looking at one after the other. With S the running sum of
``unit[i] / 31^i`` modulo 2^32, the hash of the units from s to e is ``(S[e] - S[s]) * 31^(e-1)``:
31 is odd, so it has an inverse.

Compiled code looks at one after the other all the same: that costs it less than to keep the strings
until there are a thousand, and as little as numpy takes for them.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from roketto.protocol.javahash import hash_on, java_hash
from roketto.protocol.properties import Spans
from roketto.protocol.utf8 import decode_utf8
from roketto.store.run_properties import Longs, Runs

PROPERTIES_BYTES_MAX: Final = 1 << 18
"""What is looked at together: the longest property string has an eighth of it."""

_Units = npt.NDArray[np.uint32]

_INVERSE_OF_31: Final = pow(31, -1, 1 << 32)
_SIZE: Final = PROPERTIES_BYTES_MAX + 16
_POWERS: Final[_Units] = np.full(_SIZE, 31, np.uint32)
_POWERS[0] = 1
np.cumprod(_POWERS, dtype=np.uint32, out=_POWERS)
_INVERSES: Final[_Units] = np.full(_SIZE, _INVERSE_OF_31, np.uint32)
_INVERSES[0] = 1
np.cumprod(_INVERSES, dtype=np.uint32, out=_INVERSES)

_END: Final = 0x02
_BLANK: Final = 0x20
_NAME_END: Final = 0x01
_ASCII_END: Final = 0x80
_UNIQUE: Final = np.uint64(int.from_bytes(b"UNIQ_KEY", "little"))
_UNIQUE_BYTES: Final = 9
_UNIQUE_FIRST: Final = ord("U")
_KEYS: Final = np.uint64(int.from_bytes(b"KEYS\x01", "little"))
_KEYS_MASK: Final = np.uint64((1 << 40) - 1)
_KEYS_BYTES: Final = 5
_KEYS_FIRST: Final = ord("K")
_INT_MASK: Final = 0x7FFF_FFFF
_UINT_MASK: Final = 0xFFFF_FFFF
_TOPICS_MAX: Final = 65_536
"""Hashes of topics that are remembered; forgotten together when there are more."""
_CHARS_MAX: Final = 40
"""A key up to here is hashed without cutting the value to 32 bits at each character, which is
faster as long as the value stays small."""


class KeyHashes:
    """Java's hashes of keys, without their signs.

    hashes = KeyHashes()
    hashes.one("T", "k1")
    numbers, found = hashes.many(["T", "U"], [b"UNIQ_KEY\\x01u\\x02KEYS\\x01a b\\x02", b""])
    # numbers: 0, 0, 0: which message each of the three hashes belongs to
    """

    __slots__ = ("_head", "_topic", "_topics")

    def __init__(self) -> None:
        self._topics: dict[str, int] = {}
        # The topic of the last message, and the hash of it and the # behind it.
        self._topic: str = ""
        self._head: int = java_hash("#")

    def one(self, topic: str, key: str) -> int:
        """The hash of one key."""
        if len(key) > _CHARS_MAX or not key.isascii():
            return _unsigned(java_hash(f"{topic}#{key}"))
        value = self._of_topics((topic,))[0]
        for unit in key.encode():
            value = 31 * value + unit
        return _unsigned(value)

    def many(
        self, topics: Sequence[str], properties: Sequence[bytes], runs: Runs | None = None
    ) -> tuple[Longs, Longs]:
        """The hashes of all keys of these messages, and of each the number of its message.

        In the order in which Java files them: message by message, its unique key first. All
        property strings together must be within PROPERTIES_BYTES_MAX. ``runs`` says which of them
        are the texts of several messages.
        """
        if runs is None:
            lengths = np.fromiter(map(len, properties), np.int64, len(properties))
            runs = Runs(np.arange(len(properties)), lengths)
        owners, lengths = runs
        text = b"\x02".join([b"", *properties, bytes(8)])
        # Where a message begins, without the 02 before it.
        begins = np.empty(lengths.size + 1, np.int64)
        begins[0] = 1
        np.cumsum(lengths + 1, out=begins[1:])
        begins[1:] += 1
        numbers, starts, stops = _find_keys(text, begins)
        if not numbers.size:
            return numbers, numbers
        units = np.frombuffer(text, np.uint8)
        sums = np.multiply(units, _INVERSES[: units.size], dtype=np.uint32)
        np.cumsum(sums, dtype=np.uint32, out=sums)
        heads = np.fromiter(self._of_topics(topics), np.uint32, len(topics))
        hashes = (sums[stops - 1] - sums[starts - 1]) * _POWERS[stops - 1]
        owners = owners[numbers]
        hashes += heads[owners] * _POWERS[stops - starts]
        if not text.isascii():
            _correct(hashes, text, topics, owners, starts, stops)
        return numbers, np.abs(hashes.view(np.int32)).astype(np.int64) & _INT_MASK

    def write_entries(
        self,
        entries: BytesWriter,
        topic: str,
        properties: bytes,
        spans: Spans,
        log_offset: i64,
        store_time_ms: i64,
    ) -> None:
        """The same for one message, in compiled code: three numbers for each key, one of which is
        its hash. ``spans`` says where the keys are (find_spans).
        """
        if topic != self._topic:
            self._head = self._of_topics((topic,))[0]
            self._topic = topic
        head: i64 = self._head
        if spans[1]:
            key_hash = self._hash(head, properties, spans[0], spans[1])
            _write_entry(entries, key_hash, log_offset, store_time_ms)
        keys, keys_end = spans[2], spans[3]
        while keys < keys_end:
            end: i64 = keys
            while end < keys_end and properties[end] != _BLANK:
                end += 1
            if end > keys:
                key_hash = self._hash(head, properties, keys, end)
                _write_entry(entries, key_hash, log_offset, store_time_ms)
            keys = end + 1

    def _hash(self, head: i64, properties: bytes, start: i64, end: i64) -> i64:
        """The hash of the key between these places, for the topic of the last message."""
        value = hash_on(head, properties, start, end)
        if value < 0:
            key = decode_utf8(properties[start:end])
            return _unsigned(java_hash(f"{self._topic}#{key}"))
        return value if value <= _INT_MASK else (_UINT_MASK + 1 - value) & _INT_MASK

    def _of_topics(self, topics: Sequence[str]) -> list[int]:
        """Of each topic, the hash of it and the ``#`` behind it."""
        known = self._topics
        try:
            return [known[topic] for topic in topics]
        except KeyError:
            if len(known) + len(topics) > _TOPICS_MAX:
                known.clear()
            for topic in topics:
                known[topic] = java_hash(f"{topic}#") & _UINT_MASK
            return [known[topic] for topic in topics]


def _write_entry(entries: BytesWriter, key_hash: i64, log_offset: i64, store_time_ms: i64) -> None:
    write_i64_le(entries, key_hash)
    write_i64_le(entries, log_offset)
    write_i64_le(entries, store_time_ms)


def _find_keys(text: bytes, begins: Longs) -> tuple[Longs, Longs, Longs]:
    """Number of its message, start and stop of every key, in Java's order.

    ``begins`` says where each message begins in the text, and where the last one has ended.
    """
    units = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(units == _END)
    items = ends[:-1] + 1
    firsts = units[items]
    places = np.flatnonzero((firsts == _UNIQUE_FIRST) | (firsts == _KEYS_FIRST))
    items, stops = items[places], ends[places + 1]
    # Eight bytes from each place on, as one number.
    words = np.ndarray((len(text) - 7,), np.dtype("<u8"), text, 0, (1,))[items]
    is_unique = (words == _UNIQUE) & (units[items + (_UNIQUE_BYTES - 1)] == _NAME_END)
    is_keys = words & _KEYS_MASK == _KEYS
    unique = _last_of_each(items, stops, is_unique, _UNIQUE_BYTES, begins)
    keys = _split(units, *_last_of_each(items, stops, is_keys, _KEYS_BYTES, begins))
    if np.array_equal(unique[0], keys[0]):  # mostly a message has one of each, or neither
        return (
            _alternate(unique[0], keys[0]),
            _alternate(unique[1], keys[1]),
            _alternate(unique[2], keys[2]),
        )
    numbers = np.concatenate((unique[0], keys[0]))
    order = np.concatenate((unique[0] * 2, keys[0] * 2 + 1)).argsort(kind="stable")
    starts = np.concatenate((unique[1], keys[1]))[order]
    return numbers[order], starts, np.concatenate((unique[2], keys[2]))[order]


def _alternate(ones: Longs, others: Longs) -> Longs:
    """One of the ones, one of the others, and so on."""
    both = np.empty(2 * ones.size, np.int64)
    both[::2] = ones
    both[1::2] = others
    return both


def _last_of_each(
    items: Longs, stops: Longs, is_wanted: npt.NDArray[np.bool_], name_bytes: int, begins: Longs
) -> tuple[Longs, Longs, Longs]:
    """Message, start and stop of wanted values; of several in one message the last with a text."""
    places = np.flatnonzero(is_wanted)
    starts = items[places] + name_bytes
    stops = stops[places]
    # Mostly each message has one, which is seen faster than it is looked up.
    numbers = np.arange(starts.size)
    is_one_of_each = bool(
        starts.size == begins.size - 1
        and (starts >= begins[:-1]).all()
        and (starts < begins[1:]).all()
    )
    if not is_one_of_each:
        numbers = begins.searchsorted(starts, "right") - 1
    keep = stops > starts
    if not keep.all():
        numbers, starts, stops = numbers[keep], starts[keep], stops[keep]
    if is_one_of_each:
        return numbers, starts, stops
    is_last = np.ones(numbers.size, np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=is_last[:-1])
    if is_last.all():
        return numbers, starts, stops
    return numbers[is_last], starts[is_last], stops[is_last]


def _split(
    units: npt.NDArray[np.uint8], numbers: Longs, starts: Longs, stops: Longs
) -> tuple[Longs, Longs, Longs]:
    """The same for each of the keys that blanks separate; between two blanks there is none."""
    blanks = np.flatnonzero(units == _BLANK)
    if not blanks.size or not starts.size:
        return numbers, starts, stops
    places = starts.searchsorted(blanks, "right") - 1
    blanks = blanks[(places >= 0) & (blanks < stops[places])]
    parts = np.sort(np.concatenate((starts, blanks + 1)))
    ends = np.sort(np.concatenate((stops, blanks)))
    keep = ends > parts
    parts, ends = parts[keep], ends[keep]
    return numbers[starts.searchsorted(parts, "right") - 1], parts, ends


def _correct(
    hashes: _Units, text: bytes, topics: Sequence[str], owners: Longs, starts: Longs, stops: Longs
) -> None:
    """Hash the keys that are not ASCII one by one: Java counts UTF-16 units, not bytes."""
    others = np.flatnonzero(np.frombuffer(text, np.uint8) >= _ASCII_END)
    is_other = others.searchsorted(stops) > others.searchsorted(starts)
    for place in np.flatnonzero(is_other).tolist():
        key = decode_utf8(text[starts[place] : stops[place]])
        hashes[place] = java_hash(f"{topics[owners[place]]}#{key}") & _UINT_MASK


def _unsigned(value: int) -> int:
    """Java's Math.abs of the low 32 bits as a signed number; 0 for the one without a positive."""
    value &= _UINT_MASK
    return value if value <= _INT_MASK else (_UINT_MASK + 1 - value) & _INT_MASK
