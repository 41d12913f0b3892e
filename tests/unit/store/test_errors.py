"""Errors of the store say where and why, and are one family."""

from pathlib import Path

import pytest

from roketto.store import errors


def test_a_corrupt_store_is_named_with_file_offset_and_reason() -> None:
    """The text has all three, and so has the object."""
    error = errors.CorruptStoreError(Path("/store/commitlog/0"), 4096, "the body's CRC is wrong")
    assert str(error) == "/store/commitlog/0 is damaged at byte 4096: the body's CRC is wrong"
    assert (error.path, error.offset) == (Path("/store/commitlog/0"), 4096)
    assert error.reason == "the body's CRC is wrong"


@pytest.mark.parametrize(
    "kind",
    [
        errors.CorruptStoreError,
        errors.DiskFullError,
        errors.FileSizeError,
        errors.StoreLockedError,
        errors.StoreReadOnlyError,
        errors.TableFullError,
    ],
)
def test_every_error_is_a_store_error(kind: type[Exception]) -> None:
    """Whoever answers requests catches one class; none of them is mistaken for an OSError."""
    assert issubclass(kind, errors.StoreError)
    assert not issubclass(kind, OSError)
