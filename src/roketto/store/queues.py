"""All queues of a store by topic and id: made on demand, found in their directories.

What a flush or a sync costs depends on how many queues were written to, not on how many there
are; a queue that was found in its directory is looked into when somebody first asks for it.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from roketto.protocol.errors import IllegalNameError
from roketto.protocol.names import path_component
from roketto.store.consumequeue import FILE_BYTES, ConsumeQueue
from roketto.store.files import Files
from roketto.store.ledger import Ledger
from roketto.store.recent_units import BYTES_MAX

SYNCED_EACH_MAX: Final = 64
"""Queues that are synced file by file; more of them together with all else on their disk. Each
takes a sync of its own, up to three more if it is new, and a disk does some hundreds a second."""


class Queues:
    """The table of queues below one directory, ``consumequeue/<topic>/<queue id>/``."""

    __slots__ = (
        "_file_bytes",
        "_files",
        "_is_after_crash",
        "_ledger",
        "_log_min_offset",
        "_log_synced",
        "_table",
        "directory",
    )

    def __init__(
        self,
        files: Files,
        directory: Path,
        file_bytes: int = FILE_BYTES,
        recent_bytes_max: int = BYTES_MAX,
    ) -> None:
        """``recent_bytes_max`` is what is kept in memory of queues that are too many to be open."""
        self._files = files
        self.directory = directory
        self._file_bytes = file_bytes
        self._log_min_offset = 0
        self._log_synced: int | None = None
        self._is_after_crash = False
        # None: there is a directory that nobody has looked into.
        self._table: dict[str, dict[int, ConsumeQueue | None]] = {}
        self._ledger = Ledger(recent_bytes_max)

    def load(
        self, log_min_offset: int, *, is_after_crash: bool = False, log_synced: int | None = None
    ) -> None:
        """Find the queues that have a directory; the log begins at ``log_min_offset``.

        After a crash, nobody knows whether what is in the files is on the disk: the next ``sync``
        makes sure of it. ``log_synced`` says up to which message it is for sure; what queues have
        beyond does not count. Directories whose names cannot be a topic or a queue id are not ours.
        """
        self._log_min_offset = log_min_offset
        self._log_synced = log_synced
        self._is_after_crash = is_after_crash
        self._files.watch_file_system(self.directory)
        for topic in self._files.directories(self.directory):
            try:
                path_component(topic)
            except IllegalNameError:
                continue
            for name in self._files.directories(f"{self.directory}/{topic}"):
                if name.isdecimal() and str(int(name)) == name:
                    self._table.setdefault(topic, {}).setdefault(int(name), None)

    # --- one queue ----------------------------------------------------------------------------

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue, None if it has neither messages nor a directory."""
        queues = self._table.get(topic)
        if queues is None:
            return None
        queue = queues.get(queue_id)
        if queue is None and queue_id in queues:
            return self._open(queues, topic, queue_id)
        return queue

    def get_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, new and empty if there is none."""
        queues = self._table.get(topic)
        if queues is None:
            path_component(topic)
            queues = self._table[topic] = {}
        return queues.get(queue_id) or self._open(queues, topic, queue_id)

    def _open(
        self, queues: dict[int, ConsumeQueue | None], topic: str, queue_id: int
    ) -> ConsumeQueue:
        directory = f"{self.directory}/{path_component(topic)}/{queue_id}"
        queue = ConsumeQueue(self._files, directory, self._file_bytes, self._ledger)
        if queue_id in queues:
            queue.recover(self._log_min_offset, self._log_synced)
            if self._is_after_crash:
                queue.distrust()
        queues[queue_id] = queue
        return queue

    def topics(self) -> list[str]:
        """The topics that have a queue."""
        return list(self._table)

    def queue_ids(self, topic: str) -> list[int]:
        """The queues of a topic, in order."""
        return sorted(self._table.get(topic, ()))

    def __iter__(self) -> Iterator[tuple[str, int, ConsumeQueue]]:
        """Every queue with its topic and id; those that nobody has asked for yet are opened."""
        for topic in self.topics():
            for queue_id in self.queue_ids(topic):
                queue = self.get(topic, queue_id)
                if queue is not None:
                    yield topic, queue_id, queue

    # --- all queues ---------------------------------------------------------------------------

    def log_offset_max(self) -> int:
        """Where the newest message of all queues ends in the log, -1 without one."""
        return max((queue.log_offset_max for _, _, queue in self), default=-1)

    def rebuild_from(self) -> int | None:
        """From where on the log must be dispatched again for damaged queues; None without any."""
        found = (queue.rebuild_from for _, _, queue in self)
        return min((offset for offset in found if offset is not None), default=None)

    def count(self) -> tuple[int, int]:
        """How many queues have had messages, and their next offsets added up."""
        offsets = [
            (queue or self._open(queues, topic, queue_id)).queue_offset_max
            for topic, queues in self._table.items()
            for queue_id, queue in queues.items()
        ]
        return len(offsets) - offsets.count(0), sum(offsets)

    @property
    def dirty_count(self) -> int:
        """How many queues have units in memory that are not in their files."""
        return len(self._ledger.dirty)

    @property
    def dirty_units(self) -> int:
        """How many units these are."""
        return self._ledger.blocks.count

    def flush(self, queues_max: int | None = None) -> int:
        """Write what queues have in memory to their files; how many queues had something.

        No more than ``queues_max``: those that have waited longest.
        """
        dirty = self._ledger.dirty
        flushed = 0
        for queue in tuple(islice(dirty, queues_max)):
            queue.flush()
            del dirty[queue]
            flushed += 1
        if not dirty:
            dirty.clear()  # gives the memory of a large table back
        return flushed

    def sync(self) -> int:
        """Return when everything flushed so far is on the disk; how many queues that were."""
        count = len(self._ledger.unsynced)
        self.take_sync()()
        return count

    def take_sync(self) -> Callable[[], None]:
        """What makes everything that was flushed so far durable; it may be done in any thread.

        Done or not, none of this is the next sync's: one that fails is final.
        """
        unsynced, self._ledger.unsynced = self._ledger.unsynced, {}
        if len(unsynced) > SYNCED_EACH_MAX:
            return lambda: self._sync_many(unsynced)
        changes = self._changes(unsynced)
        return lambda: self._sync_each(*changes)

    def _sync_many(self, unsynced: dict[ConsumeQueue, int]) -> None:
        if not self._files.sync_file_system(self.directory):
            self._sync_each(*self._changes(unsynced))

    def _changes(self, unsynced: dict[ConsumeQueue, int]) -> tuple[list[str], list[str]]:
        """The files to sync for these queues, and then the directories, the innermost first."""
        paths: list[str] = []
        directories: dict[str, None] = {}
        parents: dict[str, None] = {}
        for queue, position in unsynced.items():
            changed, has_new = queue.changed_files(position)
            paths += changed
            if has_new:
                directory, parent = queue.directories()
                directories[directory] = None
                parents[parent] = None
        roots = [str(self.directory), str(self.directory.parent)] if parents else []
        return paths, [*directories, *parents, *roots]

    def _sync_each(self, paths: list[str], directories: list[str]) -> None:
        for path in paths:
            with suppress(FileNotFoundError):  # deleted meanwhile
                self._files.sync(path)
        for directory in directories:
            with suppress(FileNotFoundError):
                self._files.sync_directory(directory)

    def correct_min(self, log_min_offset: int) -> None:
        """Move the start of every queue behind what the log has lost at its start."""
        self._log_min_offset = log_min_offset
        for _, _, queue in self:
            queue.correct_min(log_min_offset)

    def follow(self, log_min_offset: int) -> Iterator[ConsumeQueue]:
        """The queues one by one, for each to lose what the log has lost at its start."""
        self._log_min_offset = log_min_offset
        return (queue for _, _, queue in self)

    def truncate(self, log_offset: int) -> None:
        """Drop the units at or behind the end of the log; only recovery calls this."""
        for _, _, queue in self:
            queue.truncate(log_offset)

    # --- deletion -----------------------------------------------------------------------------

    def delete_topic(self, topic: str) -> None:
        """Forget the queues of a topic and remove their files."""
        queues = self._table.pop(topic, None)
        if queues is None:
            return
        for queue in queues.values():
            self._forget(queue)
        self._files.remove_tree(self.directory / path_component(topic))
        self._files.make_directory(self.directory)  # a topic without messages has made none
        self._files.sync_directory(self.directory)

    def delete_expired(self, topic: str, queue_id: int, log_min_offset: int) -> bool:
        """Delete a queue that has had messages and lost them all; whether it was one.

        It forgets how far it was: only for queues that nobody writes to again.
        """
        queue = self.get(topic, queue_id)
        if queue is None or not 0 <= queue.log_offset_max < log_min_offset:
            return False
        del self._table[topic][queue_id]
        self._forget(queue)
        self._files.remove_tree(self.directory / path_component(topic) / str(queue_id))
        if not self._table[topic]:
            self.delete_topic(topic)
        return True

    def clear(self) -> None:
        """Forget all queues and remove their files: there is no log they could belong to."""
        for topic in self.topics():
            self.delete_topic(topic)

    def _forget(self, queue: ConsumeQueue | None) -> None:
        if queue is not None:
            self._ledger.dirty.pop(queue, None)
            self._ledger.unsynced.pop(queue, None)
            queue.forget_newest()
