"""Writes the blocking API from the asyncio one: a class for each class, a module for each module.

A coroutine function becomes a function that waits for it. A function is called in the loop, where
everything else happens; so is what a property tells. Attributes are passed through. Where an
argument or a result is of a class that has a blocking one, it is of that. ``./dev blocking`` runs
it, and tests/tidy/test_blocking.py sees that it was run.
"""

import ast
import builtins
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

from blocking_tables import (
    ALIASES,
    ATTRIBUTES,
    BY_HAND,
    EARLY,
    FACADE,
    FOR_USERS,
    IN_PLACE,
    LEFT_OUT,
    PACKAGES,
    ROLES,
    WORDS,
)

ROOT: Final = Path(__file__).parents[1]
LINE_CHARS_MAX: Final = 86
"""What fits on one line with indentation and quotes."""
LIFE: Final = frozenset({"start", "stop"})
"""LivingFacade has both."""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Homes: TypeAlias = "Mapping[tuple[str, str], Module]"
"""Module and name of each class that has a blocking one, and that module."""


class UnknownError(Exception):
    """Something in the asyncio API that the tables have no word for."""


def main() -> None:
    for path, text in make_all().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def make_all() -> dict[Path, str]:
    """All files of the blocking API."""
    modules = [Module(package, name) for package, names in PACKAGES.items() for name in names]
    homes = {(module.name, one): module for module in modules for one in module.classes}
    made = {path_of(module.blocking): Face(module, homes).text() for module in modules}
    for package in PACKAGES:
        own = [module for module in modules if module.package == package]
        made[path_of(f"{package}.blocking.__init__")] = package_text(package, own)
    return formatted(made)


def path_of(module: str) -> Path:
    return ROOT.joinpath("src", *module.split(".")).with_suffix(".py")


def formatted(texts: Mapping[Path, str]) -> dict[Path, str]:
    """As the linter and the formatter leave them."""
    ours = "lint.isort.known-first-party = ['roketto']"  # it is not where it will be
    options = ["--quiet", "--config", str(ROOT / "pyproject.toml"), "--config", ours]
    with TemporaryDirectory() as folder:
        drafts = {path: Path(folder) / f"{number}.py" for number, path in enumerate(texts)}
        for path, draft in drafts.items():
            draft.write_text(texts[path])
        for step in (["check", "--select=I", "--fix"], ["format"]):
            subprocess.run(
                [sys.executable, "-m", "ruff", *step, *options, folder], cwd=ROOT, check=True
            )
        return {path: draft.read_text() for path, draft in drafts.items()}


# --- what there is --------------------------------------------------------------------------------


