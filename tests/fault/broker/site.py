"""A broker that is killed and started again: one store and one port through many lives."""

import asyncio
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from interop.peer.ports import lease_ports
from interop.peer.servers import BROKER_PORTS
from servers import ServerProcess, StartingServer, broker_settings, spawn

STOP_S: Final = 10.0
"""What a broker may take to stop when it is asked to."""

SMALL: Final = {
    "bindAddress": "127.0.0.1",
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "2000",
    "maxHashSlotNum": "500",
    "maxIndexNum": "5000",
    "flushIntervalCommitLog": "20",
}
"""Files so small that a life crosses the ends of several of each kind."""

LARGE: Final = {
    **SMALL,
    "mappedFileSizeCommitLog": "16777216",
    "mappedFileSizeConsumeQueue": "600000",
    "maxHashSlotNum": "50000",
    "maxIndexNum": "400000",
}
"""For tests that are about other things."""


class Site:
    """Where a broker lives. ``program`` stands in for ours: it is ours with a bug planted.

    with Site(tmp_path, SMALL) as site:
        server = site.start()
        site.kill()                # it was the kill that ended it, or AssertionError
        server = site.start()
        site.stop()                # by SIGTERM; the same for status 0

    What still runs at the end of the block is killed.
    """

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, str] | None = None,
        *,
        name_servers: Sequence[str] = (),
        program: Sequence[str] = ("roketto",),
    ) -> None:
        self.folder = folder
        self.config = dict(config or LARGE)
        self.root = Path(self.config.get("storePathRootDir", folder / "store"))
        self.program = program
        self.kills = 0
        self.stops = 0
        self.starts_s: list[float] = []
        """What each start took, until the banner."""
        self._arguments = ["-n", ";".join(name_servers)] if name_servers else []
        self._lease = lease_ports(BROKER_PORTS)
        self._running: StartingServer | None = None

    @property
    def port(self) -> int:
        return self._lease.first

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """All that its processes have said on standard error."""
        return (self.folder / f"broker-{self.port}.log").read_text()

    def spawn(self) -> StartingServer:
        """Begin a life, and do not wait until it serves."""
        assert self._running is None, "it has not ended"
        settings = broker_settings(self.folder, self.port, self.config)
        started = spawn(self.folder, "broker", self._arguments, settings, self.program)
        self._running = started
        return started

    def start(self) -> ServerProcess:
        server = self.spawn().wait()
        self.starts_s.append(server.start_s)
        return server

    def kill(self) -> None:
        """kill -9; AssertionError if it was not that which ended the process."""
        ended = self._end(signal.SIGKILL)
        assert ended == -signal.SIGKILL, f"it was not the kill that ended it: {ended}\n{self.log}"
        self.kills += 1

    def stop(self) -> None:
        """SIGTERM; AssertionError if that did not end it, in time and without a complaint."""
        ended = self._end(signal.SIGTERM)
        assert ended == 0, f"it did not stop cleanly: {ended}\n{self.log[-3000:]}"
        self.stops += 1

    async def stop_meanwhile(self) -> None:
        """The same, while whatever else this loop does goes on."""
        assert self._running is not None, "nothing runs"
        popen = self._running.popen
        popen.terminate()
        async with asyncio.timeout(STOP_S):
            while popen.poll() is None:  # noqa: ASYNC110 (another process ends)
                await asyncio.sleep(0.01)
        self.stop()

    def _end(self, number: signal.Signals) -> int:
        assert self._running is not None, "nothing runs"
        running = self._running
        running.popen.send_signal(number)
        ended = running.popen.wait(STOP_S)
        self._running = None
        running.close()
        return ended

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._running is not None:
            self._end(signal.SIGKILL)
        self._lease.release()
