"""Encoded route answers: by topic, and by the very bytes of the question.

Clients ask for the routes of their topics all the time, and all clients of one release ask in the
same words: their requests differ in nothing but the opaque number.

    {"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7, ... }

So an answer is kept under the bytes of its question without that number. A question heard before
is answered by a look-up, without decoding it; everything that changes a route forgets its answers.
"""

from typing import Final

from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command, encode_command
from roketto.protocol.frame import JSON

QUESTION_BYTES_MAX: Final = 1_024
"""A longer question is not worth keeping: 127 characters of topic make one of 300 bytes."""

QUESTIONS_MAX: Final = 10_000
"""Questions kept at most, about 5 MB; then all are forgotten and heard anew."""

_OPAQUE: Final = b'"opaque":'
_ZERO: Final = ord("0")
_OPAQUE_DIGITS_MAX: Final = 9
"""Numbers of ten digits may not fit an integer; they take the ordinary way."""


class RouteAnswers:
    """What was answered and still holds; a Memo for the connections of the name server."""

    __slots__ = ("_by_question", "old", "standard")

    def __init__(self) -> None:
        self._by_question: dict[bytes, tuple[bytes, bytes]] = {}
        self.old: dict[str, bytes] = {}
        """Routes by topic in FastJSON's dialect, for clients before 4.9.4."""
        self.standard: dict[str, bytes] = {}
        """The same in standard JSON."""

    def recall(self, frame: bytes) -> bytes | None:
        """Return the answer to a question that was heard before."""
        if len(frame) > QUESTION_BYTES_MAX:
            return None
        before, _, after = frame.partition(_OPAQUE)
        digits, _, rest = after.partition(b",")
        # A frame begins with its length, so an equal key means equally many digits, and the
        # prepared answer has the right length for them.
        known = self._by_question.get(before + rest)
        if known is None or not digits.isdigit() or digits[0] == _ZERO:
            return None
        return known[0] + digits + known[1]

    def remember(self, frame: bytes, request: Command, answer: Command) -> None:
        """Keep an answer if it is a route and depends on nothing but the question's bytes."""
        if (
            request.code != RequestCode.GET_ROUTEINFO_BY_TOPIC
            or answer.code != ResponseCode.SUCCESS
            or request.serialization != JSON
            or request.flag
            or len(frame) > QUESTION_BYTES_MAX
            or "__ZONE_MODE" in (request.ext or {})
        ):
            return
        before, _, after = frame.partition(_OPAQUE)
        digits, _, rest = after.partition(b",")
        # A second opaque, or one that is no plain number, is left to the decoder every time.
        if digits != b"%d" % request.opaque or _OPAQUE in rest or len(digits) > _OPAQUE_DIGITS_MAX:
            return
        if len(self._by_question) >= QUESTIONS_MAX:
            self._by_question.clear()
        start, _, end = encode_command(answer).partition(_OPAQUE + digits)
        self._by_question[before + rest] = (start + _OPAQUE, end)

    def forget(self, topic: str) -> None:
        """A route changed."""
        self.old.pop(topic, None)
        self.standard.pop(topic, None)
        self._by_question.clear()

    def forget_all(self) -> None:
        """Something changed that any route may show."""
        self.old.clear()
        self.standard.clear()
        self._by_question.clear()
