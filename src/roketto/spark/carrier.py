"""What travels by value: sources that bring their package to workers where it is not installed.

Nothing here may need anything of ours, for where it is run there may be nothing of ours yet: it
unpacks that first. Spark pickles a source and what it makes (readers, writers) at every turn, from
one process to the next, so each of them takes the luggage along, and is unpickled behind it.
"""

import contextlib
import importlib
import importlib.util
import io
import os
import pickle
import shutil
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource

__all__ = ["Luggage", "carried", "platform_tag", "unpack"]

Luggage = tuple[str, str, bytes]
"""Digest, the platform that it is for, and a zip archive."""

dumps: Callable[[object], bytes] = cloudpickle.dumps


def carried(luggage: Luggage, module: str, name: str) -> type[DataSource]:
    """A source for ``register`` that is the ``DefaultSource`` of a module in the luggage."""

    class CarriedSource(DataSource):
        """Making one unpacks the luggage and gives the real source."""

        def __new__(cls, options: dict[str, str]) -> Any:
            unpack(luggage)
            made = importlib.import_module(module).DefaultSource(options)
            return with_luggage(made, luggage)

        @classmethod
        def name(cls) -> str:
            return name

    return CarriedSource


def with_luggage(thing: Any, luggage: Luggage) -> Any:
    """The same object, which from now on is pickled together with the luggage.

    It gets a class of its own for that, below its real one: Spark looks at what readers and
    writers are instances of, and at the signatures of their methods.
    """
    real = type(thing)

    def reduce(self: Any) -> tuple[Any, ...]:
        self.__class__ = real
        try:
            return open_parcel, (luggage, dumps(self))
        finally:
            self.__class__ = outer

    def making(name: str) -> Any:
        def make(self: Any, *arguments: Any, **named: Any) -> Any:
            return with_luggage(getattr(super(outer, self), name)(*arguments, **named), luggage)

        return make

    added: dict[str, Any] = {"__reduce__": reduce}
    if isinstance(thing, DataSource):
        makes = ("reader", "streamReader", "simpleStreamReader", "writer", "streamWriter")
        added |= {name: making(name) for name in makes}
    outer: Any = type(real.__name__, (real,), added)
    thing.__class__ = outer
    return thing


def open_parcel(luggage: Luggage, pickled: bytes) -> Any:
    """What ``with_luggage`` has pickled, in a process that may have nothing of it yet."""
    unpack(luggage)
    return with_luggage(pickle.loads(pickled), luggage)  # noqa: S301  Spark's own


def unpack(luggage: Luggage) -> None:
    """Let this process import what the luggage has; it is unpacked once on each machine."""
    digest, made_for, content = luggage
    if any(Path(entry).name == f"luggage-{digest}" for entry in sys.path):
        return
    if made_for != platform_tag():
        if importlib.util.find_spec("roketto") is not None:
            return
        raise ImportError(
            f"install(spark) has packed roketto for {made_for}, and this worker is "
            f"{platform_tag()}: run the driver on the same Python and platform, or install "
            "roketto[spark] on the workers"
        )
    folder = private_folder() / f"luggage-{digest}"
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if not all((folder / name).exists() for name in archive.namelist()):
            extract(archive, folder)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()


def extract(archive: zipfile.ZipFile, folder: Path) -> None:
    """Make the folder, whole or not at all; also anew, where a cleaner has been at /tmp."""
    half = Path(tempfile.mkdtemp(dir=folder.parent, prefix="half-"))
    archive.extractall(half)
    with contextlib.suppress(OSError):
        folder.rename(half.with_suffix(".old"))
    with contextlib.suppress(OSError):  # another worker was quicker
        half.rename(folder)
    for left in (half, half.with_suffix(".old")):
        shutil.rmtree(left, ignore_errors=True)


def private_folder() -> Path:
    """A folder for temporary files that no other user can put code into."""
    folder = Path(tempfile.gettempdir()) / f"roketto-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    if folder.is_symlink() or state.st_uid != os.geteuid() or state.st_mode & 0o022:
        folder = Path(tempfile.mkdtemp(prefix="roketto-"))
    return folder


def platform_tag() -> str:
    """The Python and the platform that compiled modules are for."""
    return f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}"
