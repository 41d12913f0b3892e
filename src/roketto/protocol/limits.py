"""Every bound of the wire, each with its reason."""

from typing import Final

# --- frames -------------------------------------------------------------------------------------

FRAME_BYTES_MAX: Final = 16_777_216
"""Java's default for com.rocketmq.remoting.frameMaxLength: the frame with its length field."""

HEADER_BYTES_MAX: Final = 0xFF_FFFF
"""The header length is an unsigned 24-bit field."""

REMARK_BYTES_MAX: Final = 65_536
"""What we write at most as a remark: a reason is a sentence, not a dump. Longer ones are cut."""

EXT_FIELDS_MAX: Final = 1_024
"""Fields of one header: the richest request has 19; the rest leaves room for extensions."""

# --- messages -----------------------------------------------------------------------------------

TOPIC_BYTES_MAX: Final = 127
"""The length byte of a version 1 record is signed."""

RETRY_TOPIC_BYTES_MAX: Final = 255
"""%RETRY% and %DLQ% topics carry a prefix before a legal group name (TopicValidator in 5.x)."""

GROUP_BYTES_MAX: Final = 120
"""As the broker checks it: a group must still fit a topic with a prefix."""

PROPERTIES_BYTES_MAX: Final = 32_767
"""The length of a record's properties is a signed short."""

MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Java's maxMessageSize, for clients and brokers alike."""

DECOMPRESSED_BYTES_MAX: Final = 32 * 1024 * 1024
"""A compressed body may grow to eight times the largest message; anything above is a bomb."""

FILE_NAME_BYTES_MAX: Final = 255
"""What every file system we run on takes as the name of a directory; topics become one."""

# --- filters ------------------------------------------------------------------------------------

FILTER_BYTES_MAX: Final = 8_192
"""A filter is written by hand; a longer one is an attack on the parser."""

FILTER_DEPTH_MAX: Final = 64
"""Nesting of parentheses and NOT; keeps parser and evaluator far from the recursion limit."""

FILTER_HEIGHT_MAX: Final = 4 * FILTER_DEPTH_MAX
"""Operators stacked in a compiled filter. Each nesting level may hold a NOT, a comparison, an AND
and an OR; only runs like a = b = c = ... , which nest without parentheses, stack more."""

TAG_EXPRESSION_BYTES_MAX: Final = 65_536
"""Lists of tags are often made by programs; this is some thousand tags, and parsing is linear."""

# --- JSON bodies --------------------------------------------------------------------------------

JSON_DEPTH_MAX: Final = 64
"""The deepest body of the protocol nests seven levels."""

JSON_NUMBER_CHARS_MAX: Final = 40
"""A 64-bit integer has 20 characters and a double 24; conversion cost grows with the square."""

REGISTRATION_BYTES_MAX: Final = 64 * 1024 * 1024
"""An unpacked compressed registration: 100,000 topics are some 10 MB; anything above is a bomb."""

# --- name server --------------------------------------------------------------------------------

BROKERS_MAX: Final = 10_000
"""Broker names, and addresses, of one name server; the largest installations have hundreds."""

ROUTE_ENTRIES_MAX: Final = 1_000_000
"""Pairs of topic and broker of one name server: 10,000 topics on each of 100 brokers."""

KV_NAME_CHARS_MAX: Final = 255
"""A namespace or key of the KV configuration; the longest key in use is a topic."""

KV_CONFIG_BYTES_MAX: Final = 4 * 1024 * 1024
"""The KV configuration as JSON. It is written whole at every change, and a namespace of it
travels in every answer to a registration."""

CONFIG_UPDATE_BYTES_MAX: Final = 64 * 1024
"""The properties of one UPDATE_NAMESRV_CONFIG: all of them together take 2 KiB."""

ACK_BITS_MAX: Final = 1_048_576
"""Offsets that one batch acknowledgement spans: 32 popped messages may lie far apart in a filtered
queue, but a set of all bits below this already takes 8 MB to unpack."""
