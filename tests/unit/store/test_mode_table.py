"""How groups fetch messages is kept in Java's file."""

from pathlib import Path

import pytest

from roketto.protocol.bodies.assignment import (
    MessageRequestMode,
    SetMessageRequestModeRequestBody,
)
from roketto.store import mode_table
from roketto.store.errors import TableFullError
from roketto.store.files import Files
from roketto.store.mode_table import ModeTable

GOLDEN = Path(__file__).parents[2] / "golden" / "store" / "5.5.0"
POP = MessageRequestMode.POP


def load(folder: Path) -> ModeTable:
    table = ModeTable(Files(), folder)
    assert table.load() is None
    return table


def mode_of(topic: str, group: str, **more: object) -> SetMessageRequestModeRequestBody:
    return SetMessageRequestModeRequestBody(topic=topic, consumer_group=group, **more)  # type: ignore[arg-type]


def test_modes_are_found_again_after_a_restart(tmp_path: Path) -> None:
    """Of several groups of one topic, put and replaced."""
    table = load(tmp_path)
    table.put(mode_of("T", "G", mode=POP, pop_share_queue_num=3))
    table.put(mode_of("T", "H"))
    table.put(mode_of("T", "H", mode=POP))
    table.put(mode_of("U", "H"))
    assert table.save_if_changed()
    again = load(tmp_path)
    assert len(again) == 3
    assert again.get("T", "G") == mode_of("T", "G", mode=POP, pop_share_queue_num=3)
    assert again.get("T", "H") == mode_of("T", "H", mode=POP)
    assert again.get("U", "H") == mode_of("U", "H")
    assert (again.get("U", "G"), again.get("V", "G")) == (None, None)


def test_the_modes_of_a_java_broker_are_read_and_written_as_they_were(tmp_path: Path) -> None:
    """To the byte, so that either broker goes on with the other's file."""
    table = load(GOLDEN)
    assert table.get("Golden", "GoldenPop") == mode_of(
        "Golden", "GoldenPop", mode=POP, pop_share_queue_num=2
    )
    assert table.text() == (GOLDEN / "messageRequestMode.json").read_bytes()


def test_a_table_takes_so_many_modes_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over all topics; one that is there may be replaced."""
    monkeypatch.setattr(mode_table, "MODES_MAX", 1)
    table = load(tmp_path)
    table.put(mode_of("T", "G"))
    table.put(mode_of("T", "G", mode=POP))
    with pytest.raises(TableFullError, match="has 1 entries"):
        table.put(mode_of("U", "G"))
    assert table.get("U", "G") is None
