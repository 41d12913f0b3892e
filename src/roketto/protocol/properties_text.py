"""Java's properties text: ``key=value`` lines in .conf files and in configuration bodies.

Read as java.util.Properties does: ``#`` and ``!`` start a comment, a key ends at the first ``=``,
``:`` or blank, a backslash at the end of a line continues it, and ``\\t``, ``\\u00e9`` and the like
are escapes. Written one entry a line. Only what would otherwise be read differently is escaped,
which includes all that is not ASCII: Java reads these bytes as Latin-1.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from roketto.protocol.errors import BodyError
from roketto.protocol.fastjson import excerpt

__all__ = ["format_properties", "parse_properties"]

_BLANKS: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_ENTRY: Final = re.compile(
    r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*+(?:[=:][ \t\f]*+)?(.*)\Z",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(?:u(.{0,4})|(.))", re.DOTALL)
_FOUR_HEX_DIGITS: Final = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

_KEY_SPECIAL: Final = re.compile(r"[^!-~]|[\\=:#!]")
_VALUE_SPECIAL: Final = re.compile(r"\A[ ]|[^ -~]|\\")
_ESCAPES: Final = {character: f"\\{name}" for name, character in _ESCAPED.items()}


def parse_properties(text: str) -> dict[str, str]:
    """The entries in order; the last of several equal keys counts."""
    table = {}
    for line in _logical_lines(text):
        entry = _ENTRY.match(line)
        assert entry is not None, "the pattern matches any text"
        table[_unescape(entry[1])] = _unescape(entry[2])
    return table


def format_properties(table: Mapping[str, str]) -> str:
    """One ``key=value`` line for each entry, in order."""
    lines = [
        f"{_KEY_SPECIAL.sub(_escape, key)}={_VALUE_SPECIAL.sub(_escape, value)}\n"
        for key, value in table.items()
    ]
    return "".join(lines)


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones, with continuations joined."""
    parts: list[str] = []
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANKS)
        if not parts and line.startswith(("#", "!")):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        continued = backslashes % 2 == 1
        parts += filter(None, [line[:-1] if continued else line])
        if parts and not continued:
            yield "".join(parts)
            parts.clear()
    if parts:
        yield "".join(parts)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_unescape_one, text)
    if _SURROGATE.search(plain):
        plain = plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return plain


def _unescape_one(match: re.Match[str]) -> str:
    digits, character = match[1], match[2]
    if digits is None:
        return _ESCAPED.get(character, character)
    if not _FOUR_HEX_DIGITS.fullmatch(digits):
        raise BodyError(f"properties have {excerpt(match[0])}; expected four hexadecimal digits")
    return chr(int(digits, 16))


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _ESCAPES:
        return _ESCAPES[character]
    if " " <= character <= "~":
        return f"\\{character}"
    units = character.encode("utf-16-be", "replace")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
