"""SQLite files by sqlite3: connections, transactions of our own, places in those of others."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from roketto.client.errors import ClientError

__all__ = ["TIMEOUT_S", "connect", "savepoint", "transaction"]

TIMEOUT_S: Final = 30.0
"""How long to wait for others to end their transactions; SQLite lets one write at a time."""

_SAVEPOINT: Final = "roketto_once"


def connect(path: str | Path, timeout_s: float = TIMEOUT_S) -> sqlite3.Connection:
    """A connection that any thread may use, one at a time; every statement commits by itself."""
    if not str(path) or ":memory:" in str(path):
        raise ClientError(
            f"{str(path)!r} is a database that only one connection sees; give the path of a file"
        )
    return sqlite3.connect(path, timeout_s, isolation_level=None, check_same_thread=False)


@contextmanager
def transaction(path: str | Path, timeout_s: float = TIMEOUT_S) -> Iterator[sqlite3.Connection]:
    """A connection with a transaction for writing, which ends with the block."""
    with closing(connect(path, timeout_s)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            _roll_back(connection, "ROLLBACK")
            raise
        connection.execute("COMMIT")


@contextmanager
def savepoint(connection: sqlite3.Connection) -> Iterator[None]:
    """A part of somebody else's transaction: undone if the block fails, otherwise left to them.

    Where they have not begun one yet, it is begun: sqlite3 begins them late, before the first
    statement that writes.
    """
    if not connection.in_transaction:
        connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"SAVEPOINT {_SAVEPOINT}")
    try:
        yield
    except BaseException:
        _roll_back(connection, f"ROLLBACK TO {_SAVEPOINT}", f"RELEASE {_SAVEPOINT}")
        raise
    if connection.in_transaction:  # otherwise they have committed it in the block
        connection.execute(f"RELEASE {_SAVEPOINT}")


def _roll_back(connection: sqlite3.Connection, *statements: str) -> None:
    """Undo what there is to undo; why it is undone is what everybody wants to know."""
    if connection.in_transaction:
        with suppress(sqlite3.Error):
            for statement in statements:
                connection.execute(statement)
