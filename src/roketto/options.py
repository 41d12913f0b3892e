"""Options of a server: RocketMQ's keys, their types and ranges, and what may change at run time.

A field's annotation is all there is to know about it: its type, its bounds and whether a request
may change it while the server runs. Nothing changes over the wire unless its own line says so.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, ClassVar, Final, NamedTuple, get_origin, get_type_hints

from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import RequestError

Value = bool | int | str | Path

TEXT_CHARS_MAX: Final = 4_096
"""Of one value: the longest path that a system takes; lists of servers are shorter."""


class ConfigError(Exception):
    """A key or value that cannot be used; the text names it and says what would do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What a field declares besides its type and default."""

    key: str = ""
    """How Java spells it, where that is not the field's name in camel case."""
    changeable: bool = False
    """By a request, while the server runs."""
    low: int = 0
    high: int = 2**31 - 1
    choices: tuple[str, ...] = ()
    reason: str = ""
    """Why there are no other choices."""
    check: Callable[[str], object] | None = None
    """Raises ValueError for a text that cannot be used; what it says is the remedy."""
    effective: bool = True
    """False: accepted because Java's files have it, and reported."""
    java: bool = True
    """False: a key of ours, which Java's tools are not shown."""
    important: bool = False
    """Among the few that an operator looks at first."""
    secret: bool = False


FIXED = Option()
CHANGEABLE = Option(changeable=True)
UNUSED = Option(effective=False, low=-(2**31))
OFF = Option(choices=("false",))
"""A part of Java's server that ours does not have."""


class Field(NamedTuple):
    """One line of a configuration, taken apart."""

    name: str
    kind: type[Value]
    option: Option


@dataclass(slots=True)
class Config:
    """The base of a server's configuration; a subclass declares its fields.

    class EchoConfig(Config):
        program = "echo"
        listen_port: Annotated[int, Option(high=65_535)] = 7

    config = EchoConfig()
    config.load({"listenPort": "8"})       # ConfigError
    config.update(config.check_update({"listenPort": "9"}))    # RequestError: not changeable
    """

    program: ClassVar[str]
    """The command whose -p lists the keys."""
    other_spellings: ClassVar[Mapping[str, str]] = {}
    """Spellings of older versions and the keys that they mean."""
    keys_without_effect: ClassVar[Mapping[str, str | None]] = {}
    """Other keys of Java's file, with their defaults there; None is never shown."""

    given: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    """The properties of the file. A run-time change is written back with them."""

    def load(self, properties: Mapping[str, str]) -> list[str]:
        """Take a property file; return the keys in it that do nothing here."""
        found = {key: self._find(key) for key in properties}
        self.override(properties)
        self.given |= {self._key(key): text for key, text in properties.items()}
        return [key for key, line in found.items() if line is None or not line.option.effective]

    def override(self, properties: Mapping[str, str]) -> None:
        """Take what was said on the command line; the file stays as it is."""
        for key, text in properties.items():
            found = self._find(key)
            if found is not None:
                self._take(found.name, parse_value(key, text, found))
        self._complete()

    def check_update(self, properties: Mapping[str, str]) -> dict[str, Value]:
        """Return the new values by field name, or refuse them all with a RequestError."""
        refused = str(getattr(self, "config_black_list", "")).split(";")
        values: dict[str, Value] = {}
        for key, text in properties.items():
            try:
                found = self._find(key)
                if found is None or not found.option.changeable or self._key(key) in refused:
                    reason = f"{key} may not change at run time; set it in the file and restart"
                    raise RequestError(ResponseCode.NO_PERMISSION, reason)
                values[found.name] = parse_value(key, text, found)
            except ConfigError as error:
                raise RequestError(ResponseCode.SYSTEM_ERROR, str(error)) from error
        return values

    def update(self, values: Mapping[str, Value]) -> None:
        """Take values that ``check_update`` returned."""
        for name, value in values.items():
            self._take(name, value)

    def items(
        self, *, java_only: bool = False, important_only: bool = False
    ) -> Iterable[tuple[str, str]]:
        """Every key and its value as text, in Java's order; never a secret."""
        for key, (name, kind, option) in fields_of(type(self)).items():
            is_shown = option.java or not (java_only or option.secret)
            if is_shown and (option.important or not important_only):
                text = str(getattr(self, name))
                yield key, text.lower() if kind is bool else text
        if not important_only:
            for key, default in self.keys_without_effect.items():
                text = self.given.get(key, default or "")
                if default is not None and text:
                    yield key, text

    def _key(self, written: str) -> str:
        return self.other_spellings.get(written, written)

    def _find(self, written: str) -> Field | None:
        """The field of a key, None if Java's key does nothing here; ConfigError for others."""
        key = self._key(written)
        if key in self.keys_without_effect:
            return None
        fields = fields_of(type(self))
        if key not in fields:
            near = get_close_matches(written[:64], [*fields, *self.keys_without_effect], n=1)
            hint = f"did you mean {near[0]}?" if near else f"{self.program} -p lists all keys"
            raise ConfigError(f"unknown key {_cut(written)}; {hint}")
        return fields[key]

    def _take(self, name: str, value: Value) -> None:
        setattr(self, name, value)

    def _complete(self) -> None:
        """Called when values were taken: what follows from them, what they may not be together."""


_fields: dict[type[Config], dict[str, Field]] = {}


def fields_of(config: type[Config]) -> dict[str, Field]:
    """Every option by its key: the configuration's own fields, then those that it inherits."""
    if config not in _fields:
        inherited = get_type_hints(config.__base__)
        hints = get_type_hints(config, include_extras=True)
        _fields[config] = {
            hint.__metadata__[0].key or camel_case(name): Field(
                name, hint.__origin__, hint.__metadata__[0]
            )
            for name, hint in sorted(hints.items(), key=lambda item: item[0] in inherited)
            if get_origin(hint) is Annotated
        }
    return _fields[config]


def camel_case(name: str) -> str:
    """A field's name as Java spells it: listen_port is listenPort."""
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def parse_value(key: str, text: str, found: Field) -> Value:
    """The value of a text; ConfigError if it is not of the field's type and bounds."""
    _, kind, option = found
    text = text.strip().lower() if kind is bool else text.strip()
    choices = option.choices or (("true", "false") if kind is bool else ())
    if choices and text not in choices:
        why = f": {option.reason}" if option.reason else ""
        raise ConfigError(f"{key} is {_cut(text)}; it can only be {' or '.join(choices)}{why}")
    if kind is bool:
        return text == "true"
    if kind is int:
        is_number = text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 20
        if not is_number or not option.low <= int(text) <= option.high:
            bounds = f"{option.low}..{option.high}"
            raise ConfigError(f"{key} is {_cut(text)}; write an integer of {bounds}")
        return int(text)
    if kind is Path and not text:
        raise ConfigError(f"{key} is empty; write the path of a file")
    if len(text) > TEXT_CHARS_MAX or not text.isprintable():
        bound = f"{TEXT_CHARS_MAX} printable characters at most"
        raise ConfigError(f"{key} is {_cut(text)}; write {bound}")
    if option.check is not None:
        try:
            option.check(text)
        except ValueError as error:
            raise ConfigError(f"{key} is {_cut(text)}; {error}") from error
    return kind(text)


def _cut(text: str) -> str:
    return repr(text if len(text) <= 64 else f"{text[:61]}...")
