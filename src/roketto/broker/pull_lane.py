"""The quick lane of pulls: from the bytes of a frame that asks to those of one with messages.

It does what ``handlers.pull.pull`` does, by the same functions, without a command in between. A
consumer's pulls of one queue differ in two offsets and the opaque only: these are cut out of the
header, and what stays is looked up instead of being parsed again.

A pull at the end of its queue waits as ``LanePoll``, and the message that it waits for is sent the
same quick way. Whatever is not plain is left to the ordinary way, untouched: pulls that are refused
or ask for what is not there, headers that are not JSON as FastJSON writes it, and the first of each
kind.
"""

from typing import Final

from librt.strings import BytesWriter, read_i32_be, write_i32_be
from mypy_extensions import i64

from roketto.broker.context import Context
from roketto.broker.handlers.pull import (
    READABLE,
    SUSPEND_MS_MAX,
    Asked,
    ParkedPull,
    check,
    commit,
    note_sent,
    read,
    suggested_broker,
)
from roketto.broker.longpoll import Poll
from roketto.broker.permit import Permit
from roketto.broker.wanted import Wanted
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import decode_command
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.pull import PullMessageRequest
from roketto.protocol.headers.pull_frame import PULL_START, decode_pull, pull_header
from roketto.protocol.sysflags import PULL_SUBSCRIPTION, PULL_SUSPEND
from roketto.protocol.versions import CURRENT_VERSION
from roketto.remoting.connection import Connection
from roketto.store.dispatch import Arrival
from roketto.store.reading import GetResult, GetStatus

KNOWN_MAX: Final = 10_000
"""Kinds of pulls that are remembered: those of as many queues of groups as are read at a time. If
there are more, it is begun anew."""
_HEADER_BYTES_MAX: Final = 1_024
"""Longer ones, with hundreds of tags, are not remembered; the others take 15 MB at the most."""

_MARK_BYTES: Final = 4
_FOUND: Final = GetStatus.FOUND
_PULL: Final = int(RequestCode.PULL_MESSAGE)
_LONG_DIGITS: Final = 18
_INT_DIGITS: Final = 9
"""A number of so many digits is a Java long or int for sure."""

_CONSUMED: Final = b'"commitOffset":"'
_OFFSET: Final = b'"queueOffset":"'
_OPAQUE: Final = b'"opaque":'
_QUOTE: Final = 0x22
_COMMA: Final = 0x2C
_DIGIT_0: Final = 0x30
_DIGIT_9: Final = 0x39

_ANSWER_END: Final = (
    f',"remark":"FOUND","serializeTypeCurrentRPC":"JSON","version":{CURRENT_VERSION}}}'
).encode()


class Known:
    """What pulls of one kind ask for, and what most of their answers have in common."""

    __slots__ = ("asked", "end", "least", "min_offset", "permit", "start", "suggested")

    def __init__(self, asked: Asked) -> None:
        self.asked: Asked = asked
        self.permit: Permit | None = None
        # The text of the answer before, between and behind what is new in each.
        self.suggested: int = -1
        self.start: bytes = b""
        self.min_offset: int = -1
        self.least: bytes = b""
        self.end: bytes = b""

    def allow(self, permit: Permit) -> None:
        """Remember that these pulls may read, and what of it their answers tell."""
        self.permit = permit
        self.end = (
            f'","topicSysFlag":"{permit.topic.topic_sys_flag}",'
            f'"groupSysFlag":"{permit.group.group_sys_flag}"}},"flag":1,'
            '"language":"PYTHON","opaque":'
        ).encode()

    def fit(self, suggested: int, min_offset: int) -> None:
        """Let the answer have these numbers, which seldom change."""
        if suggested != self.suggested:
            self.suggested = suggested
            self.start = (
                f'{{"code":0,"extFields":{{"suggestWhichBrokerId":"{suggested}","nextBeginOffset":"'
            ).encode()
        if min_offset != self.min_offset:
            self.min_offset = min_offset
            self.least = f'","minOffset":"{min_offset}","maxOffset":"'.encode()


