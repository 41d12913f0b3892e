"""Loads the vectors beside this file, which the Java programs here made with the real classes."""

import json
from pathlib import Path
from typing import Any


def load(noun: str, version: str = "5.5.0") -> Any:
    """The vectors of one noun; byte strings in them are hexadecimal."""
    return json.loads((Path(__file__).parent / f"{noun}-{version}.json").read_text("utf-8"))


def text_of(units: str) -> str:
    """A string that Java wrote as the hexadecimal of its UTF-16 units."""
    return bytes.fromhex(units).decode("utf-16-be", "surrogatepass")
