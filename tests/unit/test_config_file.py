"""A change of a configuration is checked, then in the file, then in force; all of it or nothing."""

import asyncio
import gc
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from roketto.config_file import ConfigFile
from roketto.options import CHANGEABLE, FIXED, Config, Value
from roketto.protocol.errors import BodyError, RequestError
from roketto.protocol.limits import CONFIG_UPDATE_BYTES_MAX
from roketto.protocol.properties_text import parse_properties


@dataclass(slots=True)
class EchoConfig(Config):
    program = "echo"
    loud: Annotated[bool, CHANGEABLE] = False
    times: Annotated[int, CHANGEABLE] = 1
    listen_port: Annotated[int, FIXED] = 7


class Rig:
    """A configuration with its file, and what was said to have changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = EchoConfig()
        self.now_ms = 1_000
        self.file = ConfigFile(
            self.config, lambda: self.path, {"listenPort": "8"}, lambda: self.now_ms
        )
        self.applied: list[dict[str, Value]] = []

    def apply(self, changed: Mapping[str, Value]) -> None:
        assert self.path.exists(), "in force before it is in the file"
        assert all(getattr(self.config, name) == value for name, value in changed.items())
        self.applied.append(dict(changed))

    async def update(self, text: bytes) -> dict[str, str]:
        return await self.file.update(text, self.apply)

    def kept(self) -> dict[str, str]:
        return parse_properties(self.path.read_text())


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "deep" / "echo.properties")


async def test_a_change_is_kept_beside_what_the_file_had(rig: Rig) -> None:
    """And is told once, with the version that it makes."""
    assert await rig.update(b"loud=true\ntimes=3\n") == {"loud": "true", "times": "3"}
    assert rig.kept() == {"listenPort": "8", "loud": "true", "times": "3"}
    assert rig.applied == [{"loud": True, "times": 3}]
    rig.now_ms = 2_000
    await rig.update(b"times=4")
    assert rig.kept() == {"listenPort": "8", "loud": "true", "times": "4"}
    version = rig.file.version
    assert (version.counter, version.timestamp) == (2, 2_000)


@pytest.mark.parametrize(
    "text",
    [
        b"loud=true\nlistenPort=9",
        b"loud=true\ntimes=-1",
        b"loud=true\nlouder=true",
        b"loud=true\ntimes=\\u00",
        b"loud=true\n" + b"#" * CONFIG_UPDATE_BYTES_MAX,
    ],
)
async def test_what_is_refused_changes_nothing(rig: Rig, text: bytes) -> None:
    """A key that may not change, a value out of range, a key that is none, no properties."""
    with pytest.raises((RequestError, BodyError)):
        await rig.update(text)
    assert not rig.path.exists()
    assert (rig.config.loud, rig.applied, rig.file.version.counter) == (False, [], 0)


async def test_a_file_that_cannot_be_written_is_a_refusal(rig: Rig) -> None:
    """What would be gone after a restart is not in force before it either."""
    rig.path = rig.path.parent
    rig.path.mkdir()
    with pytest.raises(RequestError, match="cannot be written"):
        await rig.update(b"loud=true")
    assert (rig.config.loud, rig.applied) == (False, [])


async def test_changes_at_the_same_time_are_all_kept(rig: Rig) -> None:
    """One after the other: none is written over by the file of another."""
    await asyncio.gather(rig.update(b"loud=true"), rig.update(b"times=3"))
    assert rig.kept() == {"listenPort": "8", "loud": "true", "times": "3"}


async def test_a_change_is_refused_in_silence_when_who_asked_has_gone(rig: Rig) -> None:
    """Seen with damaged frames: their connection was closed before the change was looked at."""
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
    other = asyncio.create_task(rig.update(b"loud=true"))
    asking = asyncio.create_task(rig.update(b"lodu=true"))  # it waits for the other one
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await other
    await rig.update(b"times=3")
    gc.collect()
    assert (rig.applied, complaints) == ([{"loud": True}, {"times": 3}], [])


async def test_a_change_goes_on_when_who_asked_has_gone(rig: Rig) -> None:
    """Memory and file must not part."""
    asking = asyncio.create_task(rig.update(b"times=3"))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await rig.update(b"loud=true")
    assert rig.kept() == {"listenPort": "8", "loud": "true", "times": "3"}
    assert rig.applied == [{"times": 3}, {"loud": True}]
