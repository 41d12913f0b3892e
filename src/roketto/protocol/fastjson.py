"""Reading FastJSON's dialect of JSON: a tolerant parser, references, integer keys.

Java peers write maps with integer or object keys without quotes, which no JSON library reads::

    {"brokerAddrs":{0:"10.0.0.1:10911"}}
    {"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5}}

``parse`` reads that, and also what old versions of FastJSON let a client get away with: single
quotes, names without quotes, a trailing comma, escapes such as ``\\x41``. ``fastjson_write`` is its
counterpart.

The parser gives plain values. An object that serves as a key becomes an ``ObjectKey``, not the
JSON text of the object: text inside text doubles its escapes with each level, which an attacker
could nest into gigabytes.
"""

import re
from typing import Final, TypeAlias

from roketto.protocol.errors import BodyError
from roketto.protocol.limits import JSON_DEPTH_MAX, JSON_NUMBER_CHARS_MAX

__all__ = [
    "Node",
    "ObjectKey",
    "excerpt",
    "follow",
    "parse",
    "parse_number",
    "quote_integer_keys",
]

Node: TypeAlias = "bool | int | float | str | list[Node] | dict[str | ObjectKey, Node] | None"


class ObjectKey:
    """An object that stands where JSON wants the name of a member; equal only to itself."""

    __slots__ = ("members",)

    def __init__(self, members: "dict[str | ObjectKey, Node]") -> None:
        self.members = members


def excerpt(text: str) -> str:
    """The first characters of ``text`` as they may appear in an error message."""
    return repr(text if len(text) <= 40 else text[:40] + "...")


# --- reading --------------------------------------------------------------------------------------

_BLANKS: Final = re.compile(r"[ \t\r\n\f\b]*+")
# Possessive where one character repeats: a string without an end is refused in one pass. Groups
# are not: Python before 3.11.5 loses its place when a possessive group fails half-way.
_STRING: Final = re.compile(
    r'"([^"\\]*+(?:\\.[^"\\]*+)*)"' + r"|'([^'\\]*+(?:\\.[^'\\]*+)*)'", re.DOTALL
)
_WORD: Final = re.compile(r"[^ \t\r\n\f\b,:{}\[\]\"']++")
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_DECIMAL: Final = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED: Final = {
    **{character: character for character in "\"'\\/"},
    **{digit: chr(int(digit)) for digit in "01234567"},
    **dict(zip("bfFnrtv", "\b\f\f\n\r\t\v", strict=True)),
}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_WORDS: Final[dict[str, Node]] = {"true": True, "false": False, "null": None}


def parse(data: bytes | memoryview) -> Node:
    """Read one value of FastJSON's dialect; raise BodyError for anything else.

    Bytes that are no UTF-8 and halves of surrogate pairs become U+FFFD, as Java would have it.
    """
    parser = _Parser(bytes(data).decode("utf-8", "replace"))
    node = parser.value(0)
    parser.end()
    return node