class Module:
    """A module of the asyncio API: what of it waits, and where its names are from."""

    def __init__(self, package: str, name: str) -> None:
        self.package = package
        self.name = f"{package}.{name}"
        self.blocking = f"{package}.blocking.{name}"
        body = ast.parse(path_of(self.name).read_text()).body
        self.imports = {
            alias.asname or alias.name: node.module or ""
            for node in body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        self.constants = {
            ast.unparse(target): node.value
            for node in body
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        }
        public = ast.literal_eval(self.constants["__all__"])
        own = [node for node in body if isinstance(node, ast.ClassDef | Function)]
        self._own = {node.name for node in own}
        self.classes = {
            node.name: node
            for node in own
            if isinstance(node, ast.ClassDef) and node.name in public and waits(node)
        }
        self.contexts = {
            node.name: node
            for node in own
            if isinstance(node, Function) and is_decorated(node, "asynccontextmanager")
        }

    def origin(self, name: str) -> str:
        """The module that a name is to be imported from."""
        if name in self.imports:
            return self.imports[name]
        if name in self._own or name in self.constants:
            return self.name
        raise UnknownError(f"{self.name}: where is {name} from?")


def waits(node: ast.ClassDef) -> bool:
    return any(isinstance(one, ast.AsyncFunctionDef) for one in node.body)


def is_decorated(node: Function, name: str) -> bool:
    return name in map(ast.unparse, node.decorator_list)


def members(node: ast.ClassDef) -> dict[str, Function]:
    return {one.name: one for one in node.body if isinstance(one, Function)}


def role_members() -> Iterator[str]:
    for module, role in ROLES:
        for node in ast.parse(path_of(module).read_text()).body:
            if isinstance(node, ast.ClassDef) and node.name == role:
                yield from members(node)


def attributes(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """The public ones that ``__init__`` sets, and what each is set to."""
    made = members(node).get("__init__")
    for one in () if made is None else made.body:
        if isinstance(one, ast.Assign | ast.AnnAssign) and one.value is not None:
            for target in one.targets if isinstance(one, ast.Assign) else [one.target]:
                owner, _, name = ast.unparse(target).partition(".")
                if owner == "self" and name.isidentifier() and name[0] != "_":
                    yield name, one.value


def names_in(node: ast.expr) -> list[str]:
    """Those that are not built in."""
    found = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return sorted(name for name in found if not hasattr(builtins, name))


ASKED_BY_OTHERS: Final = frozenset(role_members()) - FOR_USERS


# --- what is made of it ---------------------------------------------------------------------------


class Face:
    """The blocking module of one module."""

    def __init__(self, module: Module, homes: Homes) -> None:
        self._module = module
        self._homes = homes
        self._needed: set[tuple[str, str]] = set()

    def text(self) -> str:
        module = self._module
        body = [line for node in module.classes.values() for line in self._class(node)]
        body += [line for node in module.contexts.values() for line in self._context(node)]
        exported = ", ".join(f'"{name}"' for name in sorted([*module.classes, *module.contexts]))
        return "\n".join(
            [
                f'"""Blocking: ``{module.name}`` for threads; ``./dev blocking`` writes it."""', "",
                *(f"from {origin} import {name}" for origin, name in sorted(self._needed)), "",
                f"__all__ = [{exported}]", "",
                *body,
            ]
        )  # fmt: skip

    def _need(self, module: str, name: str) -> str:
        self._needed.add((module, name))
        return name.rpartition(" ")[2]

    def _blocking(self, name: str) -> str | None:
        """The blocking class of a name, imported if it is elsewhere; None if there is none."""
        at = ALIASES.get(name) or (self._module.origin(name), name)
        home = self._homes.get(at)
        if home is None:
            return None
        return at[1] if home is self._module else self._need(home.blocking, at[1])

    # --- classes and functions --------------------------------------------------------------------

    def _class(self, node: ast.ClassDef) -> Iterator[str]:
        inner = self._need(self._module.name, f"{node.name} as Async{node.name}")
        bases = [ast.unparse(base) for base in node.bases]
        made = [found for base in bases if base != "ABC" and (found := self._blocking(base))]
        yield f"class {node.name}({made[0] if made else self._facade(node, inner)}):"
        yield from indented(*docstring(node))
        if made:
            yield f"    _inner: {inner}"
        # Users make those that have a life of their own, and others come from these, by _of.
        if "ABC" not in bases and (made or members(node).keys() >= LIFE):
            constructor = members(node)["__init__"]
            yield f"    {self._signature(constructor)}"
            yield f"        self._hold({inner}({self._handed_on(constructor)}))"
        for name, value in attributes(node):
            if name not in LEFT_OUT.get(node.name, ()):
                yield from indented("@property", *self._attribute(node.name, name, value))
        for one in members(node).values():
            yield from indented(*self._member(node.name, one))

    def _facade(self, node: ast.ClassDef, inner: str) -> str:
        if members(node).keys() >= LIFE:
            return f"{self._need(FACADE, 'LivingFacade')}[{inner}]"
        kind = "ContextFacade" if "__aenter__" in members(node) else "Facade"
        return f"{self._need(FACADE, kind)}[{inner}]"

    def _attribute(self, owner: str, name: str, value: ast.expr) -> Iterator[str]:
        kind = (
            value.func.id
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
            else ""
        )
        if kind and (made := self._blocking(kind)):
            yield f"def {name}(self) -> {made}:"
            yield f"    return {made}._of(self._inner.{name}, self._life)"
        elif name in ATTRIBUTES.get(owner, ()):
            shown = self._annotation(ast.parse(ATTRIBUTES[owner][name], mode="eval").body)
            yield f"def {name}(self) -> {shown}:"
            yield f"    return self._inner.{name}"
        else:
            raise UnknownError(f"{owner}.{name}: which type has it? See ATTRIBUTES and LEFT_OUT")

    def _context(self, node: Function) -> Iterator[str]:
        """A function whose first argument is what the context belongs to."""
        inner = self._need(self._module.name, f"{node.name} as async_{node.name}")
        node.returns = None
        made = self._signature(node).removesuffix("None:")
        yield f"@{self._need('contextlib', 'contextmanager')}"
        yield f"{made}{self._need('collections.abc', 'Iterator')}[None]:"
        yield from indented(*docstring(node))
        yield f"    with {node.args.args[0].arg}._entered({inner}({self._handed_on(node, 0)})):"
        yield "        yield"

    # --- methods ----------------------------------------------------------------------------------

    def _member(self, owner: str, node: Function) -> Iterator[str]:
        if node.name == "__aiter__":
            yield from self._iter(node)
        elif node.name == "__anext__":
            yield f"def __next__(self) -> {self._annotation(node.returns)}:"
            yield from indented(*docstring(node, lines_max=1))
            yield "    return self._next(self._inner.__anext__())"
        elif self._is_for_users(owner, node.name):
            yield from ["@property"] if is_decorated(node, "property") else []
            yield self._signature(node)
            yield from indented(*docstring(node, lines_max=1))
            yield f"    {self._body(owner, node)}"

    def _is_for_users(self, owner: str, name: str) -> bool:
        if name.startswith("_") or name in LIFE or name in LEFT_OUT.get(owner, ()):
            return False
        return name not in ASKED_BY_OTHERS or self._module.package != "roketto.client"

    def _body(self, owner: str, node: Function) -> str:
        inner, given = f"self._inner.{node.name}", self._handed_on(node)
        if is_decorated(node, "property"):
            return f"return self._call(lambda: {inner})"
        if isinstance(node, ast.AsyncFunctionDef):
            run = "_run_early" if node.name in EARLY.get(owner, ()) else "_run"
            result = f"self.{run}({inner}({given}))"
        elif node.name in IN_PLACE.get(owner, ()):
            result = f"{inner}({given})"
        else:
            result = f"self._call({inner}{given and ', '}{given})"
        if isinstance(node.returns, ast.Constant):
            return result
        if isinstance(node.returns, ast.Name) and names_in(node.returns):
            made = self._blocking(node.returns.id)
            result = f"{made}._of({result}, self._life)" if made else result
        return f"return {result}"

    def _iter(self, node: Function) -> Iterator[str]:
        if not isinstance(node.returns, ast.Subscript):  # it is its own iterator
            yield f"def __iter__(self) -> {self._need('typing', 'Self')}:"
            yield "    return self"
            return
        item = ast.unparse(node.returns.slice)
        self._need(BY_HAND[item], item)
        yield f"def __iter__(self) -> {self._need('collections.abc', 'Iterator')}[{item}]:"
        yield from indented(*docstring(node, lines_max=1))
        yield f"    return self._iterate(self._inner.__aiter__, {item})"

    # --- signatures -------------------------------------------------------------------------------

    def _signature(self, node: Function) -> str:
        """The line with ``def``; what it names is imported."""
        given = node.args
        for one in (*given.args, *given.kwonlyargs, given.kwarg):
            if one is not None and one.annotation is not None:
                one.annotation = ast.parse(self._annotation(one.annotation), mode="eval").body
        given.defaults = [self._default(one) for one in given.defaults]
        given.kw_defaults = [one and self._default(one) for one in given.kw_defaults]
        return f"def {node.name}({ast.unparse(given)}) -> {self._annotation(node.returns)}:"

    def _annotation(self, node: ast.expr | None) -> str:
        if node is None:
            return "None"
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.parse(node.value, mode="eval").body
        text = ast.unparse(node)
        for name in names_in(node):
            made = self._blocking(name) or self._need(self._module.origin(name), name)
            text = re.sub(rf"\b{name}\b", made, text)
        return text

    def _default(self, node: ast.expr) -> ast.expr:
        for name in names_in(node):
            if name.startswith("_"):
                return self._module.constants[name]
            self._need(self._module.origin(name), name)
        return node

    def _handed_on(self, node: Function, skipped: int = 1) -> str:
        """All arguments but ``self``, as they are given to the asyncio API."""
        place = [self._argument(one) for one in node.args.args[skipped:]]
        named = [f"{one.arg}={self._argument(one)}" for one in node.args.kwonlyargs]
        others = [f"**{node.args.kwarg.arg}"] if node.args.kwarg else []
        return ", ".join([*place, *named, *others])

    def _argument(self, one: ast.arg) -> str:
        names = [] if one.annotation is None else names_in(one.annotation)
        if any(home[1] in names for home in self._homes):
            return f"{self._need(FACADE, 'inner_of')}({one.arg})"
        return one.arg


def indented(*lines: str) -> Iterator[str]:
    return (f"    {line}".rstrip() for line in lines)


def docstring(node: ast.ClassDef | Function, lines_max: int | None = None) -> list[str]:
    """Its docstring for threads, without what is for those who derive from a class."""
    text = ast.get_docstring(node)
    if text is None:
        return []
    for pattern, word in WORDS:
        text = re.sub(pattern, word, text)
    told = [one for one in text.split("\n\n") if not one.startswith("For those who derive")]
    lines = "\n\n".join(told).splitlines()[:lines_max]
    if len(lines) == 1:
        lines = textwrap.wrap(lines[0], LINE_CHARS_MAX)
    return [f'"""{lines[0]}', *lines[1:], '"""'] if len(lines) > 1 else [f'"""{lines[0]}"""']


def package_text(package: str, modules: list[Module]) -> str:
    """The package, which imports a name when somebody asks for it."""
    where = {
        name: module.blocking for module in modules for name in (*module.classes, *module.contexts)
    }
    if package == "roketto.client":
        where |= BY_HAND
    return "\n".join(
        [
            f'"""Blocking: the API of {package} for threads; ``./dev blocking`` writes it."""', "",
            "from roketto.client.lazy import lazily", "",
            "TYPE_CHECKING = False",
            "if TYPE_CHECKING:",
            *(f"    from {module} import {name}" for name, module in sorted(where.items())), "",
            "__all__ = [", *(f'    "{name}",' for name in sorted(where)), "]", "",
            "_WHERE = {",
            *(f'    "{name}": "{module}",' for name, module in sorted(where.items())),
            "}",
            "if not TYPE_CHECKING:", "    __getattr__ = lazily(__name__, _WHERE)", "",
        ]
    )  # fmt: skip


if __name__ == "__main__":
    main()
