"""Compare the queues with the log: each message in its place, and no unit without a message.

Messages of one queue lie in the log in the order of the queue. So what must be remembered of a
queue while the log is read is which offset comes next there, and the run of units that are wrong in
the same way: some 300 bytes a queue, however many messages it has.
"""

from pathlib import Path
from typing import Final

from roketto.store.unit import Unit
from roketto.storetool.directory import State, StoreDirectory
from roketto.storetool.facts import EXT_ADDRESS_MAX
from roketto.storetool.findings import Finding, Findings
from roketto.storetool.queue_files import NO_UNIT, QueueFiles

_KIND: Final = "queue"
_RUNS_KEPT_MAX: Final = 16
"""Runs of one queue that wait to be told; a broken queue has one or two."""


class _Run:
    """Neighbouring units of one queue with the same thing wrong."""

    __slots__ = ("count", "first", "log_offset", "text", "what")

    def __init__(self, what: str, first: int, log_offset: int, text: str) -> None:
        self.what = what
        self.first = first
        self.log_offset = log_offset
        self.text = text
        self.count = 1


class _Progress:
    """How far one queue is."""

    __slots__ = ("files", "first", "next", "runs")

    def __init__(self, files: QueueFiles | None) -> None:
        self.files = files
        self.first: int | None = None
        self.next = 0
        self.runs: list[_Run] = []
        """What is wrong since the last unit that was right; all void if the queue begins anew."""