class _Parser:
    """A cursor over one text: recursive descent, each character looked at once."""

    __slots__ = ("position", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def peek(self) -> str:
        """Skip blanks; the next character, or an empty string at the end."""
        blanks = _BLANKS.match(self.text, self.position)
        assert blanks is not None
        self.position = blanks.end()
        return self.text[self.position : self.position + 1]

    def end(self) -> None:
        if self.peek():
            raise self.error("nothing more")

    def error(self, expected: str) -> BodyError:
        rest = self.text[self.position : self.position + 41]
        found = f"found {excerpt(rest)}" if rest else "the text ends"
        return BodyError(
            f"JSON body at character {self.position}: {found}; expected {expected}; "
            f"send JSON as FastJSON writes it"
        )

    def value(self, depth: int) -> Node:
        character = self.peek()
        if character == "{":
            return self.object(depth + 1)
        if character == "[":
            return self.array(depth + 1)
        if character in ('"', "'"):
            return self.string()
        return self.scalar()

    def enter(self, depth: int) -> None:
        if depth > JSON_DEPTH_MAX:
            raise BodyError(
                f"JSON body nests deeper than {JSON_DEPTH_MAX} levels at character "
                f"{self.position}; no body of the protocol does"
            )
        self.position += 1

    def object(self, depth: int) -> "dict[str | ObjectKey, Node]":
        self.enter(depth)
        members: dict[str | ObjectKey, Node] = {}
        while self.peek() != "}":
            key = self.key(depth)
            if self.peek() != ":":
                raise self.error("':' after a member's name")
            self.position += 1
            members[key] = self.value(depth)
            if self.peek() != ",":
                break
            self.position += 1
        self.close("}")
        return members

    def array(self, depth: int) -> "list[Node]":
        self.enter(depth)
        items: list[Node] = []
        while self.peek() != "]":
            items.append(self.value(depth))
            if self.peek() != ",":
                break
            self.position += 1
        self.close("]")
        return items

    def close(self, bracket: str) -> None:
        if self.peek() != bracket:
            raise self.error(f"',' or '{bracket}'")
        self.position += 1

    def key(self, depth: int) -> str | ObjectKey:
        character = self.peek()
        if character in ('"', "'"):
            return self.string()
        if character == "{":
            return ObjectKey(self.object(depth + 1))
        return self.word("a member's name")

    def string(self) -> str:
        match = _STRING.match(self.text, self.position)
        if match is None:
            raise self.error("a string with its closing quote")
        raw = match[match.lastindex or 0]
        if "\\" in raw:
            raw = self.unescape(raw)
        self.position = match.end()
        return raw

    def unescape(self, raw: str) -> str:
        text = _ESCAPE.sub(self.unescape_one, raw)
        if _SURROGATE.search(text):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return text

    def unescape_one(self, match: re.Match[str]) -> str:
        code = match[1] or match[2]
        if code is not None:
            return chr(int(code, 16))
        character = _ESCAPED.get(match[3])
        if character is None:
            raise self.error(f"no escape {excerpt(match[0])} in this string")
        return character

    def word(self, expected: str) -> str:
        match = _WORD.match(self.text, self.position)
        if match is None:
            raise self.error(expected)
        self.position = match.end()
        return match[0]

    def scalar(self) -> Node:
        start = self.position
        word = self.word("a value")
        if word in _WORDS:
            return _WORDS[word]
        number = parse_number(word)
        if number is None:
            self.position = start
            raise self.error("a value")
        return number


def parse_number(word: str) -> int | float | None:
    """The number that ``word`` spells, None if it spells none or a longer one than any field."""
    if len(word) > JSON_NUMBER_CHARS_MAX:
        return None
    if _INTEGER.fullmatch(word):
        return int(word)
    if _DECIMAL.fullmatch(word):
        return float(word)
    return None


# A string without an end is taken as one, too: else each escaped quote in it starts a new search.
_STRING_OR_INTEGER_KEY: Final = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*"?|(?<=[{,])-?[0-9]++(?=:)', re.DOTALL
)


def quote_integer_keys(text: bytes) -> bytes:
    """``{0:"a"}`` as ``{"0":"a"}``: all that keeps most bodies of Java peers from being JSON.

    Several times as fast as ``parse``. Other oddities of the dialect stay, for JSON to refuse.
    """
    return _STRING_OR_INTEGER_KEY.sub(_quote_integer, text)


def _quote_integer(match: re.Match[bytes]) -> bytes:
    token = match[0]
    return token if token.startswith(b'"') else b'"%b"' % token


# --- references -----------------------------------------------------------------------------------

_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[([0-9]{1,9})\]")


def follow(root: Node, path: str) -> Node:
    """What ``{"$ref": path}`` refers to, None where that cannot be known.

    FastJSON 1 writes a second occurrence of one Java object as a path from the root (``@`` and
    ``..``, for an object inside itself, do not occur in bodies). A path through a map with object
    keys says ``null`` for the key and leads nowhere.
    """
    if not path.startswith("$"):
        return None
    node = root
    position = 1
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            return None
        position = step.end()
        if step[1] is not None and isinstance(node, dict):
            node = node.get(step[1])
        elif step[2] is not None and isinstance(node, list) and int(step[2]) < len(node):
            node = node[int(step[2])]
        else:
            return None
    return node
