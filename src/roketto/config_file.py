"""Changes of a configuration while its server runs: checked, kept in a file, then in force."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from roketto.clock import wall_ms
from roketto.errand import run_errand
from roketto.options import Config, Value
from roketto.protocol.bodies.topics import DataVersion
from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import RequestError
from roketto.protocol.limits import CONFIG_UPDATE_BYTES_MAX
from roketto.protocol.properties_text import format_properties, parse_properties
from roketto.safe_file import replace_file

__all__ = ["ConfigFile"]

Changed: TypeAlias = Mapping[str, Value]
"""The new values by the names of their fields."""


class ConfigFile:
    """The file behind the configuration of one server, and the only way to change both.

    file = ConfigFile(config, lambda: config.config_store_path, config.given)
    await file.update(request.body, apply)     # RequestError, BodyError: nothing has changed

    ``stored`` are the properties that the file has. ``apply`` is called with what has changed when
    it is in the file and in the configuration, also if whoever asked for it is gone by then.
    """

    def __init__(
        self,
        config: Config,
        path: Callable[[], Path],
        stored: Mapping[str, str],
        clock_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._config = config
        self._path = path
        self._stored = dict(stored)
        self._clock_ms = clock_ms
        self._updating = asyncio.Lock()
        self.version = DataVersion(timestamp=clock_ms())
        """Of the configuration since the server has started; each change is a new one."""

    async def update(
        self, body: bytes | memoryview, apply: Callable[[Changed], None]
    ) -> dict[str, str]:
        """Change what a text of properties says, all of it or nothing; return the properties."""
        if len(body) > CONFIG_UPDATE_BYTES_MAX:
            reason = f"{len(body)} bytes of properties; {CONFIG_UPDATE_BYTES_MAX} are taken"
            raise RequestError(ResponseCode.SYSTEM_ERROR, reason)
        properties = parse_properties(str(body, "latin-1"))
        await run_errand(self._update(properties, apply))
        return properties

    async def _update(self, properties: dict[str, str], apply: Callable[[Changed], None]) -> None:
        async with self._updating:
            values = self._config.check_update(properties)
            stored = self._stored | properties
            try:
                await asyncio.to_thread(_write, self._path(), stored)
            except OSError as error:
                reason = f"the configuration cannot be written: {error}"
                raise RequestError(ResponseCode.SYSTEM_ERROR, reason) from error
            self._stored = stored
            self._config.update(values)
            self.version.counter += 1
            self.version.timestamp = self._clock_ms()
            apply(values)


def _write(path: Path, stored: Mapping[str, str]) -> None:
    previous = path.read_bytes() if path.exists() else None
    replace_file(path, format_properties(stored).encode(), previous)
