"""Get Apache RocketMQ's jars by name, with Maven or with the Ivy that PySpark ships.

`python -m interop.peer.fetch` fills the cache ahead of the tests.
"""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
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

_FETCH_TIMEOUT_S: Final = 1200.0
_OUTPUT_TAIL_CHARS: Final = 2000

_Way = Callable[[Jdk, str, Sequence[str], Path], None]


def fetch_jars(jdk: Jdk, version: str) -> Path:
    """Give the directory of all jars of that RocketMQ version, fetching them when absent."""
    return cached_directory(f"{version}/lib", partial(_fetch, jdk, version, _MODULES))


def fetch_examples(jdk: Jdk, version: str) -> Path:
    """Give the directory of RocketMQ's own examples and benchmarks with all jars they need.

    Maven Central has them for 5.5.0, but not for 4.9.
    """
    return cached_directory(f"{version}/example", partial(_fetch, jdk, version, _EXAMPLES))


def _fetch(jdk: Jdk, version: str, modules: Sequence[str], lib: Path) -> None:
    ways: list[_Way] = [fetch_with_maven, fetch_with_ivy]
    if shutil.which("mvn") is None:
        ways.remove(fetch_with_maven)
    failures = []
    for way in ways:
        try:
            way(jdk, version, modules, lib)
        except PeerUnavailableError as failure:
            failures.append(str(failure))
        else:
            return
    raise PeerUnavailableError(f"RocketMQ {version} could not be fetched: {'; '.join(failures)}")


def fetch_with_maven(jdk: Jdk, version: str, modules: Sequence[str], lib: Path) -> None:
    """Let `mvn` copy the modules and all they need at run time into `lib`."""
    with tempfile.TemporaryDirectory(prefix="roketto-mvn-") as work:
        pom = Path(work) / "pom.xml"
        pom.write_text(_pom(version, modules))
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        command = ["mvn", "-q", "-B", "-f", str(pom), *goal, f"-DoutputDirectory={lib}"]
        _run("Maven", command)
    _check(lib, version, modules)


def fetch_with_ivy(jdk: Jdk, version: str, modules: Sequence[str], lib: Path) -> None:
    """Let Ivy resolve the same modules and copy their jars into `lib`."""
    ivy = _ivy_jar()
    with tempfile.TemporaryDirectory(prefix="roketto-ivy-") as work:
        module = Path(work) / "ivy.xml"
        module.write_text(_ivy_module(version, modules))
        # The classifier belongs in the name: Netty's native libraries differ only in it.
        pattern = f"{lib}/[artifact]-[revision](-[classifier]).[ext]"
        command = [jdk.java, "-jar", str(ivy), "-ivy", str(module), "-cache", f"{work}/cache"]
        _run("Ivy", [*command, "-retrieve", pattern, "-types", "jar", "bundle"])
    _check(lib, version, modules)


def _pom(version: str, modules: Sequence[str]) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{_GROUP}</groupId><artifactId>{module}</artifactId>"
        f"<version>{version}</version></dependency>"
        for module in modules
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>roketto</groupId>"
        "<artifactId>peer</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def _ivy_module(version: str, modules: Sequence[str]) -> str:
    dependencies = "".join(
        f'<dependency org="{_GROUP}" name="{module}" rev="{version}" conf="default->default"/>'
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


def _check(lib: Path, version: str, modules: Sequence[str]) -> None:
    """A resolver that reports success without the modules has not succeeded."""
    missing = [name for name in modules if not (lib / f"{name}-{version}.jar").exists()]
    if missing:
        raise PeerUnavailableError(f"fetched jars of RocketMQ {version} lack {', '.join(missing)}")


if __name__ == "__main__":
    for wanted in VERSIONS:
        print(fetch_jars(find_jdk(), wanted))
    print(fetch_examples(find_jdk(), VERSIONS[0]))
