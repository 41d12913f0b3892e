"""A store in a process of its own, which does what it is asked to, one thing after the other.

The benchmark itself only asks and waits. So every store has a process with nothing else in it, as a
broker's has: two of them can take turns, one can be killed, one can run a compiled build, and the
memory that is measured is the store's. What is asked for is a function of one of these modules and
its arguments, pickled; the answer comes back in the same way.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, NamedTuple, ParamSpec, Self, TypeVar

from roketto.clock import wall_ms
from roketto.store.store import Store, StoreSettings

_P = ParamSpec("_P")
_T = TypeVar("_T")

_END_TIMEOUT_S = 60
_EPOCH_MS = wall_ms()
"""All processes of one run must have the same clock, however fast it runs."""


class WorkError(Exception):
    """What was asked for has failed in the process of the store; the text says where."""


class Opened(NamedTuple):
    """How opening a store went."""

    seconds: float
    records: int
    read_bytes: int
    """How much of the log was read."""
    cut_bytes: int
    disk_bytes: int
    """How much came from the disk and not from the system's cache; -1 if nobody knows."""


class Memory(NamedTuple):
    """Resident megabytes of a process: its own, and those of files that it has mapped."""

    own_mb: float
    files_mb: float


class OpenFiles(NamedTuple):
    """How many descriptors and maps a process has, those of the interpreter included."""

    descriptors: int
    maps: int


class Host:
    """What the functions that run in the process of the store get as their first argument."""

    def __init__(self, root: Path, settings: StoreSettings, second_s: float, epoch_ms: int) -> None:
        self.root = root
        self.settings = settings
        self.second_s = second_s
        self._epoch_ms = epoch_ms
        self.kept: dict[object, Any] = {}
        """For the functions: what one of them leaves to the next."""
        self._due_s = 0.0
        self.turn_longest_s = 0.0
        self.turns_s = 0.0
        self.flushes = 0
        self.flushed = threading.Event()
        clock_ms = wall_ms if second_s == 1 else self.now_ms
        self.store = Store(root, settings, clock_ms=clock_ms, on_flushed=self._on_flushed)

    def now_ms(self) -> int:
        """The store's clock. For a quick look it runs faster, and with it what is done by time."""
        return self._epoch_ms + round((wall_ms() - self._epoch_ms) / self.second_s)

    def turn(self, *, is_first: bool = False) -> None:
        """Let the store have its tick if it is due: to be called between other work, as on a loop.

        That is a second after the last one has ended, or now if the last one had more to do.
        """
        now_s = time.perf_counter()
        if is_first:
            self._due_s = now_s + self.second_s
        if now_s < self._due_s:
            return
        has_more = self.store.tick()
        ended_s = time.perf_counter()
        self._due_s = ended_s if has_more else ended_s + self.second_s
        self.turn_longest_s = max(self.turn_longest_s, ended_s - now_s)
        self.turns_s += ended_s - now_s

    def _on_flushed(self, offset: int) -> None:
        self.flushes += 1
        self.flushed.set()


def open_store(host: Host) -> Opened:
    """Open the store and say how that went."""
    before = disk_bytes(host)
    started_s = time.perf_counter()
    recovered = host.store.open(os.getpid())
    taken_s = time.perf_counter() - started_s
    from_disk = -1 if before < 0 else disk_bytes(host) - before
    log_bytes = recovered.end - recovered.read_from
    return Opened(taken_s, recovered.records, log_bytes, recovered.cut_bytes, from_disk)


def close_store(host: Host) -> float:
    """Stop cleanly; the seconds that took."""
    started_s = time.perf_counter()
    host.store.close()
    return time.perf_counter() - started_s


def store_file(host: Host) -> str:
    """Which file the code of the store came from."""
    return sys.modules[Store.__module__].__file__ or ""


