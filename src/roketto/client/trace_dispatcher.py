"""Sends traces of messages to their topic, some at a time, and so that nobody waits for it."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count
from typing import Final, Self

from roketto.client.client import Client
from roketto.client.errors import ClientError
from roketto.client.identity import DEFAULT_INSTANCE
from roketto.client.message import Message
from roketto.client.producer import Producer
from roketto.client.send_settings import SendSettings
from roketto.client.trace_record import Trace, encode_trace, keys_of
from roketto.clock import monotonic_s
from roketto.protocol.limits import GROUP_BYTES_MAX
from roketto.protocol.names import SYSTEM_TOPIC_PREFIX, TRACE_TOPIC

__all__ = ["TraceDispatcher", "TracePart", "TraceRole", "split_traces"]

log = logging.getLogger(__name__)

# The bounds are those of Java's AsyncTraceDispatcher.
_WAITING_MAX: Final = 2_048
_BATCH_MAX: Final = 20
_INTERVAL_S: Final = 5.0
_SENDS_MAX: Final = 4
_SEND_TIMEOUT_MS: Final = 5_000
_STOP_S: Final = 5.0
_BODY_BYTES_MAX: Final = 128_000
_KEYS_CHARS_MAX: Final = 8_000
"""Properties take 32 KiB, and a character up to four bytes. Java has no such bound, and brokers
refuse what is above theirs."""

_CLOUD_TOPIC_PREFIX: Final = SYSTEM_TOPIC_PREFIX + "TRACE_DATA_"
_numbers = count(1)


class TraceRole(Enum):
    """Whose traces they are; part of the name of the group that sends them."""

    PRODUCE = "PRODUCE"
    CONSUME = "CONSUME"


class TraceDispatcher:
    """Sends traces, from ``start`` to ``stop``.

    async with TraceDispatcher(client, "orders", TraceRole.CONSUME) as dispatcher:
        dispatcher.append([SubBeforeTrace(...), ...])       # what belongs together

    They leave when ``batch_max`` are there, or when the last ones left five seconds ago. ``topic``
    is the trace topic; ``is_cloud`` is for brokers of a cloud, which have one for each region.
    """

    def __init__(
        self,
        client: Client,
        group: str,
        role: TraceRole,
        *,
        topic: str = TRACE_TOPIC,
        batch_max: int = 10,
        is_cloud: bool = False,
    ) -> None:
        self.client = client
        self.topic = topic
        self.is_cloud = is_cloud
        self.dropped = 0
        """Traces that were not sent because too many were waiting."""
        self._batch_max = max(1, min(batch_max, _BATCH_MAX))
        self._producer = Producer(
            _trace_group(client.unwrap(group), role),
            client=_trace_client(client),
            sending=SendSettings(timeout_ms=_SEND_TIMEOUT_MS, body_bytes_max=_BODY_BYTES_MAX),
        )
        self._waiting: deque[Sequence[Trace]] = deque()
        self._is_more = asyncio.Event()
        self._turns = asyncio.Semaphore(_SENDS_MAX)
        self._sends: set[asyncio.Task[None]] = set()
        self._last_s = monotonic_s()
        self._worker: asyncio.Task[None] | None = None
        self._is_failing = False

    async def start(self) -> None:
        if self._worker is None:
            await self._producer.start()
            self._worker = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Send what waits, within five seconds, and end."""
        if self._worker is None:
            return
        worker, self._worker = self._worker, None
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        try:
            async with asyncio.timeout(_STOP_S):
                await self.flush()
        except TimeoutError:
            log.warning("%d traces of %s are not sent: there is no time left",
                        len(self._waiting), self._producer.group)  # fmt: skip
        finally:
            for task in tuple(self._sends):
                task.cancel()
            await asyncio.gather(*self._sends, return_exceptions=True)
            await self._producer.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    def is_traced(self, topic: str) -> bool:
        """Whether messages of a topic are traced: traces themselves are not."""
        return not topic.startswith(self.topic)

    def append(self, traces: Sequence[Trace]) -> bool:
        """Send traces that belong together later; False if they are dropped."""
        if len(self._waiting) >= _WAITING_MAX:
            if self.dropped == 0:
                log.warning(
                    "%d traces of %s wait to be sent, which is the bound; others are dropped",
                    _WAITING_MAX, self._producer.group,
                )  # fmt: skip
            self.dropped += 1
            return False
        self._waiting.append(traces)
        if len(self._waiting) in (1, self._batch_max):
            self._is_more.set()
        return True

    async def flush(self) -> None:
        """Send all that waits now, and wait for the answers."""
        while self._waiting:
            await self._send_some()
        while self._sends:
            await asyncio.wait(tuple(self._sends))

    # --- sending ----------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await self._wait()
            await self._send_some()

    async def _wait(self) -> None:
        """Wait until a batch is whole, or the last one left long enough ago."""
        while len(self._waiting) < self._batch_max:
            left_s = self._last_s + _INTERVAL_S - monotonic_s() if self._waiting else None
            if left_s is not None and left_s <= 0:
                return
            self._is_more.clear()
            try:
                async with asyncio.timeout(left_s):
                    await self._is_more.wait()
            except TimeoutError:
                return

    async def _send_some(self) -> None:
        await self._turns.acquire()
        batch = [self._waiting.popleft() for _ in range(min(self._batch_max, len(self._waiting)))]
        self._last_s = monotonic_s()
        task = asyncio.get_running_loop().create_task(self._send(batch))
        self._sends.add(task)
        task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._sends.discard(task)
        self._turns.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("sending traces of %s failed", self._producer.group, exc_info=error)

    async def _send(self, batch: Iterable[Sequence[Trace]]) -> None:
        for (topic, _), traces in self._by_topic(batch).items():
            for part in split_traces(traces):
                message = Message(topic, part.text.encode(), keys=part.keys)
                try:
                    await self._producer.send(message)
                except ClientError as error:
                    self._failed(error)
                else:
                    self._is_failing = False

    def _by_topic(
        self, batch: Iterable[Sequence[Trace]]
    ) -> dict[tuple[str, str | None], list[Trace]]:
        """Traces by where they go and whose they are.

        Messages of brokers of 4.9 name no region, and only a cloud needs one.
        """
        found: dict[tuple[str, str | None], list[Trace]] = {}
        for traces in batch:
            region_id = traces[0].region_id if traces else None
            if traces and (region_id is not None or not self.is_cloud):
                topic = f"{_CLOUD_TOPIC_PREFIX}{region_id}" if self.is_cloud else self.topic
                found.setdefault((topic, traces[0].topic), []).extend(traces)
        return found

    def _failed(self, error: ClientError) -> None:
        level = logging.DEBUG if self._is_failing else logging.WARNING
        self._is_failing = True  # once is enough, until it works again
        log.log(level, "traces of %s are lost: %s", self._producer.group, error)


