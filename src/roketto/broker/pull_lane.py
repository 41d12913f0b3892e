"""The quick lane of pulls: from the bytes of a frame that asks to those of one with messages.

It does what ``handlers.pull.pull`` does, by the same functions, without a command in between.
Whatever is not plain it leaves to the ordinary way, untouched: pulls that find nothing, wait or are
refused, and headers that are not JSON as FastJSON writes it.
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
from roketto.protocol.headers.pull_frame import PULL_START, PullFields, decode_pull, pull_header
from roketto.protocol.versions import CURRENT_VERSION
from roketto.remoting.connection import Connection
from roketto.store.reading import GetStatus

KNOWN_MAX: Final = 10_000
"""Pulls that are remembered: those of as many queues of groups as are read at a time. If there are
more, it is begun anew."""

_KEY_CHARS_MAX: Final = 1_024
"""Longer ones, with hundreds of tags, are not remembered; the others take 15 MB at the most."""

_START: Final = struct.Struct(f">I{len(PULL_START)}s")
_PREFIX: Final = struct.Struct(">II")
_HEADER_AT: Final = 4
_FOUND: Final = GetStatus.FOUND
_PULL: Final = int(RequestCode.PULL_MESSAGE)
_OFFSET_DIGITS_MAX: Final = 18
"""A number of so many digits is a Java long for sure."""

_SEPARATOR: Final = "\n"
_SEPARATORS: Final = 10

_JOINED_BYTES_MAX: Final = 2_048
"""Pieces of this size on the average are joined: that is less work than to send each of them."""

_ANSWER: Final = (
    b'{"code":0,"extFields":{"suggestWhichBrokerId":"%d","nextBeginOffset":"%d","minOffset":"%d",'
    b'"maxOffset":"%d","topicSysFlag":"%d","groupSysFlag":"%d"},"flag":1,"language":"PYTHON",'
    b'"opaque":%d,"remark":"FOUND","serializeTypeCurrentRPC":"JSON","version":'
    + str(CURRENT_VERSION).encode()
    + b"}"
)


class PullLane:
    """What a server asks about each frame before it decodes it."""

    def __init__(self, context: Context, *, known_max: int = KNOWN_MAX) -> None:
        self._context: Context = context
        self._known_max: int = known_max
        # A consumer's pulls of a queue differ in their offsets only: the rest is parsed once.
        self._known: dict[str, Asked] = {}

    def answer(self, connection: Connection, frame: memoryview) -> bool:
        """Answer a plain pull with messages; False, and nothing done, if the frame is not one."""
        if len(frame) < _START.size:
            return False
        mark, start = _START.unpack_from(frame)
        # A header that is not JSON has another top byte: as a length it would be far too much.
        if start != PULL_START or mark != len(frame) - _HEADER_AT:
            return False
        header = decode_pull(frame[_HEADER_AT:])
        if header is None or header.code != _PULL or header.flag:
            return False
        context = self._context
        asked = self._asked(header.extFields)
        if asked is None or not context.config.broker_permission & READABLE:
            return False
        group = context.groups.get(asked.group)
        if group is None:
            return False
        try:
            queue = context.store.queue(asked.topic, asked.queue_id)
            if queue is None or asked.queue_offset >= queue.queue_offset_max:
                return False  # as with most pulls of those who keep up: nothing is checked twice
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
        data = _ANSWER % (
            suggested_broker(context, group, found), found.next_offset, found.min_offset,
            found.max_offset, topic.topic_sys_flag, group.group_sys_flag, header.opaque,
        )  # fmt: skip
        head = _PREFIX.pack(_HEADER_AT + len(data) + found.size, len(data)) + data
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

    def _asked(self, fields: PullFields) -> Asked | None:
        """What is asked for; None if the ordinary way has to say what is wrong with it."""
        queue_offset: str = fields.queueOffset
        consume_offset: str = fields.commitOffset
        if (
            not queue_offset.isdecimal()
            or not consume_offset.isdecimal()
            or len(queue_offset) > _OFFSET_DIGITS_MAX
            or len(consume_offset) > _OFFSET_DIGITS_MAX
        ):
            return None
        key = (
            f"{fields.consumerGroup}\n{fields.topic}\n{fields.queueId}\n{fields.maxMsgNums}\n"
            f"{fields.sysFlag}\n{fields.suspendTimeoutMillis}\n{fields.subVersion}\n"
            f"{fields.subscription}\n{fields.expressionType}\n{fields.maxMsgBytes}\n"
            f"{fields.requestSource}"
        )
        asked = self._known.get(key)
        if asked is None:
            asked = self._parse(fields, key)
            if asked is None:
                return None
        asked.queue_offset = int(queue_offset)
        asked.consume_offset = int(consume_offset)
        return asked

    def _parse(self, fields: PullFields, key: str) -> Asked | None:
        # More would be in the texts, and they could be divided in another way, too.
        if key.count(_SEPARATOR) != _SEPARATORS:
            return None
        try:
            asked = Asked(pull_header(fields))
        except RequestError:
            return None
        if len(key) <= _KEY_CHARS_MAX:
            if len(self._known) >= self._known_max:
                self._known.clear()
            self._known[key] = asked
        return asked