class PullLane:
    """What a server asks about each frame before it decodes it."""

    def __init__(self, context: Context, *, known_max: int = KNOWN_MAX) -> None:
        self._context: Context = context
        self._known_max: int = known_max
        self._known: dict[bytes, Known] = {}
        # Where numbers were in the last header in which they were looked for: before the first of
        # them, between the two offsets, and from the end of the opaque on are so many bytes.
        self._first_bytes: i64 = 0
        self._middle_bytes: i64 = 0
        self._last_bytes: i64 = 0
        # What was cut out of the header of the pull that is answered now.
        self._consumed: i64 = 0
        self._offset: i64 = 0
        self._opaque: bytes = b""

    def answer(self, connection: Connection, data: bytes, at: int, end: int) -> bool:
        """Answer a plain pull with messages; False, and nothing done, if the frame is not one."""
        begin: i64 = at + _MARK_BYTES
        stop: i64 = end
        header_bytes = stop - begin
        # All of it is header, which the first byte of the mark says to be JSON.
        if header_bytes > _HEADER_BYTES_MAX or header_bytes != read_i32_be(data, at):
            return False
        known: Known | None = None
        key = self._cut(
            data, begin, stop, begin + self._first_bytes, self._middle_bytes, self._last_bytes
        )
        if key:
            known = self._known.get(key)
        if known is None:
            key = self._find(data, begin, stop)
            if not key:
                return False
            known = self._known.get(key)
            if known is None:
                self._learn(key, data[begin:stop])
                return False
        asked = known.asked
        asked.queue_offset = self._offset
        asked.consume_offset = self._consumed
        context = self._context
        found: GetResult | None = None
        try:
            permit = self._permit(connection, known)
            if permit is None:
                return False
            is_at_end = self._is_at_end(asked)
            if is_at_end and not self._may_wait(asked):
                return False
            if not is_at_end:
                found = read(context, asked, permit.wanted)
                if found.status is not _FOUND:
                    return False
            commit(context, connection, asked)
            if is_at_end and not self._park(connection, known, permit, data[at:end]):
                return False
        except Exception:  # noqa: BLE001 (the ordinary way will meet it, too, and answers it)
            return False
        context.stats.plain_pulls += 1
        if found is None:
            context.stats.get_missed += 1
        else:
            self._send(connection, known, permit, found, self._opaque)
        return True

    def resume(self, poll: "LanePoll") -> bool:
        """Answer a pull that has waited; False, and nothing done, if that is not plain."""
        connection, known = poll.connection, poll.known
        known.asked.queue_offset = poll.queue_offset
        try:
            permit = self._permit(connection, known)
            if permit is None or connection.is_write_stalled or self._is_at_end(known.asked):
                return False
            found = read(self._context, known.asked, permit.wanted)
            if found.status is not _FOUND:
                return False
        except Exception:  # noqa: BLE001 (as above)
            return False
        self._send(connection, known, permit, found, poll.opaque)
        self._context.polls.answered[connection] = None
        return True

    # --- what is asked ----------------------------------------------------------------------------

    def _cut(
        self, data: bytes, begin: i64, end: i64, consumed_at: i64, middle: i64, last: i64
    ) -> bytes:
        """Cut the numbers out of a header, and return the rest; nothing if they are not there.

        There is no need to look at their names: a rest is known only if they were in it.
        """
        opaque_end = end - last
        if opaque_end >= end or consumed_at >= opaque_end or data[consumed_at - 1] != _QUOTE:
            return b""
        consumed, consumed_end = _read_number(data, consumed_at, opaque_end)
        offset_at = consumed_end + middle
        if data[consumed_end] != _QUOTE or offset_at >= opaque_end:
            return b""
        offset, offset_end = _read_number(data, offset_at, opaque_end)
        opaque_at = opaque_end
        while opaque_at > offset_end and _DIGIT_0 <= data[opaque_at - 1] <= _DIGIT_9:
            opaque_at -= 1
        opaque_digits = opaque_end - opaque_at
        if not (
            0 < consumed_end - consumed_at <= _LONG_DIGITS
            and 0 < offset_end - offset_at <= _LONG_DIGITS
            and 0 < opaque_digits <= _INT_DIGITS
            and (opaque_digits == 1 or data[opaque_at] != _DIGIT_0)
        ):
            return b""
        self._consumed = consumed
        self._offset = offset
        self._opaque = data[opaque_at:opaque_end]
        return b"\n".join(
            (
                data[begin:consumed_at],
                data[consumed_end:offset_at],
                data[offset_end:opaque_at],
                data[opaque_end:end],
            )
        )

    def _find(self, data: bytes, begin: i64, end: i64) -> bytes:
        """The same for a header in which they may be elsewhere than in the last one."""
        if not data.startswith(PULL_START, begin):
            return b""
        found_at = data.find(_CONSUMED, begin, end)
        if found_at < 0:
            return b""
        consumed_at: i64 = found_at + len(_CONSUMED)
        consumed_end: i64 = data.find(b'"', consumed_at, end)
        offset_at: i64 = data.find(_OFFSET, consumed_end, end) + len(_OFFSET)
        opaque_at: i64 = data.rfind(_OPAQUE, offset_at, end) + len(_OPAQUE)
        opaque_end: i64 = data.find(b",", opaque_at, end)
        # What is not there is found at -1, and what should follow it at another place.
        if not consumed_at < consumed_end < offset_at < opaque_at < opaque_end:
            return b""
        self._first_bytes = consumed_at - begin
        self._middle_bytes = offset_at - consumed_end
        self._last_bytes = end - opaque_end
        key = self._cut(data, begin, end, consumed_at, offset_at - consumed_end, end - opaque_end)
        return key if opaque_end - opaque_at == len(self._opaque) else b""

    def _learn(self, key: bytes, header: bytes) -> None:
        """Remember what headers with so much in common ask for, if they are plain."""
        found = decode_pull(memoryview(header))
        # A line break could hide where a value was taken out.
        if found is None or found.code != _PULL or found.flag or b"\n" in header:
            return
        try:
            header.decode()  # also what is passed over has to be text
            asked = Asked(pull_header(found.extFields))
        except (RequestError, UnicodeDecodeError):
            return
        if len(self._known) >= self._known_max:
            self._known.clear()
        self._known[key] = Known(asked)

    # --- the answer -------------------------------------------------------------------------------

    def _permit(self, connection: Connection, known: Known) -> Permit | None:
        """What lets these pulls read now; None or RequestError if the ordinary way has to look."""
        context, asked = self._context, known.asked
        topic, group_name = asked.topic, asked.group
        if not context.config.broker_permission & READABLE:
            return None
        if context.topics.prioritized and topic in context.topics.prioritized:
            return None  # it may have to wait for others
        if context.offsets.has_reset(topic, group_name, asked.queue_id):
            return None
        permit = known.permit
        if (
            permit is not None
            and permit.holds(context, topic, group_name)
            and not context.config.reject_pull_consumer_enable
        ):
            return permit
        group = context.groups.get(group_name)
        if group is None:
            return None
        of_topic, wanted = check(context, connection, asked, group)
        if wanted.needs_properties:
            return None
        subscription = None
        if not asked.sys_flag & PULL_SUBSCRIPTION:
            subscription = context.clients.subscription(group_name, topic)
        permit = Permit(of_topic, group, subscription, wanted)
        known.allow(permit)
        return permit

    def _is_at_end(self, asked: Asked) -> bool:
        """Whether the message that is asked for is the next one to come."""
        queue = self._context.store.queue(asked.topic, asked.queue_id)
        return queue is not None and asked.queue_offset == queue.queue_offset_max

    def _may_wait(self, asked: Asked) -> bool:
        """Whether a pull waits for the message that it asks for."""
        return bool(asked.sys_flag & PULL_SUSPEND) and self._context.config.long_polling_enable

    def _park(self, connection: Connection, known: Known, permit: Permit, frame: bytes) -> bool:
        """Let a pull wait for a message; False if there are too many."""
        polls = self._context.polls
        deadline_s = polls.now_s() + min(known.asked.suspend_ms, SUSPEND_MS_MAX) / 1000
        return polls.park(
            LanePoll(self, connection, known, permit.wanted, self._opaque, frame, deadline_s)
        )

    def _send(
        self, connection: Connection, known: Known, permit: Permit, found: GetResult, opaque: bytes
    ) -> None:
        context = self._context
        note_sent(context, known.asked, found)
        known.fit(suggested_broker(context, permit.group, found), found.min_offset)
        found.join_small()
        views = found.views
        connection.put(_encode_head(known, found, opaque), views[0])
        for view in views[1:]:
            connection.put(view)

    def resume_ordinarily(self, poll: "LanePoll", is_late: bool) -> None:
        """Go on with a pull that has waited as if it had never been here."""
        request = decode_command(memoryview(poll.frame))
        asked = Asked(decode_header(PullMessageRequest, request.ext))
        ParkedPull(
            self._context, poll.connection, request, asked, poll.wanted, deadline_s=poll.deadline_s
        ).resume(is_late)