def memory(host: Host) -> Memory | None:
    """What this process has in memory now; None where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except FileNotFoundError:
        return None
    sizes = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Rss")}
    files_kb = int(sizes["RssFile"]) + int(sizes["RssShmem"])
    return Memory(int(sizes["RssAnon"]) / 1024, files_kb / 1024)


def open_files(host: Host) -> OpenFiles | None:
    """What this process has open and mapped now; None where the system does not say."""
    try:
        descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count is all
        maps = Path("/proc/self/maps").read_text().count("\n")
    except FileNotFoundError:
        return None
    return OpenFiles(descriptors, maps)


def disk_bytes(host: Host) -> int:
    """What this process has read from the disk, not from the system's cache; -1 if nobody knows."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return -1
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


class StoreProcess:
    """The process, seen from the benchmark.

    with StoreProcess(root, StoreSettings()) as process:
        process.call(open_store)
        rate = process.call(append_rate, SMALL, 3)

    At its end the process is killed, and the store with it: whoever wants it closed says so.
    """

    def __init__(
        self,
        root: Path,
        settings: StoreSettings,
        second_s: float = 1.0,
        packages: Path | None = None,
    ) -> None:
        """``second_s`` is how long a second of the store lasts; ``packages`` is where roketto comes
        from, if not from where we have it."""
        environment = dict(os.environ)
        if packages is not None:
            environment["PYTHONPATH"] = str(packages)
        self._popen = subprocess.Popen(
            [sys.executable, __file__], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._has_ended = False
        # Plain values: a compiled class does not take the pickled state of a plain one.
        values = {name: value for name in _names(settings)
                  if isinstance(value := getattr(settings, name), int)}  # fmt: skip
        self._send((root, values, second_s, _EPOCH_MS))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.kill()

    def call(
        self, work: Callable[Concatenate[Host, _P], _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Let it do ``work`` and wait for the result."""
        self.start(work, *args, **kwargs)
        return self.result(work)

    def start(
        self, work: Callable[Concatenate[Host, _P], object], *args: _P.args, **kwargs: _P.kwargs
    ) -> None:
        """Let it do ``work`` and do not wait."""
        self._send((work, args, kwargs))

    def result(self, work: Callable[Concatenate[Host, _P], _T]) -> _T:
        """What the work that was started has come to."""
        assert self._popen.stdout is not None
        try:
            failed, result = pickle.load(self._popen.stdout)
        except EOFError:
            code = self._end()
            raise WorkError(f"the process of the store has ended by itself: {code}") from None
        if failed:
            raise WorkError(f"{getattr(work, '__name__', work)} failed:\n{result}")
        value: _T = result
        return value

    def kill(self) -> None:
        """kill -9; make sure that this is what ended it."""
        if self._has_ended:
            return
        self._popen.kill()
        code = self._end()
        assert code == -signal.SIGKILL, f"it was not the kill that ended it, but {code}"

    def _end(self) -> int:
        self._has_ended = True
        code = self._popen.wait(_END_TIMEOUT_S)
        for pipe in (self._popen.stdin, self._popen.stdout):
            assert pipe is not None
            pipe.close()
        return code

    def _send(self, what: object) -> None:
        assert self._popen.stdin is not None
        pickle.dump(what, self._popen.stdin)
        self._popen.stdin.flush()


def _names(settings: StoreSettings) -> list[str]:
    return [field.name for field in fields(settings)]


def serve() -> None:
    """The process of the store: do what comes in, until nothing does."""
    root, values, second_s, epoch_ms = pickle.load(sys.stdin.buffer)
    host = Host(root, StoreSettings(**values), second_s, epoch_ms)
    answers = sys.stdout.buffer
    while True:
        try:
            work, args, kwargs = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = (False, work(host, *args, **kwargs))
        except Exception:  # noqa: BLE001 - whatever it is, the benchmark shall tell it
            answer = (True, traceback.format_exc())
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    # Functions are found by the name of their module, which here is not __main__.
    from store_process import serve as serve_by_name

    serve_by_name()
