"""What every test gets: asyncio in debug mode, and a failure for whatever it leaves behind."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from roketto.remoting.loop import loop_factory


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("PYTHONASYNCIODEBUG", "1")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests run on the loop that servers run on; those of the transport on both."""
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {}
    fastest = loop_factory()
    if fastest is not None:
        factories["uvloop"] = fastest
    if fastest is None or "remoting" in item.nodeid:
        factories["asyncio"] = asyncio.new_event_loop
    return factories


def _open_files() -> dict[str, str]:
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        return {}
    found = {}
    for entry in descriptors.iterdir():
        try:
            found[entry.name] = str(entry.readlink())
        except OSError:
            continue
    return found


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Fail a test that leaves threads or sockets behind."""
    threads = set(threading.enumerate())
    files = _open_files()
    yield
    left = [
        f"{descriptor} -> {target}"
        for descriptor, target in _open_files().items()
        if files.get(descriptor) != target and target.startswith("socket:")
    ]
    assert not left, f"descriptors left open: {left}"
    started = [
        thread.name
        for thread in threading.enumerate()
        if thread not in threads and not thread.daemon
    ]
    assert not started, f"threads left running: {started}"