@dataclass(frozen=True, slots=True)
class TracePart:
    """What fits into one message."""

    text: str
    keys: list[str]


def split_traces(traces: Iterable[Trace]) -> Iterator[TracePart]:
    """Traces in parts of which each fits into a message."""
    texts: list[str] = []
    keys: dict[str, None] = {}
    text_bytes = keys_chars = 0
    for trace in traces:
        text = encode_trace(trace)
        size = len(text.encode())
        new = _some_keys(trace)
        chars = sum(len(key) + 1 for key in new)
        if texts and (text_bytes + size > _BODY_BYTES_MAX or keys_chars + chars > _KEYS_CHARS_MAX):
            yield TracePart("".join(texts), list(keys))
            texts, keys, text_bytes, keys_chars = [], {}, 0, 0
        texts.append(text)
        keys.update(dict.fromkeys(new))
        text_bytes += size
        keys_chars += chars
    if texts:
        yield TracePart("".join(texts), list(keys))


def _some_keys(trace: Trace) -> list[str]:
    """The id of a message, and as many of its keys as fit."""
    found: list[str] = []
    left = _KEYS_CHARS_MAX
    for key in keys_of([trace]):
        left -= len(key) + 1
        if left >= 0:
            found.append(key)
    return found


def _trace_group(group: str, role: TraceRole) -> str:
    end = f"-{role.value}-{next(_numbers)}"
    return f"_INNER_TRACE_PRODUCER-{group}"[: GROUP_BYTES_MAX - len(end)] + end


def _trace_client(client: Client) -> Client:
    """The same client, or another one where names have a namespace: those of traces have none."""
    if not client.settings.namespace:
        return client
    return Client(replace(client.settings, namespace="", instance_name=DEFAULT_INSTANCE))
