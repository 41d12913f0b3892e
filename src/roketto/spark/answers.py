"""Raw records of a queue from one request: by READ_RANGE where brokers know it, else by a pull."""

import logging
from dataclasses import dataclass, replace
from typing import Final

from roketto.client.client import Client
from roketto.client.errors import RefusedError, UnreadableError
from roketto.client.pulling import PullRequest, make_header
from roketto.client.routes import MASTER_ID
from roketto.client.subscription import ALL_TAGS, Sql, Subscription, make_subscription
from roketto.clock import wall_ms
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import HeaderFieldError
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.pull import PullMessageRequest, PullMessageResponse
from roketto.protocol.headers.range_read import ReadRangeRequest, ReadRangeResponse
from roketto.protocol.tags import tag_code

__all__ = ["Answer", "Asking", "Outcome"]

log = logging.getLogger(__name__)

RANGE_BYTES: Final = 8 * 1024 * 1024
"""What a bulk read asks for: a broker looks at 16,384 messages at once, which is often less."""
PULL_COUNT: Final = 32
PULL_BYTES: Final = 4 * 1024 * 1024
"""Java's brokers give 32 messages of up to 256 KiB, unless they are configured to give more."""
TAG_CODES_MAX: Final = 1_024
"""Hashes of tags that a bulk read takes; with more, pulls are used."""
REQUEST_TIMEOUT_MS: Final = 10_000


class Outcome:
    """What a broker says of an offset."""

    FOUND: Final = int(ResponseCode.SUCCESS)
    NOTHING_YET: Final = int(ResponseCode.PULL_NOT_FOUND)
    NONE_WANTED: Final = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
    MOVED: Final = int(ResponseCode.PULL_OFFSET_MOVED)


_OUTCOMES: Final = (Outcome.FOUND, Outcome.NOTHING_YET, Outcome.NONE_WANTED, Outcome.MOVED)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a broker has answered."""

    outcome: int
    next_offset: int
    min_offset: int
    max_offset: int
    data: bytes
    is_master: bool
    offset_delta: int = 0
    """To be added to the offsets in the records: of queues of static topics."""


class Asking:
    """The requests for one queue, named as brokers know it.

    asking = Asking(client, queue, "spark", "*", "", None)
    answer = await asking.read_range(0, 1000)      # or pull(0)
    """

    def __init__(
        self,
        client: Client,
        queue: MessageQueue,
        group: str,
        tag_expression: str,
        sql: str,
        count_max: int | None,
    ) -> None:
        self._client = client
        self._queue = queue
        self._group = client.wrap(group)
        self._count_max = count_max
        expression: str | Sql = Sql(sql) if sql else tag_expression
        self.subscription: Subscription = make_subscription(queue.topic, expression, wall_ms())
        self.is_filtered = bool(sql) or tag_expression != ALL_TAGS
        codes = sorted({tag_code(tag) for tag in self.subscription.tags})
        self._codes = ",".join(map(str, codes)) or None
        self.takes_ranges = not sql and len(codes) <= TAG_CODES_MAX

    @property
    def is_static(self) -> bool:
        """Whether the queue is one of a static topic, whose offsets brokers do not store."""
        return self._client.routes.broker_of(self._queue) != self._queue.broker_name

    async def address(self) -> tuple[str, int]:
        """Where to ask, and the id of the broker there: the master as long as there is one."""
        routes = self._client.routes
        await routes.get(self._queue.topic)
        return await routes.for_pulling(routes.broker_of(self._queue), MASTER_ID, self._queue.topic)

    async def read_range(self, at: int, end: int, bytes_max: int = RANGE_BYTES) -> Answer:
        """Records from ``at`` on, none from ``end`` on; RefusedError where brokers will not."""
        address, broker_id = await self.address()
        if self._count_max is not None:
            end = min(end, at + self._count_max)
        request = ReadRangeRequest(
            consumer_group=self._group, topic=self._queue.topic, queue_id=self._queue.queue_id,
            queue_offset=at, end_offset=end, max_bytes=bytes_max, tag_codes=self._codes,
        )  # fmt: skip
        answer = await self._ask(address, RequestCode.READ_RANGE, request)
        try:
            header = decode_header(ReadRangeResponse, answer.ext)
        except HeaderFieldError as error:
            raise UnreadableError(address, error.reason) from error
        return Answer(
            answer.code, header.next_begin_offset, header.min_offset, header.max_offset,
            bytes(answer.body), broker_id == MASTER_ID,
        )  # fmt: skip

    async def pull(self, at: int) -> Answer:
        """The same by an ordinary pull, which may have more than is wanted."""
        address, broker_id = await self.address()
        request = PullRequest(
            self._queue, self._group, self.subscription, at,
            count_max=self._count_max or PULL_COUNT, bytes_max=PULL_BYTES, sends_expression=True,
        )  # fmt: skip
        answer = await self._ask(address, RequestCode.PULL_MESSAGE, make_header(request, broker_id))
        try:
            header = decode_header(PullMessageResponse, answer.ext)
        except HeaderFieldError as error:
            raise UnreadableError(address, error.reason) from error
        found = Answer(
            answer.code, header.next_begin_offset, header.min_offset, header.max_offset,
            bytes(answer.body), broker_id == MASTER_ID, header.offset_delta or 0,
        )  # fmt: skip
        return found if found.outcome == Outcome.FOUND else replace(found, data=b"")

    async def _ask(
        self, address: str, code: RequestCode, header: ReadRangeRequest | PullMessageRequest
    ) -> Command:
        answer = await self._client.calls.ask(address, code, header, timeout_ms=REQUEST_TIMEOUT_MS)
        if answer.code not in _OUTCOMES:
            raise RefusedError(address, answer.code, answer.remark or "without a reason")
        return answer
