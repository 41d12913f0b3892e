"""A log is one line a record, for people or as JSON, and its files cannot fill the disk."""

import json
import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

from roketto.logs import JsonLines, PlainLines, make_handler


def record(message: str, *, failed: bool = False) -> logging.LogRecord:
    exc_info = None
    if failed:
        try:
            raise ValueError("planted")
        except ValueError:
            exc_info = sys.exc_info()
    made = logging.LogRecord("roketto.x", logging.INFO, __file__, 1, message, None, exc_info)
    made.created = 1_700_000_000.25
    return made


def test_plain_lines_name_level_and_logger() -> None:
    assert (
        PlainLines()
        .format(record("topic T was created"))
        .endswith(" INFO roketto.x: topic T was created")
    )


def test_what_a_peer_sent_cannot_begin_a_line() -> None:
    line = PlainLines().format(record("topic a\r\n2026-01-01 INFO roketto.x: forged"))
    assert "\n" not in line
    assert r"topic a\r\n2026" in line


def test_traceback_keeps_its_lines() -> None:
    text = PlainLines().format(record("it failed", failed=True))
    assert text.splitlines()[-1] == "ValueError: planted"


def test_json_lines_have_time_level_logger_and_message() -> None:
    assert json.loads(JsonLines().format(record("two\nlines"))) == {
        "time": "2023-11-14T22:13:20.250+00:00",
        "level": "INFO",
        "logger": "roketto.x",
        "message": "two\nlines",
    }


def test_json_lines_have_the_exception() -> None:
    line = JsonLines().format(record("it failed", failed=True))
    assert "\n" not in line
    assert json.loads(line)["exception"].endswith("ValueError: planted")


def test_files_rotate_within_a_bound(tmp_path: Path) -> None:
    handler = make_handler("mqbroker", lines="json", directory=tmp_path / "logs")
    assert isinstance(handler, RotatingFileHandler)
    handler.emit(record("first"))
    handler.doRollover()
    handler.emit(record("second"))
    handler.close()
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == [
        "mqbroker.log",
        "mqbroker.log.1",
    ]
    assert json.loads((tmp_path / "logs" / "mqbroker.log").read_text())["message"] == "second"
    assert handler.maxBytes * (handler.backupCount + 1) < 1 << 30


def test_standard_error_is_the_default() -> None:
    handler = make_handler("mqbroker", lines="text", directory=None)
    assert isinstance(handler, logging.StreamHandler)
    assert isinstance(handler.formatter, PlainLines)
