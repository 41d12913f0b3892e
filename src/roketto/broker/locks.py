"""Queue locks of orderly consumers: who may consume a queue alone, and until when.

A lock is held by one client of a group and must be renewed within a minute. It outlives the
client's connection on purpose: a client that only reconnects goes on consuming what it has, and
nobody may overtake it before its own notion of the lock has ended.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from roketto.protocol.bodies.route import MessageQueue

__all__ = ["LOCKS_MAX", "LOCK_S", "QueueLocks"]

log = logging.getLogger(__name__)

LOCK_S: Final = 60.0
"""How long a lock lives unless it is renewed: Java's rocketmq.broker.rebalance.lockMaxLiveTime."""

LOCKS_MAX: Final = 1_000_000
"""Locks of all groups, as many as there may be offsets."""


class _Lock(NamedTuple):
    client_id: str
    until_s: float


class QueueLocks:
    """Group and queue -> the client that holds it. ``now_s`` is a clock that never goes back."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0
        self._next_search_s = float("-inf")

    def __len__(self) -> int:
        """How many locks are remembered, those that have ended included."""
        return self._count

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Lock what is free, take over what has ended, renew what the client has: all it holds."""
        now_s = self._now_s()
        if self._count >= LOCKS_MAX:
            self._make_room(now_s)
        locks = self._locks.setdefault(group, {})
        held = set()
        for queue in queues:
            lock = locks.get(queue)
            if lock is None and self._count >= LOCKS_MAX:
                continue
            if lock is not None and lock.client_id != client_id:
                if lock.until_s >= now_s:
                    continue
                log.warning(
                    "%s takes queue %d of %s from %s, which has not renewed its lock",
                    client_id, queue.queue_id, queue.topic, lock.client_id,
                )  # fmt: skip
            self._count += lock is None
            locks[queue] = _Lock(client_id, now_s + LOCK_S)
            held.add(queue)
        if not locks:
            self._locks.pop(group, None)
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Give back what the client holds of these."""
        locks = self._locks.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
                self._count -= 1
        if not locks:
            self._locks.pop(group, None)

    def is_group_locked(self, group: str) -> bool:
        """Whether any queue is locked for this group."""
        now_s = self._now_s()
        return any(lock.until_s >= now_s for lock in self._locks.get(group, {}).values())

    def _make_room(self, now_s: float) -> None:
        """Forget locks that have ended, but look through all of them at most once a second."""
        if now_s < self._next_search_s:
            return
        self._next_search_s = now_s + 1
        for group, locks in list(self._locks.items()):
            ended = [queue for queue, lock in locks.items() if lock.until_s < now_s]
            for queue in ended:
                del locks[queue]
            self._count -= len(ended)
            if not locks:
                del self._locks[group]
        if self._count >= LOCKS_MAX:
            log.error("%d queues are locked, the bound; more are refused", self._count)
