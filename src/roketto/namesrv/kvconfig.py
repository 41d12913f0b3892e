"""The KV configuration: texts by namespace and key, on disk before they are visible.

The file is Java's: ``{"configTable":{"namespace":{"key":"value"}}}``, written whole at each change.
"""

import asyncio
import logging
from pathlib import Path

import msgspec

from roketto.errand import run_errand
from roketto.options import ConfigError
from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import RequestError
from roketto.protocol.limits import KV_CONFIG_BYTES_MAX, KV_NAME_CHARS_MAX
from roketto.safe_file import backup_of, replace_file

log = logging.getLogger(__name__)

ORDER_TOPICS = "ORDER_TOPIC_CONFIG"
"""The namespace of ordered topics: topic -> ``brokerA:4;brokerB:4``."""


class KvFile(msgspec.Struct, rename="camel"):
    """What the file holds."""

    config_table: dict[str, dict[str, str]]


class KvConfig:
    """All namespaces; opened once at the start, which fails rather than starts empty."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._content = _load(path)
        self._tables = _decode(self._content).config_table if self._content else {}
        self._lock = asyncio.Lock()

    def get(self, namespace: str, key: str) -> str | None:
        return self._tables.get(namespace, {}).get(key)

    def table(self, namespace: str) -> dict[str, str] | None:
        return self._tables.get(namespace)

    async def put(self, namespace: str, key: str, value: str) -> None:
        for name in (namespace, key):
            if not 0 < len(name) <= KV_NAME_CHARS_MAX:
                reason = f"a name has {len(name)} characters; write 1 to {KV_NAME_CHARS_MAX}"
                raise RequestError(ResponseCode.SYSTEM_ERROR, reason)
        await run_errand(self._set(namespace, key, value))

    async def delete(self, namespace: str, key: str) -> None:
        """Take a key away; its namespace stays, as in Java, if only empty."""
        await run_errand(self._set(namespace, key, None))

    async def _set(self, namespace: str, key: str, value: str | None) -> None:
        # An errand of the callers: a client that goes away must not part memory from disk.
        async with self._lock:
            if self.get(namespace, key) == value:
                return
            table = {k: v for k, v in self._tables.get(namespace, {}).items() if k != key}
            if value is not None:
                table[key] = value
            tables = self._tables | {namespace: table}
            content = msgspec.json.encode(KvFile(config_table=tables))
            if len(content) > KV_CONFIG_BYTES_MAX:
                reason = f"the KV configuration would be {len(content)} bytes, the bound is "
                raise RequestError(ResponseCode.SYSTEM_ERROR, f"{reason}{KV_CONFIG_BYTES_MAX}")
            try:
                await asyncio.to_thread(replace_file, self._path, content, self._content)
            except OSError as error:
                reason = f"the KV configuration cannot be written: {error}"
                raise RequestError(ResponseCode.SYSTEM_ERROR, reason) from error
            self._content, self._tables = content, tables


_decode = msgspec.json.Decoder(KvFile).decode


def _load(path: Path) -> bytes | None:
    """Return the last good content; None where there never was any."""
    problems = []
    for candidate in (path, backup_of(path)):
        try:
            content = candidate.read_bytes()
            _decode(content)
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
            problems.append(f"{candidate}: {error}")
            continue
        if candidate != path:
            log.warning("KV configuration taken from %s: %s", candidate, problems or "no newer one")
        return content
    if problems:
        raise ConfigError(f"KV configuration is unreadable; {'; '.join(problems)}")
    return None