class LanePoll(Poll):
    """A plain pull that waits; see ``ParkedPull``, as which it goes on if it is not plain any more.

    Its frame is kept for that.
    """

    __slots__ = ("frame", "known", "lane", "opaque", "wanted")

    def __init__(
        self,
        lane: PullLane,
        connection: Connection,
        known: Known,
        wanted: Wanted,
        opaque: bytes,
        frame: bytes,
        deadline_s: float,
    ) -> None:
        asked = known.asked
        super().__init__(connection, asked.topic, asked.queue_id, asked.queue_offset, deadline_s)
        self.lane: PullLane = lane
        self.known: Known = known
        self.wanted: Wanted = wanted
        self.opaque: bytes = opaque
        self.frame: bytes = frame

    def wants(self, arrival: Arrival) -> bool:
        codes = self.wanted.codes
        return codes is None or arrival.tags_code in codes

    def resume(self, is_late: bool) -> None:
        if self.connection.closed:
            return
        if is_late or not self.lane.resume(self):
            self.lane.resume_ordinarily(self, is_late)


def _encode_head(known: Known, found: GetResult, opaque: bytes) -> bytes:
    """An answer up to its body."""
    next_offset = str(found.next_offset).encode()
    max_offset = str(found.max_offset).encode()
    header_bytes = (
        len(known.start) + len(next_offset) + len(known.least) + len(max_offset)
        + len(known.end) + len(opaque) + len(_ANSWER_END)
    )  # fmt: skip
    head = BytesWriter()
    write_i32_be(head, _MARK_BYTES + header_bytes + found.size)
    write_i32_be(head, header_bytes)
    head.write(known.start)
    head.write(next_offset)
    head.write(known.least)
    head.write(max_offset)
    head.write(known.end)
    head.write(opaque)
    head.write(_ANSWER_END)
    return head.getvalue()


def _read_number(data: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """The digits from a place on as a number, and where they end."""
    number: i64 = 0
    while at < end:
        byte = data[at]
        if byte < _DIGIT_0 or byte > _DIGIT_9:
            break
        number = number * 10 + (byte - _DIGIT_0)
        at += 1
    return number, at
