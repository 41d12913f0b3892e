"""Automatic batches: messages that are sent at about the same time become one request.

Messages to the same topic (and queue, where one was chosen) with the same tags and the same wish to
wait for the store come together. They leave when the first of them has waited long enough, or when
their bodies have more than so many bytes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from msgspec.structs import replace

from roketto.client.errors import ClientError
from roketto.client.message import Message, MessageQueue, SendResult
from roketto.client.send_settings import BatchSettings
from roketto.client.sending import Item
from roketto.protocol.names import RETRY_PREFIX

__all__ = ["Batcher", "split_result"]

_Key: TypeAlias = tuple[str, MessageQueue | None, bool, str | None]
SendItems: TypeAlias = Callable[[list[Item], MessageQueue | None], Awaitable[SendResult]]

_ITEM_BYTES: Final = 22
"""What a message has in a batch besides body and properties; see protocol/batch.py."""


class _Batch:
    __slots__ = ("body_bytes", "futures", "items", "queue", "size", "timer")

    def __init__(self, queue: MessageQueue | None, timer: asyncio.TimerHandle) -> None:
        self.queue = queue
        self.timer = timer
        self.items: list[Item] = []
        self.futures: list[asyncio.Future[SendResult]] = []
        self.body_bytes = 0
        self.size = 0
        """Encoded."""


class Batcher:
    """Gathers the messages of one producer, until ``close``.

    batcher = Batcher(send_items, BatchSettings(), request_bytes_max=4 * 1024 * 1024)
    if batcher.takes(message):
        result = await batcher.add(preparation.item(message), queue)
    """

    def __init__(self, send: SendItems, settings: BatchSettings, request_bytes_max: int) -> None:
        self._send = send
        self._request_bytes_max = request_bytes_max
        self._delay_s = settings.delay_ms / 1000
        self._bytes_max = settings.bytes_max
        self._held_bytes_max = settings.held_bytes_max
        self._batches: dict[_Key, _Batch] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.held_bytes = 0
        """Bodies of messages that wait or are under way."""

    def takes(self, message: Message) -> bool:
        """Whether a message may wait for others; if not, it is sent on its own."""
        return (
            self.held_bytes < self._held_bytes_max
            and type(message) is Message  # transactions, replies and retries go alone
            and not message.is_delayed
            and not message.topic.startswith(RETRY_PREFIX)
        )

    def add(self, item: Item, queue: MessageQueue | None = None) -> "asyncio.Future[SendResult]":
        """Let a message wait for others; what its send will have given.

        If that is cancelled before the message has left, it does not leave.
        """
        message = item.message
        key = (message.topic, queue, message.wait_for_store, message.tags)
        body_bytes = len(item.encoded.body)
        size = _ITEM_BYTES + body_bytes + len(item.encoded.properties_raw)
        loop = asyncio.get_running_loop()
        batch = self._batches.get(key)
        if batch is not None and batch.size + size > self._request_bytes_max:
            self._leave(key)
            batch = None
        if batch is None:
            timer = loop.call_later(self._delay_s, self._leave, key)
            batch = self._batches[key] = _Batch(queue, timer)
        future: asyncio.Future[SendResult] = loop.create_future()
        batch.items.append(item)
        batch.futures.append(future)
        batch.body_bytes += body_bytes
        batch.size += size
        self.held_bytes += body_bytes
        if batch.body_bytes > self._bytes_max:
            self._leave(key)
        return future

    def _leave(self, key: _Key) -> None:
        batch = self._batches.pop(key)
        batch.timer.cancel()
        task = asyncio.get_running_loop().create_task(self._send_batch(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_batch(self, batch: _Batch) -> None:
        pairs = list(zip(batch.items, batch.futures, strict=True))
        wanted = [(item, future) for item, future in pairs if not future.cancelled()]
        try:
            if wanted:
                items = [item for item, _ in wanted]
                result = await self._send(items, batch.queue)
                for (_, future), part in zip(wanted, split_result(result, len(items)), strict=True):
                    if not future.done():
                        future.set_result(part)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is for those who wait)
            for _, future in wanted:
                if not future.done():
                    future.set_exception(error)
        finally:
            self.held_bytes -= batch.body_bytes
            for _, future in wanted:
                future.cancel()  # nothing to those that are done: only if this was cancelled

    async def close(self) -> None:
        """Let all that waits leave now, and wait for its answers."""
        for key in tuple(self._batches):
            self._leave(key)
        await asyncio.gather(*self._tasks)


def split_result(result: SendResult, count: int) -> list[SendResult]:
    """The results of the messages of a batch; one for all where the broker keeps it whole."""
    ids = result.message_id.split(",")
    if len(ids) == 1:
        return [result] * count
    offset_ids = result.offset_id.split(",")
    if len(ids) != count or len(offset_ids) != count:
        raise ClientError(
            f"a batch of {count} messages to {result.queue} was stored, and its answer names"
            f" {len(ids)} ids of messages and {len(offset_ids)} of offsets"
        )
    return [
        replace(
            result,
            message_id=ids[number],
            offset_id=offset_ids[number],
            queue_offset=result.queue_offset + number,
        )
        for number in range(count)
    ]
