"""The package with what it needs, as bytes that can be unpacked where it is not installed."""

import hashlib
import importlib.metadata
import io
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import roketto
from roketto.spark.carrier import Luggage, platform_tag

__all__ = ["pack", "zipped"]

PARTS: Final = ("__init__.py", "clock.py", "admin", "client", "protocol", "remoting", "spark")
"""What of our package sources and sinks run on; servers stay at home."""

FORMATS: Final = ("pyspark_rocketmq", "pyspark_rocketmq_store")

LIBRARIES: Final = ("isal", "librt", "lz4", "msgspec", "mypy_extensions", "zstandard")
"""What clients import. Spark's workers have pyarrow and numpy, and uvloop is for servers."""

_SUFFIXES: Final = (".py", ".so", ".typed")
_LEFT_OUT: Final = ("_cffi.", "backend_cffi.")
"""zstandard brings a second backend for other Pythons, which is larger than all the rest."""


@cache
def pack() -> Luggage:
    """Everything that has to be on a worker, packed once for each process.

    The same files give the same bytes, and so the same digest: workers unpack them once.
    """
    content = zipped({**dict(_ours()), **dict(_libraries())})
    return hashlib.sha256(content).hexdigest()[:16], platform_tag(), content


def zipped(files: Mapping[str, Path]) -> bytes:
    """An archive of files by their names in it, which says nothing of when and by whom."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(files.items()):
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    return packed.getvalue()


def _ours() -> Iterator[tuple[str, Path]]:
    """Our files as they are installed, with compiled modules and the library of these."""
    package = Path(roketto.__file__).parent
    site = package.parent
    kept = [package / part for part in PARTS]
    kept += [site / name for name in FORMATS]
    kept += site.glob("*__mypyc*.so")
    for one in kept:
        for path in sorted(one.rglob("*")) if one.is_dir() else [one]:
            if path.suffix in _SUFFIXES:
                yield path.relative_to(site).as_posix(), path


def _libraries() -> Iterator[tuple[str, Path]]:
    for library in LIBRARIES:
        try:
            files = importlib.metadata.distribution(library).files or []
        except importlib.metadata.PackageNotFoundError:
            continue  # isal has no wheels for some processors, and we do without
        for file in files:
            is_inside = ".." not in file.parts and not file.parts[0].endswith(".dist-info")
            is_code = file.suffix in _SUFFIXES and not any(part in file.name for part in _LEFT_OUT)
            if is_inside and is_code:
                yield file.as_posix(), Path(str(file.locate()))
