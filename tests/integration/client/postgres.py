"""A PostgreSQL server for tests, from Debian's packages, in a directory of its own.

It is reached by a socket in that directory, so it takes no port. As root it runs as an unprivileged
user, for it refuses to run as root.
"""

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import psycopg
import pytest

from patience import in_time

_INSTALLED: Final = Path("/usr/lib/postgresql")
_CLUSTERS: Final = Path("/etc/postgresql-common/createcluster.conf")
_READY_S: Final = 30.0
_STOP_S: Final = 15.0
_OPTIONS: Final = {
    "listen_addresses": "",
    "fsync": "off",  # what it would survive is not what is tested here
    "max_connections": "40",
    "shared_buffers": "16MB",
}


@contextmanager
def postgres() -> Iterator[str]:
    """Run a server until the block ends; the value is its URL for SQLAlchemy."""
    programs = _find() or _install()
    folder = Path(tempfile.mkdtemp(prefix="roketto-postgres-"))
    try:
        user = _unprivileged()
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        initdb: list[Path | str] = [
            programs / "initdb", "--no-sync", "--auth=trust", "--username=postgres",
            "--encoding=UTF8", "--locale=C", "-D", folder / "data",
        ]  # fmt: skip
        with _spawn(initdb, folder, user) as made:
            assert made.wait(_READY_S) == 0, (folder / "initdb.log").read_text()
        options = [word for item in _OPTIONS.items() for word in ("-c", "=".join(item))]
        server: list[Path | str] = [
            programs / "postgres",
            "-D",
            folder / "data",
            "-k",
            folder,
            *options,
        ]
        with _spawn(server, folder, user) as running:
            try:
                _wait_until_ready(running, folder)
                yield f"postgresql+psycopg://postgres@/postgres?host={folder}"
            finally:
                running.send_signal(signal.SIGINT)  # ends connections, and stops cleanly
                running.wait(_STOP_S)
    finally:
        shutil.rmtree(folder)


def _find() -> Path | None:
    """Where the server's programs are: the newest of Debian's, or any that can be found."""
    versions = sorted(_INSTALLED.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if versions:
        return versions[-1].parent
    found = shutil.which("initdb")
    return None if found is None else Path(found).resolve().parent


def _install() -> Path:
    """Get it where we may; the test is skipped where it cannot be had, and fails under CI."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        _skip_or_fail("install PostgreSQL (apt install postgresql) to run this test")
    with Path(tempfile.gettempdir(), "roketto-postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other test processes want it, too
        if _find() is None:
            if not _CLUSTERS.exists():  # or else a server starts that nobody has asked for
                _CLUSTERS.parent.mkdir(exist_ok=True)
                _CLUSTERS.write_text("create_main_cluster = false\n")
            install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends"]
            if not _try([*install, "postgresql"]):
                _try(["apt-get", "update", "--quiet"])
                _try([*install, "postgresql"])
    found = _find()
    if found is None:
        _skip_or_fail("apt-get cannot install PostgreSQL here")
    return found


def _try(command: list[str]) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return not subprocess.run(command, env=environment, capture_output=True, check=False).returncode


def _skip_or_fail(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"PostgreSQL is required under CI: {reason}")
    pytest.skip(reason)


def _unprivileged() -> pwd.struct_passwd | None:
    """Who is to run it if we are root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]


def _spawn(
    command: list[Path | str], folder: Path, user: pwd.struct_passwd | None
) -> subprocess.Popen[bytes]:
    with (folder / f"{Path(command[0]).name}.log").open("wb") as log:
        return subprocess.Popen(
            list(map(str, command)), cwd=folder, stdout=log, stderr=log,
            env={**os.environ, "LC_ALL": "C", "HOME": str(folder)},
            user=None if user is None else user.pw_uid,
            group=None if user is None else user.pw_gid,
            extra_groups=None if user is None else [],
        )  # fmt: skip


def _wait_until_ready(server: subprocess.Popen[bytes], folder: Path) -> None:
    deadline_s = time.monotonic() + _READY_S
    while not _is_ready(folder):
        log = (folder / "postgres.log").read_text()
        assert server.poll() is None, f"PostgreSQL has ended: {log}"
        in_time(deadline_s, f"PostgreSQL is not ready: {log}")
        time.sleep(0.02)


def _is_ready(folder: Path) -> bool:
    try:
        psycopg.connect(host=str(folder), user="postgres", dbname="postgres").close()
    except psycopg.OperationalError:
        return False
    return True
