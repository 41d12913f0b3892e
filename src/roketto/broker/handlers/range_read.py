"""Bulk reading: thousands of a queue's messages in one answer, for Spark and other readers.

docs/range_read.md describes the request. It knows neither subscriptions nor waiting, and moves no
group's offset: whoever reads like this keeps account of it.
"""

import re
from collections.abc import Mapping
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.broker.handlers.pull import ForbiddenError, check_readable, code_of, find_queue
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Body, Command, Views
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.range_read import ReadRangeRequest, ReadRangeResponse
from roketto.protocol.limits import FRAME_BYTES_MAX
from roketto.remoting.connection import Connection, Reply
from roketto.store.reading import GetResult

BYTES_DEFAULT: Final = 4 * 1024 * 1024
BYTES_MAX: Final = FRAME_BYTES_MAX - 64 * 1024
"""What a frame holds beside a header."""
TAG_CODES_MAX: Final = 1_024
_CODE: Final = re.compile(r"-?[0-9]{1,10}")

_UNITS_MAX: Final = 16_384
"""Messages that one request looks at: others wait meanwhile, some milliseconds."""
_VIEWS_MAX: Final = 64
"""Pieces of the log that are sent as they are. Messages of many topics lie in more pieces than the
system takes at once; joining them costs less than handling them one by one."""


def read_range(context: Context, connection: Connection, request: Command) -> Reply:
    """Answer READ_RANGE."""
    said = decode_header(ReadRangeRequest, request.ext)
    try:
        check_readable(context)
        find_queue(context, connection, said.topic, said.queue_id)
    except ForbiddenError as error:
        return error.answer(request)
    found = _read(context, said)
    code = code_of(found, said.queue_offset)
    if said.consumer_group and found.count:
        context.stats.note_get(
            said.topic, said.consumer_group, said.queue_id, found.count, found.size
        )
    answer = ReadRangeResponse(
        next_begin_offset=found.next_offset,
        min_offset=found.min_offset,
        max_offset=found.max_offset,
        message_count=found.count,
    )
    return request.answer(code, encode_header(answer), _body(found.views), found.status.name)


def _read(context: Context, said: ReadRangeRequest) -> GetResult:
    start, end = said.queue_offset, said.end_offset
    last = start + _UNITS_MAX
    if end is not None:
        if end <= start:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"endOffset {end} is not behind queueOffset {start}: nothing is between them",
            )
        last = min(last, end)
    bytes_max = BYTES_DEFAULT if said.max_bytes is None else min(said.max_bytes, BYTES_MAX)
    codes = _parse_codes(said.tag_codes)
    return context.store.get_range(said.topic, said.queue_id, start, last, bytes_max, codes)


def _parse_codes(text: str | None) -> frozenset[int] | None:
    """The hashes of tags in a list; None without a list."""
    if not text:
        return None
    pieces = text.split(",", TAG_CODES_MAX)
    if len(pieces) <= TAG_CODES_MAX and all(map(_CODE.fullmatch, pieces)):
        return frozenset(map(int, pieces))
    raise RequestError(
        ResponseCode.INVALID_PARAMETER,
        f"tagCodes is {text[:64]!r}; write up to {TAG_CODES_MAX} hashes of tags joined by commas",
    )


def _body(views: list[Body]) -> Body | Views:
    if len(views) == 1:
        return views[0]
    return tuple(views) if len(views) <= _VIEWS_MAX else b"".join(views)


ROUTES: Final[Mapping[RequestCode, Handler]] = {RequestCode.READ_RANGE: read_range}
