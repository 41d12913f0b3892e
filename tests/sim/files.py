"""Files over a disk in memory, to be crashed at any moment and to fail at any call.

    files = CrashFiles()
    files.fail_call(12, OSError(errno.EIO, "planted"))      # or PowerLoss(), or Short(3)
    with suppress(PowerLoss):
        workload(files)
    after = files.crash(seed)
    assert after.loss.total                                 # the fault did something
    reopen(after)

Run a workload once without faults and look at ``calls`` for the numbers worth failing.
"""

from pathlib import Path
from typing import Final

from roketto.store.disk import Usage
from roketto.store.files import DESCRIPTORS_MAX, Files
from roketto.store.worker import Worker
from sim.disk import Call, CrashDisk, Loss, PowerLoss, Short
from sim.worker import InlineWorker

__all__ = ["SYNCS", "Call", "CrashFiles", "Loss", "PowerLoss", "Short"]

SYNCS: Final = frozenset({"sync", "sync_mapped", "sync_names", "sync_file_system"})
"""The calls after which something is durable."""


class CrashFiles(Files):
    """A drop-in for Files. All paths are absolute; only the root directory is there at first."""

    def __init__(
        self, disk: CrashDisk | None = None, *, descriptors_max: int = DESCRIPTORS_MAX
    ) -> None:
        self._crash_disk = disk or CrashDisk()
        super().__init__(descriptors_max, self._crash_disk)

    def make_worker(self) -> Worker:
        """One that does each job at once: the same calls in the same order every time."""
        return InlineWorker()

    @property
    def calls(self) -> list[Call]:
        """All system calls so far; number n is ``calls[n - 1]``."""
        return self._crash_disk.calls

    @property
    def hits(self) -> list[Call]:
        """The calls that a fault has hit."""
        return self._crash_disk.hits

    @property
    def descriptors_open(self) -> int:
        """How many files are open, for the sake of leaks."""
        return self._crash_disk.descriptors_open

    @property
    def loss(self) -> Loss:
        """What the crash that led here has discarded."""
        return self._crash_disk.loss

    @property
    def sync_numbers(self) -> list[int]:
        """The numbers of all calls that made something durable."""
        return [n for n, call in enumerate(self.calls, 1) if call.name in SYNCS]

    def set_usage(self, total: int, free: int) -> None:
        """How full the disk says that it is; writing does not change it."""
        self._crash_disk.usage_now = Usage(total, free)

    def set_modified(self, path: Path, modified_ms: int) -> None:
        """Say when a file was last written to; else no file is old."""
        self._crash_disk.set_modified(path, modified_ms)

    def fail_call(self, number: int, fault: BaseException | Short) -> None:
        """Make call ``number`` raise ``fault``, or write too little.

        PowerLoss makes every later call raise, too. A Short hits only writes: look at ``hits``.
        """
        self._crash_disk.fail_call(number, fault)

    def crash(self, seed: int, *, keep: float = 0.5, garble: float = 0.0) -> "CrashFiles":
        """The files as they could be found after power loss now; these stay as they are.

        Each unsynced sector, length and name is kept with probability ``keep``; a sector that is
        not is garbled with probability ``garble``. The same seed finds the same.
        """
        return CrashFiles(self._crash_disk.crash(seed, keep=keep, garble=garble))

    def damage(self, path: Path, offset: int, data: bytes) -> None:
        """Change bytes on the disk behind everybody's back, durably."""
        self.write_at(path, offset, data)
        self.sync(path)
