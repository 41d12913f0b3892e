"""What the codecs cost, in nanoseconds per operation; the fastest of several runs counts."""

import timeit
from collections.abc import Callable

from roketto.protocol.command import Command, decode_command, encode_command, encode_head
from roketto.protocol.frame import COMPACT, JSON, FrameDecoder
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.send import SendMessageV2Request

_RUNS = 7
_RUN_S = 0.2

SEND_FIELDS = {
    "a": "ProducerGroup",
    "b": "TopicTest",
    "c": "TBW102",
    "d": "4",
    "e": "1",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": "UNIQ_KEY\x017F000001000018B4AAC2000000000000\x02WAIT\x01true\x02TAGS\x01TagA\x02",
    "j": "0",
    "k": "false",
    "m": "false",
}
SEND_ANSWER = {
    "msgId": "7F00000100002A9F0000000000000000",
    "queueId": "1",
    "queueOffset": "123456",
    "transactionId": "7F000001000018B4AAC2000000000000",
}


def nanoseconds(operation: Callable[[], object]) -> float:
    """Cost of one call: the least of several runs, because noise only ever adds."""
    timer = timeit.Timer(operation)
    count, taken_s = timer.autorange()
    count = max(1, int(count * _RUN_S / taken_s))
    return min(timer.repeat(_RUNS, count)) / count * 1e9


def codec_costs() -> dict[str, float]:
    """Decode + encode of a SEND_MESSAGE_V2 frame in both serialisations, and its parts."""
    costs = {}
    for name, serialization in (("JSON", JSON), ("compact", COMPACT)):
        frame = encode_command(
            Command(310, dict(SEND_FIELDS), bytes(128), opaque=7, serialization=serialization)
        )
        decoder = FrameDecoder()
        [view] = decoder.feed(frame)
        request = decode_command(view)

        def decode(decoder: FrameDecoder = decoder, frame: bytes = frame) -> Command:
            return decode_command(decoder.feed(frame)[0])

        def encode(request: Command = request) -> bytes:
            return encode_head(request.answer(0, SEND_ANSWER))

        def both(decoder: FrameDecoder = decoder, frame: bytes = frame) -> bytes:
            request = decode_command(decoder.feed(frame)[0])
            return encode_head(request.answer(0, SEND_ANSWER))

        costs[f"SEND_MESSAGE_V2 {name}: frame to command"] = nanoseconds(decode)
        costs[f"SEND_MESSAGE_V2 {name}: answer to bytes"] = nanoseconds(encode)
        costs[f"SEND_MESSAGE_V2 {name}: decode + encode"] = nanoseconds(both)
    costs["SEND_MESSAGE_V2: typed header"] = nanoseconds(
        lambda: decode_header(SendMessageV2Request, SEND_FIELDS)
    )
    return costs
