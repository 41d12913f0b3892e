"""The log of a server: lines for people or JSON, to standard error or to files that rotate."""

import json
import logging
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

__all__ = ["FORMATS", "LEVELS", "JsonLines", "PlainLines", "make_handler", "set_up_logs"]

LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
FORMATS: Final = ("text", "json")

_FILE_BYTES_MAX: Final = 64 * 1024 * 1024
_FILES_KEPT: Final = 10
"""Together some 700 MB at most: about what Java's brokers keep of one of their logs."""


class PlainLines(logging.Formatter):
    """One line for each record. What a peer sent cannot begin a line of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        return super().formatMessage(record).replace("\r", "\\r").replace("\n", "\\n")


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the exception if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def make_handler(program: str, *, lines: str, directory: Path | None) -> logging.Handler:
    """A handler for ``directory``/``program``.log, or for standard error; OSError if it cannot."""
    handler: logging.Handler
    if directory is None:
        handler = logging.StreamHandler()
    else:
        directory.mkdir(parents=True, exist_ok=True)
        handler = RotatingFileHandler(
            directory / f"{program}.log",
            maxBytes=_FILE_BYTES_MAX,
            backupCount=_FILES_KEPT,
            encoding="utf-8",
        )
    handler.setFormatter(JsonLines() if lines == "json" else PlainLines())
    return handler


def set_up_logs(program: str, *, level: str, lines: str, directory: Path | None) -> None:
    """Send everything of ``level`` and above to where ``make_handler`` says."""
    handler = make_handler(program, lines=lines, directory=directory)
    logging.basicConfig(handlers=[handler], level=level)
