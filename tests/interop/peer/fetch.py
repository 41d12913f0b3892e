"""Get jars by name, RocketMQ's and others, with Maven or with the Ivy that PySpark ships.

`python -m interop.peer.fetch` fills the cache ahead of the tests.
"""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from .cache import cached_directory
from .errors import PeerUnavailableError
from .java import Jdk, find_jdk

VERSIONS: Final = ("5.5.0", "4.9.7")
"""The newest whole release, and the last of the 4.9 line."""

_GROUP: Final = "org.apache.rocketmq"
_MODULES: Final = ("rocketmq-namesrv", "rocketmq-broker", "rocketmq-client", "rocketmq-tools")
_EXAMPLES: Final = ("rocketmq-example",)

_ALONE: Final = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)

_FETCH_TIMEOUT_S: Final = 1200.0
_OUTPUT_TAIL_CHARS: Final = 2000


@dataclass(frozen=True, slots=True)
class Module:
    """What Maven Central has by a name: a jar, and those that it needs unless it comes alone."""

    group: str
    name: str
    version: str
    is_alone: bool = False


_Way = Callable[[Jdk, Sequence[Module], Path], None]


def fetch_jars(jdk: Jdk, version: str) -> Path:
    """Give the directory of all jars of that RocketMQ version, fetching them when absent."""
    return fetch_modules(jdk, f"{version}/lib", _of_rocketmq(version, _MODULES))


def fetch_examples(jdk: Jdk, version: str) -> Path:
    """Give the directory of RocketMQ's own examples and benchmarks with all jars they need.

    Maven Central has them for 5.5.0, but not for 4.9.
    """
    return fetch_modules(jdk, f"{version}/example", _of_rocketmq(version, _EXAMPLES))


def fetch_modules(jdk: Jdk, name: str, modules: Sequence[Module]) -> Path:
    """Give the directory ``name`` of the cache with these modules and all that they need."""
    return cached_directory(name, partial(_fetch, jdk, modules))


def _of_rocketmq(version: str, names: Sequence[str]) -> list[Module]:
    return [Module(_GROUP, name, version) for name in names]


def _fetch(jdk: Jdk, modules: Sequence[Module], lib: Path) -> None:
    ways: list[_Way] = [fetch_with_maven, fetch_with_ivy]
    if shutil.which("mvn") is None:
        ways.remove(fetch_with_maven)
    failures = []
    for way in ways:
        try:
            way(jdk, modules, lib)
        except PeerUnavailableError as failure:
            failures.append(str(failure))
        else:
            return
    wanted = " and ".join(f"{module.name} {module.version}" for module in modules)
    raise PeerUnavailableError(f"{wanted} could not be fetched: {'; '.join(failures)}")


def fetch_with_maven(jdk: Jdk, modules: Sequence[Module], lib: Path) -> None:
    """Let `mvn` copy the modules and all they need at run time into `lib`."""
    with tempfile.TemporaryDirectory(prefix="roketto-mvn-") as work:
        pom = Path(work) / "pom.xml"
        pom.write_text(_pom(modules))
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        command = ["mvn", "-q", "-B", "-f", str(pom), *goal, f"-DoutputDirectory={lib}"]
        _run("Maven", command)
    _check(lib, modules)


def fetch_with_ivy(jdk: Jdk, modules: Sequence[Module], lib: Path) -> None:
    """Let Ivy resolve the same modules and copy their jars into `lib`."""
    ivy = _ivy_jar()
    with tempfile.TemporaryDirectory(prefix="roketto-ivy-") as work:
        module = Path(work) / "ivy.xml"
        module.write_text(_ivy_module(modules))
        # The classifier belongs in the name: Netty's native libraries differ only in it.
        pattern = f"{lib}/[artifact]-[revision](-[classifier]).[ext]"
        command = [jdk.java, "-jar", str(ivy), "-ivy", str(module), "-cache", f"{work}/cache"]
        _run("Ivy", [*command, "-retrieve", pattern, "-types", "jar", "bundle"])
    _check(lib, modules)


def _pom(modules: Sequence[Module]) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{module.group}</groupId><artifactId>{module.name}</artifactId>"
        f"<version>{module.version}</version>{_ALONE if module.is_alone else ''}</dependency>"
        for module in modules
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>roketto</groupId>"
        "<artifactId>peer</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def _ivy_module(modules: Sequence[Module]) -> str:
    dependencies = "".join(
        f'<dependency org="{module.group}" name="{module.name}" rev="{module.version}"'
        f' conf="default->default" transitive="{str(not module.is_alone).lower()}"/>'
        for module in modules
    )
    return (
        '<ivy-module version="2.0"><info organisation="roketto" module="peer"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _ivy_jar() -> Path:
    """Give Ivy from the installed PySpark, or from one unpacked into the cache for this."""
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or []) if spec else []:
        if jars := sorted(Path(place).glob("jars/ivy-*.jar")):
            return jars[-1]
    return _only_ivy(cached_directory("ivy", _unpack_ivy))


def _unpack_ivy(target: Path) -> None:
    """Keep the one jar of 1.4 MB; the 490 MB of PySpark around it go away again."""
    with tempfile.TemporaryDirectory(prefix="roketto-pyspark-", dir=target.parent) as work:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", work]
        _run("pip", [*pip, "pyspark"])
        shutil.copy(_only_ivy(Path(work) / "pyspark" / "jars"), target)


def _only_ivy(directory: Path) -> Path:
    jars = sorted(directory.glob("ivy-*.jar"))
    if not jars:
        raise PeerUnavailableError(f"no ivy-*.jar in {directory}: install Maven instead")
    return jars[-1]


def _run(name: str, command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S)
    except OSError as error:
        raise PeerUnavailableError(f"{name} cannot be started: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise PeerUnavailableError(f"{name} did not end within {_FETCH_TIMEOUT_S:.0f} s") from error
    if done.returncode != 0:
        output = (done.stdout + done.stderr)[-_OUTPUT_TAIL_CHARS:]
        raise PeerUnavailableError(f"{name} ended with {done.returncode}: {output}")


def _check(lib: Path, modules: Sequence[Module]) -> None:
    """A resolver that reports success without the modules has not succeeded."""
    names = [f"{module.name}-{module.version}.jar" for module in modules]
    missing = [name for name in names if not (lib / name).exists()]
    if missing:
        raise PeerUnavailableError(f"the jars that were fetched lack {', '.join(missing)}")


if __name__ == "__main__":
    for wanted in VERSIONS:
        print(fetch_jars(find_jdk(), wanted))
    print(fetch_examples(find_jdk(), VERSIONS[0]))
