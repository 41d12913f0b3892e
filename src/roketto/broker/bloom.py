"""Bloom filters as Java's broker computes them: which bits of a queue's bit maps stand for a group.

``consumerFilter.json`` keeps them beside each SQL filter. A Java broker that finds others than its
own there, or none, forgets all filters of the file; so ours are the same.
"""

from math import ceil, e, log
from typing import Final

from roketto.protocol.utf8 import encode_utf8
from roketto.store.filter_table import BloomFilterData

_MASK_32: Final = 0xFFFF_FFFF
_MASK_64: Final = 0xFFFF_FFFF_FFFF_FFFF
_C1: Final = 0x87C3_7B91_1142_53D5
_C2: Final = 0x4CF5_AD43_2745_937F


class BloomFilter:
    """A filter for ``groups`` groups (expectConsumerNumUseFilter), wrong about some percent.

    >>> BloomFilter(20, 32).positions("GoldenSql#Golden")
    [7, 98, 34]
    """

    __slots__ = ("_hashes", "bits")

    def __init__(self, error_percent: int, groups: int) -> None:
        """``error_percent`` is maxErrorRateOfBloomFilter; ValueError outside 1 to 99."""
        if not 1 <= error_percent <= 99 or groups < 1:
            raise ValueError(
                f"a Bloom filter with {error_percent} % errors for {groups} groups; "
                "maxErrorRateOfBloomFilter is 1 to 99, expectConsumerNumUseFilter at least 1"
            )
        error_rate = error_percent / 100
        self._hashes: int = ceil(log(error_rate) / log(0.5))
        bits = ceil(groups * (log(1 / error_rate) / log(2)) * (log(e) / log(2)))
        self.bits: int = 8 * ceil(bits / 8)

    def positions(self, text: str) -> list[int]:
        """The bits of a text."""
        hash_64 = _murmur3_low(encode_utf8(text))
        first, step = hash_64 & _MASK_32, hash_64 >> 32
        positions = []
        for number in range(1, self._hashes + 1):
            combined = (first + number * step) & _MASK_32
            if combined >> 31:
                combined ^= _MASK_32
            positions.append(combined % self.bits)
        return positions

    def of_group(self, topic: str, group: str) -> BloomFilterData:
        """What is kept with the filter of a group on a topic."""
        return BloomFilterData(bit_num=self.bits, bit_pos=self.positions(f"{group}#{topic}"))


def _murmur3_low(data: bytes) -> int:
    """The first 64 bits of MurmurHash3 x64 128 with seed 0, as an unsigned number."""
    h1 = h2 = 0
    whole = len(data) - len(data) % 16
    for at in range(0, whole, 16):
        h1 ^= _mix_1(int.from_bytes(data[at : at + 8], "little"))
        h1 = ((_rotate(h1, 27) + h2) * 5 + 0x52DC_E729) & _MASK_64
        h2 ^= _mix_2(int.from_bytes(data[at + 8 : at + 16], "little"))
        h2 = ((_rotate(h2, 31) + h1) * 5 + 0x3849_5AB5) & _MASK_64
    h1 ^= _mix_1(int.from_bytes(data[whole : whole + 8], "little"))
    h2 ^= _mix_2(int.from_bytes(data[whole + 8 :], "little"))
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = (h1 + h2) & _MASK_64
    h2 = (h2 + h1) & _MASK_64
    return (_finish(h1) + _finish(h2)) & _MASK_64


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK_64


def _mix_1(k1: int) -> int:
    return (_rotate((k1 * _C1) & _MASK_64, 31) * _C2) & _MASK_64


def _mix_2(k2: int) -> int:
    return (_rotate((k2 * _C2) & _MASK_64, 33) * _C1) & _MASK_64


def _finish(value: int) -> int:
    value = ((value ^ (value >> 33)) * 0xFF51_AFD7_ED55_8CCD) & _MASK_64
    value = ((value ^ (value >> 33)) * 0xC4CE_B9FE_1A85_EC53) & _MASK_64
    return value ^ (value >> 33)
