"""Proves how the peer is found and fetched, without a JVM: caches, locks, JDKs, ports."""

import os
import stat
import threading
import time
from pathlib import Path

import pytest

from interop.peer import PeerUnavailableError, fetch, java
from interop.peer.cache import cache_root, cached_directory
from interop.peer.outcome import skip_or_fail
from interop.peer.ports import lease_ports


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROKETTO_PEER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def no_jdk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without Java; the directory is the whole PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "_USUAL_PLACES", ())
    return programs


def test_cache_is_outside_the_repository_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ROKETTO_PEER_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache" / "roketto" / "peer"


def test_workers_that_race_for_a_directory_fill_it_once(cache: Path) -> None:
    filled = []

    def fill(directory: Path) -> None:
        filled.append(directory)
        time.sleep(0.2)
        (directory / "a.jar").write_text("whole")

    workers = [threading.Thread(target=cached_directory, args=("1/lib", fill)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(filled) == 1
    assert filled[0] != cache / "1" / "lib"  # it was not seen under its name while incomplete
    assert (cache / "1" / "lib" / "a.jar").read_text() == "whole"


def test_filling_that_fails_leaves_nothing_and_can_be_repeated(cache: Path) -> None:
    def fail(directory: Path) -> None:
        (directory / "half.jar").touch()
        raise PeerUnavailableError("line cut")

    with pytest.raises(PeerUnavailableError, match="line cut"):
        cached_directory("1/lib", fail)
    assert [entry.name for entry in (cache / "1").iterdir()] == [".lib.lock"]
    cached_directory("1/lib", lambda directory: (directory / "whole.jar").touch())
    assert (cache / "1" / "lib" / "whole.jar").exists()


def test_directory_without_the_mark_of_completion_is_replaced(cache: Path) -> None:
    (cache / "1" / "lib").mkdir(parents=True)
    (cache / "1" / "lib" / "half.jar").touch()
    cached_directory("1/lib", lambda directory: (directory / "whole.jar").touch())
    names = {entry.name for entry in (cache / "1" / "lib").iterdir()}
    assert names == {".complete", "whole.jar"}


def test_machine_without_java_is_told_what_to_install(no_jdk: Path) -> None:
    with pytest.raises(PeerUnavailableError, match=r"no JDK 11 .* found: install one"):
        java.find_jdk()


@pytest.mark.parametrize(
    ("release", "reason"),
    [('JAVA_VERSION="1.8.0_392"', "Java 8"), ('JAVA_VERSION="10.0.2"', "Java 10")],
)
def test_jdk_that_is_too_old_is_named_in_the_reason(
    no_jdk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, reason: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_jdk(tmp_path / "old", release)))
    with pytest.raises(PeerUnavailableError, match=rf"old \({reason}\)"):
        java.find_jdk()


def test_runtime_without_a_compiler_is_passed_over_for_a_jdk_on_the_path(
    no_jdk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jre" / "bin").mkdir(parents=True)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jre"))
    home = make_jdk(tmp_path / "jdk", 'IMPLEMENTOR="x"\nJAVA_VERSION="21.0.1"')
    (no_jdk / "javac").symlink_to(home / "bin" / "javac")
    assert java.find_jdk() == java.Jdk(home, 21)


def test_javac_is_asked_where_no_release_file_tells_the_version(
    no_jdk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_jdk(tmp_path / "jdk", release=None, javac="#!/bin/sh\necho javac 17.0.2\n")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.find_jdk().version == 17


def test_ivy_is_tried_where_maven_fails_and_the_reason_names_both(
    cache: Path, no_jdk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_program(no_jdk / "mvn", "#!/bin/sh\necho maven is broken\nexit 3\n")
    make_program(no_jdk / "java", "#!/bin/sh\necho ivy is broken\nexit 4\n")
    monkeypatch.setattr(fetch, "_ivy_jar", lambda: Path("ivy.jar"))
    jdk = java.Jdk(no_jdk.parent, 17)
    with pytest.raises(
        PeerUnavailableError, match=r"(?s)9\.9\.9.*3: maven is broken.*4: ivy is broken"
    ):
        fetch.fetch_jars(jdk, "9.9.9")


def test_resolver_that_claims_success_without_the_jars_is_not_believed(
    cache: Path, no_jdk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_program(no_jdk / "java", "#!/bin/sh\nexit 0\n")
    monkeypatch.setattr(fetch, "_ivy_jar", lambda: Path("ivy.jar"))
    with pytest.raises(PeerUnavailableError, match="lack rocketmq-namesrv"):
        fetch.fetch_jars(java.Jdk(no_jdk.parent, 17), "9.9.9")
    assert not (cache / "9.9.9" / "lib").exists()


def test_peer_that_cannot_be_had_skips_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no JDK"):
        skip_or_fail(PeerUnavailableError("no JDK"))


def test_peer_that_cannot_be_had_fails_under_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="required under CI: no JDK"):
        skip_or_fail(PeerUnavailableError("no JDK"))


def test_leased_ports_are_not_given_out_again_before_their_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = lease_ports((-2, 0, 1))
    other = lease_ports()
    other.release()
    offers = iter([broker.first - 2, broker.first, broker.first + 1, other.first])
    monkeypatch.setattr("random.randrange", lambda *bounds: next(offers))
    taken = lease_ports()
    assert taken.first == other.first
    taken.release()
    broker.release()


def make_jdk(home: Path, release: str | None, javac: str = "#!/bin/sh\n") -> Path:
    (home / "bin").mkdir(parents=True)
    make_program(home / "bin" / "javac", javac)
    if release is not None:
        (home / "release").write_text(release + "\n")
    return home


def make_program(path: Path, script: str) -> None:
    path.write_text(script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    assert os.access(path, os.X_OK)