class QueueCheck:
    """Sees each message of the log, in order, and then the units that no message has asked for."""

    def __init__(self, store: StoreDirectory, findings: Findings, trusted_until: int) -> None:
        """Up to ``trusted_until`` in the log, the queues must be whole even after a crash."""
        self._store = store
        self._findings = findings
        self._trusted_until = trusted_until
        self._known_topics = store.known_topics()
        self._progress: dict[tuple[str, int], _Progress] = {}
        self._made_anew: dict[str, int] = {}
        """Topics that were deleted and made again, and where in the log that was seen last."""
        self.units = 0
        """How many units were right."""

    def check_files(self) -> None:
        """Say which files are no files of a queue."""
        for queue in self._store.queues:
            for path, text in queue.odd:
                self._findings.damage("file", path, 0, text)

    # --- one message --------------------------------------------------------------------------

    def see(
        self, topic: str, queue_id: int, queue_offset: int, log_offset: int, size: int,
        tags_code: int | None,
    ) -> None:  # fmt: skip
        """Compare the unit of a message with it."""
        progress = self._progress.get((topic, queue_id))
        if progress is None:
            files = self._store.queues.get(topic, queue_id)
            progress = self._progress[topic, queue_id] = _Progress(files)
        files = progress.files
        unit = NO_UNIT if files is None else files.unit(queue_offset)
        wrong = _compare(unit, log_offset, size, tags_code)
        is_next = queue_offset == progress.next and progress.first is not None
        if not is_next and not self._jump(progress, topic, queue_id, queue_offset, log_offset):
            return
        progress.next = queue_offset + 1
        runs = progress.runs
        if wrong is None:
            self.units += 1
            if runs:
                self._tell(progress, topic, queue_id, len(runs), is_tail=False)
            return
        what, text = wrong
        if runs and runs[-1].what == what and runs[-1].first + runs[-1].count == queue_offset:
            runs[-1].count += 1
            return
        if len(runs) >= _RUNS_KEPT_MAX:
            self._tell(progress, topic, queue_id, 1, is_tail=False)
        runs.append(_Run(what, queue_offset, log_offset, text))

    def _jump(
        self, progress: _Progress, topic: str, queue_id: int, queue_offset: int, log_offset: int
    ) -> bool:
        """Note that an offset is not the next one; False if the message counts for nothing.

        A queue that counts from 0 again belongs to a topic that was deleted and made anew, perhaps
        more than once. If it was not, its units lead to the messages of before, and are found out.
        """
        if progress.first is None:
            progress.first = queue_offset
        elif queue_offset > progress.next:
            self._lacking(progress, topic, queue_id, queue_offset, log_offset)
        elif queue_offset == 0:
            self._begun_anew(progress, topic, queue_id, log_offset)
            progress.first = 0
        else:
            path, at = self._store.log.place(log_offset)
            self._findings.damage(
                "record", path, at,
                f"a second message with offset {queue_offset} of {topic} queue {queue_id}, which"
                f" continues with {progress.next}",
            )  # fmt: skip
            return False
        return True

    def _lacking(
        self, progress: _Progress, topic: str, queue_id: int, queue_offset: int, log_offset: int
    ) -> None:
        path, at = self._store.log.place(log_offset)
        self._findings.damage(
            "record", path, at,
            f"the log has no message with {_offsets(progress.next, queue_offset - progress.next)}"
            f" of {topic} queue {queue_id} before this one with offset {queue_offset}",
        )  # fmt: skip

    def _begun_anew(self, progress: _Progress, topic: str, queue_id: int, log_offset: int) -> None:
        count = sum(run.count for run in progress.runs)
        progress.runs.clear()
        self._made_anew[topic] = log_offset
        path, at = self._store.log.place(log_offset)
        self._findings.note(
            _KIND, path, at,
            f"{topic} queue {queue_id} begins anew here: the topic was deleted and made again;"
            f" {count} messages before have no place in it",
        )  # fmt: skip

    def _tell(
        self, progress: _Progress, topic: str, queue_id: int, count: int, *, is_tail: bool
    ) -> None:
        """Tell of the first so many runs."""
        for run in progress.runs[:count]:
            which = f"{_offsets(run.first, run.count)} of {topic} queue {queue_id}"
            path, at = self._place(progress.files, topic, queue_id, run.first)
            if progress.files is None and self._is_deleted(topic, run.log_offset):
                text = f"{which} without a queue: the topic was deleted after it"
                self._findings.note(_KIND, path, at, text)
                continue
            excuse = self._store.excuse(run.log_offset, self._trusted_until, is_tail=is_tail)
            text = f"{which} {run.text}" + (f"; {excuse}" if excuse else "")
            self._findings.add(Finding(_KIND, path, at, text, is_damage=not excuse))
        del progress.runs[:count]

    # --- what no message has asked for --------------------------------------------------------

    def finish(self, log_end: int) -> None:
        """Look at the units that were not compared; the records end at ``log_end``."""
        for (topic, queue_id), progress in sorted(self._progress.items()):
            self._tell(progress, topic, queue_id, len(progress.runs), is_tail=True)
        for queue in self._store.queues:
            seen = self._progress.get((queue.topic, queue.queue_id))
            if seen is None or seen.first is None:
                self._look_for_strangers(queue, 0, None, log_end)
            else:
                self._look_for_strangers(queue, 0, seen.first, log_end)
                self._look_for_strangers(queue, seen.next, None, log_end)

    def _look_for_strangers(
        self, queue: QueueFiles, first: int, end: int | None, log_end: int
    ) -> None:
        run: _Run | None = None
        for queue_offset, unit in queue.units(first, end):
            wrong = self._stranger(unit, log_end)
            if wrong is None:
                continue
            what, text = wrong
            if run is not None and run.what == what and run.first + run.count == queue_offset:
                run.count += 1
                continue
            self._tell_strangers(queue, run)
            run = _Run(what, queue_offset, unit.log_offset, text)
        self._tell_strangers(queue, run)

    def _stranger(self, unit: Unit, log_end: int) -> tuple[str, str] | None:
        """What a unit without a message is: None for one whose message was deleted by age."""
        log_offset, size, _ = unit
        if log_offset >= log_end and self._store.state is State.OPEN:
            return None  # it came while the log was read
        if size > 0 and 0 <= log_offset < self._store.log.min_offset:
            return None
        if log_offset >= log_end:
            return "beyond", f"leads to log offset {log_offset}, behind the end at {log_end}"
        return "stranger", (
            f"leads to {size} bytes at log offset {log_offset}, where no message of this queue"
            " with this offset begins"
        )

    def _tell_strangers(self, queue: QueueFiles, run: _Run | None) -> None:
        if run is None:
            return
        path, at = queue.place(run.first)
        excuse = self._store.excuse(run.log_offset, self._trusted_until, is_tail=False)
        text = (
            f"{_offsets(run.first, run.count)} of {queue.topic} queue {queue.queue_id} {run.text}"
        )
        if excuse:
            text += f"; {excuse}"
        self._findings.add(Finding(_KIND, path, at, text, is_damage=not excuse))

    # --- places -------------------------------------------------------------------------------

    def _is_deleted(self, topic: str, log_offset: int) -> bool:
        """Whether a topic was deleted on purpose after a message.

        Then no table of topics and no directory has it, or another of its queues begins anew behind
        the message.
        """
        if log_offset < self._made_anew.get(topic, -1):
            return True
        known = self._known_topics
        return known is not None and topic not in known and topic not in self._store.queues.topics

    def _place(
        self, files: QueueFiles | None, topic: str, queue_id: int, queue_offset: int
    ) -> tuple[Path, int]:
        if files is not None:
            return files.place(queue_offset)
        return self._store.queues.directory / topic / str(queue_id), 0


def _compare(
    unit: Unit, log_offset: int, size: int, tags_code: int | None
) -> tuple[str, str] | None:
    """What is wrong with a unit, as a word and as a text; None if it is right."""
    found_log_offset, found_size, found_code = unit
    if found_log_offset == log_offset and found_size == size:
        if tags_code is None or found_code == tags_code or found_code <= EXT_ADDRESS_MAX:
            return None
        return "tag", f"has the tags code {found_code}, the message's is {tags_code}"
    if unit == NO_UNIT:
        return "missing", f"is missing; its message is at log offset {log_offset}"
    return "elsewhere", (
        f"leads to {found_size} bytes at log offset {found_log_offset}; its message has {size} at"
        f" {log_offset}"
    )


def _offsets(first: int, count: int) -> str:
    return f"offset {first}" if count == 1 else f"offsets {first} to {first + count - 1}"
