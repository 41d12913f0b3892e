"""The bits of the system flags: of a message, of a pull request, of topics and groups."""

from typing import Final

# --- messages -----------------------------------------------------------------------------------

COMPRESSED: Final = 0x001
"""The body is compressed, with the algorithm of the COMPRESSION_TYPE bits."""
MULTI_TAGS: Final = 0x002

TRANSACTION_TYPE: Final = 0x00C
"""The two bits that hold one of the four values below."""
TRANSACTION_NONE: Final = 0x000
TRANSACTION_PREPARED: Final = 0x004
TRANSACTION_COMMIT: Final = 0x008
TRANSACTION_ROLLBACK: Final = 0x00C

BORN_HOST_IPV6: Final = 0x010
STORE_HOST_IPV6: Final = 0x020
HOST_BITS: Final = BORN_HOST_IPV6 | STORE_HOST_IPV6
"""These describe the layout of the record that carries them; a peer's word on them is worthless."""

NEEDS_UNWRAP: Final = 0x040
INNER_BATCH: Final = 0x080
UNWRAP_BITS: Final = NEEDS_UNWRAP | INNER_BATCH
"""Both set: the body is a batch that the consumer takes apart."""

COMPRESSION_TYPE: Final = 0x700
"""The three bits that hold one of the values below; 0 is zlib, from clients before 4.9.4."""
COMPRESSION_ZLIB_OLD: Final = 0x000
COMPRESSION_LZ4: Final = 0x100
COMPRESSION_ZSTD: Final = 0x200
COMPRESSION_ZLIB: Final = 0x300

# --- pull requests ------------------------------------------------------------------------------

PULL_COMMIT_OFFSET: Final = 0x01
"""The request's commitOffset is valid: commit it."""
PULL_SUSPEND: Final = 0x02
"""The request may wait for messages."""
PULL_SUBSCRIPTION: Final = 0x04
"""The request carries its own subscription."""
PULL_CLASS_FILTER: Final = 0x08
"""Filter servers of old; no broker of 4.9 or 5.x has them."""
PULL_LITE: Final = 0x10

# --- topics and groups --------------------------------------------------------------------------

TOPIC_UNIT: Final = 0x1
TOPIC_UNIT_SUBSCRIPTION: Final = 0x2
GROUP_UNIT: Final = 0x1


def with_transaction_type(sys_flag: int, transaction_type: int) -> int:
    """``sys_flag`` with its transaction bits replaced by one of the TRANSACTION values."""
    return (sys_flag & ~TRANSACTION_TYPE) | transaction_type


def needs_unwrap(sys_flag: int) -> bool:
    """Whether the body is an inner batch to take apart."""
    return sys_flag & UNWRAP_BITS == UNWRAP_BITS
