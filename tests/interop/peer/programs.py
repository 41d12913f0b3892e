"""Compile and run the small Java programs of `tests/interop/java` against a peer's jars."""

import hashlib
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from .cache import cached_directory
from .errors import PeerFailedError
from .fetch import fetch_examples, fetch_jars
from .java import JAVA_VERSION_MIN, Jdk, find_jdk
from .process import Jvm

SOURCES: Final = Path(__file__).resolve().parent.parent / "java"

_COMPILE_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Runtime:
    """All that a peer process of one version needs: the JDK, the jars, our compiled programs."""

    version: str
    jdk: Jdk
    jars: Path
    classes: Path

    def command(self, jvm: Jvm, home: Path, main_class: str, arguments: Sequence[str]) -> list[str]:
        """Give the command line that runs `main_class`."""
        path = ["-cp", f"{self.classes}:{self.jars}/*"]
        return [self.jdk.java, *jvm.options(home), *path, main_class, *arguments]

    def leashed(self, jvm: Jvm, home: Path, main_class: str, arguments: Sequence[str]) -> list[str]:
        """Give the same, for a process that ends when its standard input closes."""
        return self.command(jvm, home, "Leash", [main_class, *arguments])

    def with_examples(self) -> "Runtime":
        """Give the same with the jars of RocketMQ's own examples and benchmarks."""
        return replace(self, jars=fetch_examples(self.jdk, self.version))


def load_runtime(version: str) -> Runtime:
    """Find the JDK, fetch the jars and compile the programs, each only if not done before."""
    jdk = find_jdk()
    jars = fetch_jars(jdk, version)
    return Runtime(version, jdk, jars, _compiled(jdk, version, jars))


def _compiled(jdk: Jdk, version: str, jars: Path) -> Path:
    sources = sorted(SOURCES.glob("*.java"))
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    name = f"{version}/classes-{digest.hexdigest()[:16]}"
    return cached_directory(name, partial(_compile, jdk, jars, sources))


def _compile(jdk: Jdk, jars: Path, sources: Sequence[Path], classes: Path) -> None:
    command = [jdk.javac, "--release", str(JAVA_VERSION_MIN), "-nowarn", "-encoding", "UTF-8"]
    command += ["-cp", f"{jars}/*", "-d", str(classes), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S)
    if done.returncode != 0:
        raise PeerFailedError(f"javac ended with {done.returncode}:\n{done.stdout}{done.stderr}")
