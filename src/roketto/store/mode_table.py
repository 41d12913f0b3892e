"""How groups fetch the messages of topics, by pull or by pop: ``config/messageRequestMode.json``.

Operators say so with SET_MESSAGE_REQUEST_MODE. Java gives this table no data version.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from roketto.clock import wall_ms
from roketto.protocol.bodies.assignment import (
    MessageRequestModeSerializeWrapper,
    SetMessageRequestModeRequestBody,
)
from roketto.store.files import Files
from roketto.store.table import Table

__all__ = ["MODES_FILE", "ModeTable"]

MODES_FILE: Final = "messageRequestMode.json"

MODES_MAX: Final = 100_000
"""Pairs of topic and group: by hand, so a handful."""

_MEMBER: Final = "messageRequestModeMap"


class ModeTable(Table[MessageRequestModeSerializeWrapper]):
    """Topic -> group -> how it fetches. See ``Table``."""

    def __init__(
        self, files: Files, config: Path, *, clock_ms: Callable[[], int] = wall_ms
    ) -> None:
        super().__init__(
            files, config / MODES_FILE, MessageRequestModeSerializeWrapper, _MEMBER,
            clock_ms=clock_ms,
        )  # fmt: skip

    def __len__(self) -> int:
        """How many pairs of topic and group there are."""
        return sum(map(len, self._body.message_request_mode_map.values()))

    def get(self, topic: str, group: str) -> SetMessageRequestModeRequestBody | None:
        return self._body.message_request_mode_map.get(topic, {}).get(group)

    def put(self, mode: SetMessageRequestModeRequestBody) -> None:
        """Add or replace a mode; TableFullError if there are too many."""
        topics = self._body.message_request_mode_map
        groups = topics.get(mode.topic, {})
        if mode.consumer_group not in groups:
            self._make_room(len(self), MODES_MAX)
        self._put(groups, mode.consumer_group, mode, MODES_MAX, _MEMBER, mode.topic)
        topics[mode.topic] = groups
