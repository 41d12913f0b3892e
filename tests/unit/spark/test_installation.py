"""Sources that travel by value bring their package along, to processes that have nothing of it."""

import os
import pickle
import subprocess
import sys
import sysconfig
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from roketto.spark import carrier, luggage
from roketto.spark.carrier import carried, dumps, platform_tag, unpack
from roketto.spark.installation import FORMATS, install

SITE = Path(sysconfig.get_paths()["purelib"])
WORKER = ("pyspark", "py4j", "pyarrow", "numpy", "numpy.libs")
"""What a worker has that knows nothing of us."""

MAKE = """
import sys
sys.path[:0] = [sys.argv[1]]
import os, pickle
from importlib.util import find_spec
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource
assert find_spec("roketto") is None and find_spec("msgspec") is None
made = pickle.load(sys.stdin.buffer)
assert issubclass(made, DataSource) and made.name() == "rocketmq", made
source = made(options=CaseInsensitiveDict({"nameServer": "127.0.0.1:1", "topic": "Orders"}))
assert isinstance(source, DataSource) and source.schema().fieldNames()[0] == "topic"
sys.stdout.buffer.write(cloudpickle.dumps(source))
"""
"""The process that makes a source of the registered class."""

PLAN = """
import sys
sys.path[:0] = [sys.argv[1]]
import pickle
from importlib.util import find_spec
from pyspark import cloudpickle
assert find_spec("roketto") is None
source = pickle.load(sys.stdin.buffer)
reader = source.streamReader(source.schema())
def read(): return reader, source.name()
read.__module__ = "pyspark.sql.worker.plan_data_source_read"
sys.stdout.buffer.write(cloudpickle.dumps(read))
"""
"""The one that makes its reader."""

READ = """
import sys
sys.path[:0] = [sys.argv[1]]
import inspect, pickle
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
reader, name = pickle.load(sys.stdin.buffer)()
assert isinstance(reader, DataSourceStreamReader) and name == "rocketmq"
assert isinstance(reader, SupportsTriggerAvailableNow)
assert list(inspect.signature(reader.latestOffset).parameters) == ["start", "limit"]
import roketto, msgspec
print(type(reader).__mro__[1].__module__, roketto.__file__, msgspec.__file__)
"""
"""The one on an executor, which has seen neither of these."""


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of a worker."""
    folder = tmp_path_factory.mktemp("worker")
    for name in WORKER:
        (folder / name).symlink_to(SITE / name)
    return folder


def run(worker: Path, program: str, given: bytes, folder: Path) -> bytes:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(worker)],
        input=given, env={**os.environ, "TMPDIR": str(folder)}, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_a_source_brings_its_package_from_process_to_process(worker: Path, tmp_path: Path) -> None:
    """As Spark does it: a class is registered, a source is made of it, of that one a reader."""
    registered: list[bytes] = []

    class Session:
        """What ``install`` knows of a session."""

        class dataSource:  # noqa: N801  Spark's name
            @staticmethod
            def register(made: type) -> None:
                registered.append(dumps(made))

    install(Session())  # type: ignore[arg-type]
    assert len(registered) == len(FORMATS) == 2
    source = run(worker, MAKE, registered[0], tmp_path)
    reader = run(worker, PLAN, source, tmp_path)
    module, ours, theirs = run(worker, READ, reader, tmp_path).decode().split()
    (unpacked,) = (tmp_path / f"roketto-{os.geteuid()}").iterdir()
    assert module == "roketto.spark.stream_reader"
    assert Path(ours) == unpacked / "roketto" / "__init__.py"
    assert Path(theirs) == unpacked / "msgspec" / "__init__.py"


def test_the_same_files_are_the_same_luggage(tmp_path: Path) -> None:
    """Else each driver would leave another copy on every worker."""
    packed: list[bytes] = []
    for at_s in (1_000_000_000, 1_700_000_000):
        for name in ("b", "a") if packed else ("a", "b"):
            (tmp_path / name).write_text(name)
            os.utime(tmp_path / name, (at_s, at_s))
        packed.append(luggage.zipped({path.name: path for path in tmp_path.iterdir()}))
    assert packed[0] == packed[1]
    _, _, content = luggage.pack()
    names = zipfile.ZipFile(BytesIO(content)).namelist()
    assert "roketto/spark/source.py" in names
    assert not [name for name in names if name.startswith(("roketto/broker", "roketto/store"))]
    assert len(content) < 8_000_000, "it travels with each query"


def make_luggage(made_for: str | None = None) -> carrier.Luggage:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in ("one", "two"):
            archive.writestr(f"luggage_{name}.py", f"NAME = {name!r}\n")
    return "0123", made_for or platform_tag(), packed.getvalue()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_what_a_cleaner_has_taken_is_unpacked_again(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for each process otherwise; nothing half is left behind."""
    folder = temporary / f"roketto-{os.geteuid()}" / "luggage-0123"
    for taken in ([], ["luggage_one.py"], ["luggage_one.py", "luggage_two.py"]):
        for name in taken:
            (folder / name).unlink()
        monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(folder)])
        unpack(make_luggage())
        assert names(folder) == ["luggage_one.py", "luggage_two.py"]
        assert sys.path[0] == str(folder)
        assert names(folder.parent) == [folder.name]
    before = list(sys.path)
    unpack(make_luggage())
    assert sys.path == before


def test_code_is_not_put_where_others_may_write(temporary: Path) -> None:
    """Whoever may write there could let this user run what they like."""
    shared = temporary / f"roketto-{os.geteuid()}"
    shared.mkdir()
    shared.chmod(0o777)
    unpack(make_luggage())
    assert names(shared) == []
    folder = Path(sys.path[0])
    assert folder.parent.parent == temporary
    assert folder.parent.stat().st_mode & 0o077 == 0


def test_another_platform_is_told_what_to_do(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it has the package of its own."""
    before = list(sys.path)
    unpack(make_luggage("cpython-312-macosx"))
    assert sys.path == before
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"packed roketto for cpython-312-macosx.*or install"):
        unpack(make_luggage("cpython-312-macosx"))


def test_a_carried_class_can_be_pickled_again_and_again(temporary: Path) -> None:
    """Also in a process that has the package itself."""
    made = carried(make_luggage(), "pyspark_rocketmq", "rocketmq")
    again = pickle.loads(dumps(pickle.loads(dumps(made))))
    source = again({"topic": "Orders"})
    assert source.name() == again.name() == "rocketmq"
    twice = pickle.loads(dumps(pickle.loads(dumps(source))))
    assert twice.options == {"topic": "Orders"}
