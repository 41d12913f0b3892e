"""Find a Java development kit that can run and compile for the peer."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .errors import PeerUnavailableError

JAVA_VERSION_MIN: Final = 11
"""Our programs are compiled for Java 11; the peer itself runs on 8 and later."""

_USUAL_PLACES: Final = (
    ("/usr/lib/jvm", "*"),
    ("/opt/java", "*"),
    ("/Library/Java/JavaVirtualMachines", "*/Contents/Home"),
    ("/opt/homebrew/opt", "openjdk*/libexec/openjdk.jdk/Contents/Home"),
    ("/usr/local/opt", "openjdk*/libexec/openjdk.jdk/Contents/Home"),
)


@dataclass(frozen=True, slots=True)
class Jdk:
    """A JDK: `home/bin` holds java and javac of the major version `version`."""

    home: Path
    version: int

    @property
    def java(self) -> str:
        return str(self.home / "bin" / "java")

    @property
    def javac(self) -> str:
        return str(self.home / "bin" / "javac")


def find_jdk() -> Jdk:
    """Give the first fitting JDK of JAVA_HOME, PATH and the usual places, or raise."""
    refused = []
    for home in dict.fromkeys(_candidates()):
        version = _major_version(home)
        if version is None:
            refused.append(f"{home} (no working javac)")
        elif version < JAVA_VERSION_MIN:
            refused.append(f"{home} (Java {version})")
        else:
            return Jdk(home, version)
    seen = f"; looked at {', '.join(refused)}" if refused else ""
    raise PeerUnavailableError(
        f"no JDK {JAVA_VERSION_MIN} or later found{seen}: install one (Debian: "
        f"default-jdk-headless, macOS: openjdk) or set JAVA_HOME"
    )


def _candidates() -> Iterator[Path]:
    if java_home := os.environ.get("JAVA_HOME"):
        yield Path(java_home)
    for program in ("javac", "java"):
        if found := shutil.which(program):
            yield Path(found).resolve().parent.parent
    for place, pattern in _USUAL_PLACES:
        yield from sorted(Path(place).glob(pattern), reverse=True)


def _major_version(home: Path) -> int | None:
    """Read the version from the JDK's `release` file, else ask javac; None: not a JDK."""
    javac = home / "bin" / "javac"
    if not os.access(javac, os.X_OK):
        return None
    try:
        text = (home / "release").read_text()
        found = re.search(r'^JAVA_VERSION="(\d+)(?:\.(\d+))?', text, re.MULTILINE)
    except OSError:
        asked = subprocess.run([javac, "-version"], capture_output=True, text=True, timeout=30)
        found = re.search(r"javac (\d+)(?:\.(\d+))?", asked.stdout + asked.stderr)
    if found is None:
        return None
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major  # Java 8 calls itself 1.8
