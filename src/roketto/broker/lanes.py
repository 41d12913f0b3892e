"""The quick lanes of a broker as one: each frame goes to the one that may know it."""

from typing import Final

from mypy_extensions import i64

from roketto.broker.batch_lane import BatchLane
from roketto.broker.context import Context
from roketto.broker.end_lane import EndLane
from roketto.broker.pull_lane import PullLane
from roketto.broker.send_answers import SendAnswers
from roketto.broker.send_lane import SendLane
from roketto.protocol.headers.end_frame import END_START
from roketto.protocol.headers.pull_frame import PULL_START
from roketto.protocol.headers.send_frame import SEND_BATCH_START
from roketto.remoting.connection import Connection
from roketto.remoting.lane import Lane

_CODE_AT: Final = 4 + PULL_START.index(b"1")
"""Where the first digit of the code is in a frame whose header begins with it."""
_PULL_DIGIT: Final = PULL_START[PULL_START.index(b"1")]
_END_DIGIT: Final = END_START[END_START.index(b"7")]
"""The second digit of that of a transaction's end, which begins like that of a send."""
_BATCH_DIGIT: Final = SEND_BATCH_START[SEND_BATCH_START.index(b"2")]
"""That of a batch's."""


class Lanes(Lane):
    """What a server asks about each frame before it decodes it; the lanes look closer."""

    def __init__(self, context: Context) -> None:
        answers = SendAnswers(context.sending)
        self._send: SendLane = SendLane(context, answers)
        self._batch: BatchLane = BatchLane(context, answers)
        self._pull: PullLane = PullLane(context)
        self._end: EndLane = EndLane(context)

    def answer(self, connection: Connection, data: bytes, at: i64, end: i64) -> bool:
        """Whether one of the lanes has answered the frame; if not, nothing was done."""
        if end - at <= _CODE_AT + 1:
            return False
        if data[at + _CODE_AT] == _PULL_DIGIT:
            return self._pull.answer(connection, data, at, end)
        second: i64 = data[at + _CODE_AT + 1]
        if second == _END_DIGIT:
            return self._end.answer(connection, data, at, end)
        if second == _BATCH_DIGIT:
            return self._batch.answer(connection, data, at, end)
        return self._send.answer(connection, data, at, end)
