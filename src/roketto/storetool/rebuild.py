"""Make queues and index anew from the log, for a store whose log is sound.

1. The log is read and verified. Where it is damaged, nothing is changed.
2. The abort mark is set, and the checkpoint forgets how far queues and index were. From here on
   whoever opens the store reads the whole log and completes them: a kill costs time, no message.
3. The old files are removed and the log is dispatched again. Queues of which the log has no message
   left are kept, for they know which offset comes next.
4. Everything is synced; then checkpoint and abort mark become what they were.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC
from enum import Enum
from typing import Final

from roketto.protocol.errors import IllegalNameError, RecordError
from roketto.protocol.names import is_lmq, path_component
from roketto.protocol.record import Record, decode_record
from roketto.store.abort import AbortMark
from roketto.store.checkpoint import Checkpoint, save_checkpoint
from roketto.store.consumequeue import QueueMismatchError
from roketto.store.delay_levels import DelayLevels
from roketto.store.dispatch import Dispatcher, Stored
from roketto.store.errors import StoreError
from roketto.store.files import Files
from roketto.store.index import Index
from roketto.store.indexfile import ENTRIES, SLOTS
from roketto.store.queues import Queues
from roketto.store.recovery import Progress
from roketto.storetool.check import has_bad_crc_property, unchecked
from roketto.storetool.directory import State, StoreDirectory
from roketto.storetool.facts import expect
from roketto.storetool.findings import Findings
from roketto.storetool.index_files import Entry
from roketto.storetool.log import LogWalk, Place
from roketto.storetool.messages import local_zone

_PROGRESS_RECORDS: Final = 4_096
_ENTRIES_LOOKED_AT: Final = 1_000
"""Entries of each index file, to find out whether it has tags."""


class Part(Enum):
    """What is made anew."""

    BOTH = "both"
    QUEUES = "queues"
    INDEX = "index"


class LogDamagedError(StoreError):
    """The log has damage; queues and index made from it would lack messages."""


class CannotRebuildError(StoreError):
    """The store has queues that are not made from the log in the way that is known here."""


@dataclass(slots=True)
class Rebuilt:
    """What was done."""

    messages: int = 0
    log_bytes: int = 0
    queues: int = 0
    queues_kept: int = 0
    """Queues of which the log has no message left."""
    left_out: int = 0
    """Messages of topics that were deleted."""
    misplaced: int = 0
    """Messages whose number in their queue another one had before."""
    index_files: int = 0
    entries: int = 0
    torn_bytes: int = 0
    """What lies behind the last record; the next start cuts it off."""


def has_tags(store: StoreDirectory) -> bool:
    """Whether one of the newest entries of the index was made of a tag."""
    if store.index.layout is None:
        return False
    hashes = Index(Files(), store.index.directory, lambda: 0, UTC)
    for path in reversed(store.index.paths):
        try:
            file = store.index.open(path)
        except StoreError:
            continue
        try:
            for number in range(max(1, file.count - _ENTRIES_LOOKED_AT), file.count):
                if _is_of_tag(store, file.entry(number), hashes):
                    return True
        finally:
            file.close()
    return False


def _is_of_tag(store: StoreDirectory, entry: Entry, hashes: Index) -> bool:
    try:
        record = store.log.record_at(entry.log_offset, read_body=False)
    except (RecordError, StoreError):
        return False
    tag_key = expect(record).tag_key
    return tag_key is not None and hashes.key_hash(record.topic, tag_key) == entry.key_hash


class Rebuild:
    """One rebuild of one store, whose lock the caller holds.

    rebuild = Rebuild(store, Part.BOTH, DelayLevels(), wall_ms)
    rebuild.verify(findings)      # LogDamagedError, and nothing has been changed
    rebuild.run()
    """

    def __init__(
        self,
        store: StoreDirectory,
        part: Part,
        delays: DelayLevels,
        clock_ms: Callable[[], int],
        progress: Progress | None = None,
    ) -> None:
        assert store.state is not State.OPEN, "the caller holds the lock"
        self._store = store
        self._part = part
        self._delays = delays
        self._clock_ms = clock_ms
        self.progress = progress
        self._known_topics = store.known_topics()
        self._next_offsets: dict[tuple[str, int], int] = {}
        self._end = store.log.min_offset
        self._done = Rebuilt()
        self._has_tags = False
        """Whether the index has the tags of messages, as Java 5.5 makes it."""

    # --- first look, then change --------------------------------------------------------------

    def verify(self, findings: Findings) -> None:
        """Read the log; LogDamagedError or CannotRebuildError if it cannot give it all back."""
        self._check_kinds()
        self._store.log.check_files(findings)
        walk = LogWalk(self._store.log, findings)
        last_time_ms = 0
        for place, record in self._records(walk):
            last_time_ms = record.store_time_ms
            trouble = place.trouble
            if trouble is None and has_bad_crc_property(place.view, place.at, place.size):
                trouble = "it does not match its CRC property"
            if trouble is None and expect(record).takes_place:
                trouble = self._follow(record)
            if trouble is not None:
                findings.damage("record", place.segment.path, place.file_offset, trouble)
        if walk.torn_bytes and self._store.state is State.CLEAN:
            findings.damage(
                "record", self._store.log.directory, walk.end,
                f"{walk.torn_why}; {walk.torn_bytes} bytes behind the last record, though the last"
                " stop was clean",
            )  # fmt: skip
        known_ms = self._store.checkpoint.physic_timestamp
        if known_ms > last_time_ms:
            findings.damage(
                "checkpoint", self._store.checkpoint_path, 0,
                f"it knows of messages stored at {known_ms}, the newest in the log was stored at"
                f" {last_time_ms}",
            )  # fmt: skip
        if not findings.is_clean:
            raise LogDamagedError(
                f"the log of {self._store.root} is damaged in {findings.damages.total()} places;"
                " nothing was changed: put its files back from a replica or a backup first"
            )
        self._end = walk.end
        self._has_tags = self._part is not Part.QUEUES and has_tags(self._store)
        self._done.torn_bytes = walk.torn_bytes

    def _check_kinds(self) -> None:
        index = self._store.index
        if self._part is not Part.QUEUES and index.paths and index.layout is None:
            raise CannotRebuildError(
                f"how many slots and entries the files in {index.directory} have cannot be told;"
                " give --index-slots and --index-entries, or use --only queues"
            )
        if self._part is Part.INDEX:
            return
        others = [name for name in unchecked(self._store) if "consumequeue" in name]
        others += [topic for topic in self._store.queues.topics if is_lmq(topic)][:1]
        if others:
            raise CannotRebuildError(
                f"the queues of {self._store.root} cannot be rebuilt here: it has {others[0]},"
                " which only Java's broker makes; use --only index"
            )

    def _follow(self, record: Record) -> str | None:
        """What is wrong with the place that a record has in its queue."""
        key = (record.topic, record.queue_id)
        expected = self._next_offsets.get(key)
        if expected is None:
            try:
                path_component(record.topic)
            except IllegalNameError as error:
                return str(error)
        elif record.queue_offset > expected:
            return (
                f"it has offset {record.queue_offset} of {record.topic} queue {record.queue_id},"
                f" which continues with {expected}"
            )
        if expected is None or record.queue_offset in (0, expected):
            self._next_offsets[key] = record.queue_offset + 1
        return None

    def run(self) -> Rebuilt:
        """Change the store."""
        store, files = self._store, self._store.files
        abort = AbortMark(files, store.abort_path)
        was_clean = store.state is State.CLEAN
        old = store.checkpoint
        if was_clean:
            abort.set(os.getpid())
        forgetful = Checkpoint(
            physic_timestamp=old.physic_timestamp,
            master_flushed_offset=old.master_flushed_offset,
            confirm_offset=old.confirm_offset,
        )
        save_checkpoint(files, store.checkpoint_path, forgetful)
        queues = None if self._part is Part.INDEX else self._empty_queues()
        index = None if self._part is Part.QUEUES else self._empty_index()
        index_timestamp = old.index_timestamp
        try:
            self._dispatch_all(queues, index)
            if queues is not None:
                queues.flush()
                queues.sync()
                self._done.queues = len(self._next_offsets) - len(self._deleted_queues())
            if index is not None:
                index_timestamp = index.sync()
                self._done.index_files = len(index.file_names)
        finally:
            if index is not None:
                index.close()
        forgetful.logics_timestamp = old.logics_timestamp
        forgetful.logics_physical_offset = old.logics_physical_offset
        forgetful.index_timestamp = index_timestamp
        save_checkpoint(files, store.checkpoint_path, forgetful)
        if was_clean:
            abort.clear()
        self._done.log_bytes = self._end - store.log.min_offset
        return self._done

    # --- the old files ------------------------------------------------------------------------

    def _empty_queues(self) -> Queues:
        """Remove the queues that the log has messages of; take those back that lead nowhere."""
        store, files = self._store, self._store.files
        store.queues.close()
        directory = store.queues.directory
        for topic, queue_id in self._next_offsets:
            files.remove_tree(directory / path_component(topic) / str(queue_id))
        for topic in store.queues.topics:
            files.sync_directory(directory / topic)
        queues = Queues(files, directory, store.queues.file_bytes)
        queues.load(store.log.min_offset, is_after_crash=True)
        self._done.queues_kept = sum(1 for _ in queues)
        queues.truncate(store.log.min_offset)
        return queues

    def _empty_index(self) -> Index:
        store, files = self._store, self._store.files
        for path in store.index.paths:
            files.remove(path)
        if store.index.paths:
            files.sync_directory(store.index.directory)
        layout = store.index.layout
        slots, entries = layout if layout is not None else (SLOTS, ENTRIES)
        directory = store.index.directory
        return Index(files, directory, self._clock_ms, local_zone(), slots, entries)

    # --- the new ones -------------------------------------------------------------------------

    def _dispatch_all(self, queues: Queues | None, index: Index | None) -> None:
        dispatcher = (
            None if queues is None else Dispatcher(queues, None, None, self._delays.delay_ms)
        )
        walk = LogWalk(self._store.log, Findings(), check_crc=False)
        deleted, has_tags = self._deleted_queues(), self._has_tags
        for _, record in self._records(walk):
            expected = expect(record)
            if index is not None:
                tag_keys = [expected.tag_key] if has_tags and expected.tag_key else []
                for key in (*expected.keys, *tag_keys):
                    log_offset, time_ms = record.log_offset, record.store_time_ms
                    index.put(record.topic, key, None, log_offset, time_ms)
                    self._done.entries += 1
            if (record.topic, record.queue_id) in deleted:
                self._done.left_out += 1
            elif dispatcher is not None and queues is not None and expected.takes_place:
                self._dispatch(dispatcher, queues, record)
            self._done.messages += 1

    def _dispatch(self, dispatcher: Dispatcher, queues: Queues, record: Record) -> None:
        stored = Stored(
            record.topic, record.queue_id, record.queue_offset, record.log_offset, record.size,
            record.sys_flag, record.store_time_ms, record.properties_raw,
        )  # fmt: skip
        try:
            dispatcher.dispatch(stored)
        except QueueMismatchError:
            if record.queue_offset:
                self._done.misplaced += 1  # its number was given already; Java leaves it out, too
                return
            # The topic was deleted and made again: what the queue had until now is not its own.
            queues.get_or_create(record.topic, record.queue_id).clear()
            dispatcher.dispatch(stored)

    def _deleted_queues(self) -> set[tuple[str, int]]:
        """Queues of topics that neither topics.json nor a directory knows: they were deleted."""
        known = self._known_topics
        if known is None:
            return set()
        there = known | set(self._store.queues.topics)
        return {key for key in self._next_offsets if key[0] not in there}

    def _records(self, walk: LogWalk) -> Iterator[tuple[Place, Record]]:
        log = self._store.log
        total = log.max_offset - log.min_offset
        for number, place in enumerate(walk):
            if self.progress is not None and not number % _PROGRESS_RECORDS:
                self.progress(place.log_offset - log.min_offset, total)
            yield place, decode_record(place.view, place.at, read_body=False)
        if self.progress is not None:
            self.progress(total, total)
