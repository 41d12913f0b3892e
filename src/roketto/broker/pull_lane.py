"""The quick lane of pulls: from the bytes of a frame that asks to those of one with messages.

It does what ``handlers.pull.pull`` does, by the same functions, without a command in between. A
consumer's pulls of one queue differ in two offsets and the opaque only: these are cut out of the
header, and what stays is looked up instead of being parsed again.

Whatever is not plain it leaves to the ordinary way, untouched: pulls that find nothing, wait or are
refused, headers that are not JSON as FastJSON writes it, and the first of each kind.
"""

import struct
from typing import Final

from roketto.broker.context import Context
from roketto.broker.handlers.pull import (
    READABLE,
    Asked,
    check,
    commit,
    note_sent,
    read,
    suggested_broker,
)
from roketto.protocol.codes import RequestCode
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.pull_frame import PULL_START, decode_pull, pull_header
from roketto.protocol.versions import CURRENT_VERSION
from roketto.remoting.connection import Connection
from roketto.store.reading import GetStatus

KNOWN_MAX: Final = 10_000
"""Kinds of pulls that are remembered: those of as many queues of groups as are read at a time. If
there are more, it is begun anew."""
_HEADER_BYTES_MAX: Final = 1_024
"""Longer ones, with hundreds of tags, are not remembered; the others take 15 MB at the most."""

_PREFIX: Final = struct.Struct(">II")
_MARK_BYTES: Final = 4
_FOUND: Final = GetStatus.FOUND
_PULL: Final = int(RequestCode.PULL_MESSAGE)
_LONG_DIGITS: Final = 18
_INT_DIGITS: Final = 9
"""A number of so many digits is a Java long or int for sure."""

_CONSUMED: Final = '"commitOffset":"'
_CONSUMED_CHARS: Final = len(_CONSUMED)
_OFFSET: Final = '"queueOffset":"'
_OFFSET_CHARS: Final = len(_OFFSET)
_OPAQUE: Final = '"opaque":'
_OPAQUE_CHARS: Final = len(_OPAQUE)

_JOINED_BYTES_MAX: Final = 2_048
"""Pieces of this size on the average are joined: that is less work than to send each of them."""

_ANSWER_END: Final = (
    f',"remark":"FOUND","serializeTypeCurrentRPC":"JSON","version":{CURRENT_VERSION}}}'
)


class PullLane:
    """What a server asks about each frame before it decodes it."""

    def __init__(self, context: Context, *, known_max: int = KNOWN_MAX) -> None:
        self._context: Context = context
        self._known_max: int = known_max
        self._known: dict[str, Asked] = {}

    def answer(self, connection: Connection, data: bytes, at: int, end: int) -> bool:
        """Answer a plain pull with messages; False, and nothing done, if the frame is not one."""
        header_at = at + _MARK_BYTES
        header_bytes = end - header_at
        if header_bytes > _HEADER_BYTES_MAX or not data.startswith(PULL_START, header_at):
            return False
        # All of it is header, which the first byte says to be JSON.
        if data[at] or (data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]) != header_bytes:
            return False
        try:
            text = data[header_at:end].decode()
        except UnicodeDecodeError:
            return False
        opaque_at = text.rfind(_OPAQUE) + _OPAQUE_CHARS
        opaque_end = text.find(",", opaque_at)
        asked = self._asked(text, opaque_at, opaque_end)
        if asked is None:
            return False
        opaque = text[opaque_at:opaque_end]
        if not _is_number(opaque, _INT_DIGITS) or (len(opaque) > 1 and opaque.startswith("0")):
            return False
        return self._answer(connection, asked, opaque)

    def _asked(self, text: str, opaque_at: int, opaque_end: int) -> Asked | None:
        """What a header asks for; None if it is the first of its kind, or not plain."""
        consumed_at = text.find(_CONSUMED) + _CONSUMED_CHARS
        consumed_end = text.find('"', consumed_at)
        offset_at = text.find(_OFFSET, consumed_end) + _OFFSET_CHARS
        offset_end = text.find('"', offset_at)
        # What is not there is found at -1, and what should follow it at another place.
        if consumed_at < _CONSUMED_CHARS or offset_at < consumed_end or opaque_at < offset_end:
            return None
        if consumed_end < 0 or offset_end < 0 or opaque_end < 0:
            return None
        consumed, offset = text[consumed_at:consumed_end], text[offset_at:offset_end]
        if not (_is_number(consumed, _LONG_DIGITS) and _is_number(offset, _LONG_DIGITS)):
            return None
        common = (
            f"{text[:consumed_at]}\n{text[consumed_end:offset_at]}\n"
            f"{text[offset_end:opaque_at]}\n{text[opaque_end:]}"
        )
        asked = self._known.get(common)
        if asked is None:
            self._learn(common, text)
            return None
        asked.queue_offset = int(offset)
        asked.consume_offset = int(consumed)
        return asked

    def _learn(self, common: str, text: str) -> None:
        """Remember what headers with so much in common ask for, if they are plain."""
        header = decode_pull(memoryview(text.encode()))
        # A line break could hide where a value was taken out.
        if header is None or header.code != _PULL or header.flag or "\n" in text:
            return
        try:
            asked = Asked(pull_header(header.extFields))
        except RequestError:
            return
        if len(self._known) >= self._known_max:
            self._known.clear()
        self._known[common] = asked

    def _answer(self, connection: Connection, asked: Asked, opaque: str) -> bool:
        context = self._context
        if not context.config.broker_permission & READABLE:
            return False
        try:
            queue = context.store.queue(asked.topic, asked.queue_id)
            if context.topics.prioritized and asked.topic in context.topics.prioritized:
                return False  # it may have to wait
            if queue is None or asked.queue_offset >= queue.queue_offset_max:
                return False  # as with most pulls of those who keep up: let it not be checked twice
            if context.offsets.has_reset(asked.topic, asked.group, asked.queue_id):
                return False
            group = context.groups.get(asked.group)
            if group is None:
                return False
            topic, wanted = check(context, connection, asked, group)
            if wanted.needs_properties:
                return False
            found = read(context, asked, wanted)
            if found.status is not _FOUND:
                return False
            commit(context, connection, asked)
        except Exception:  # noqa: BLE001 (the ordinary way will meet it, too, and answers it)
            return False
        note_sent(context, asked, found)
        context.stats.note_request(_PULL)
        header = (
            f'{{"code":0,"extFields":{{"suggestWhichBrokerId":"'
            f'{suggested_broker(context, group, found)}","nextBeginOffset":"{found.next_offset}",'
            f'"minOffset":"{found.min_offset}","maxOffset":"{found.max_offset}","topicSysFlag":"'
            f'{topic.topic_sys_flag}","groupSysFlag":"{group.group_sys_flag}"}},"flag":1,'
            f'"language":"PYTHON","opaque":{opaque}{_ANSWER_END}'
        ).encode()
        head = _PREFIX.pack(_MARK_BYTES + len(header) + found.size, len(header)) + header
        views = found.views
        count = len(views)
        if count == 1:
            connection.put(head, views[0])
        elif found.size <= count * _JOINED_BYTES_MAX:
            connection.put(head, b"".join(views))
        else:
            connection.put(head, views[0])
            for view in views[1:]:
                connection.put(view)
        return True


def _is_number(text: str, digits_max: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= digits_max
