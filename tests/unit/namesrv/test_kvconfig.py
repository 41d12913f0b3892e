"""The KV configuration is on disk before it is visible, and never starts empty in silence."""

import asyncio
from pathlib import Path

import pytest

from roketto.namesrv import kvconfig
from roketto.namesrv.kvconfig import KvConfig
from roketto.options import ConfigError
from roketto.protocol.errors import RequestError
from roketto.safe_file import backup_of

JAVA_FILE = b'{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"a:4;b:4"},"EMPTY":{}}}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kvConfig.json"


def read(path: Path) -> bytes:
    return path.read_bytes()


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def test_value_is_found_again_after_a_restart(path: Path) -> None:
    kv = KvConfig(path)
    assert kv.get("n", "k") is None
    await kv.put("n", "k", "v ü")
    assert kv.get("n", "k") == "v ü"
    assert KvConfig(path).get("n", "k") == "v ü"


async def test_file_is_the_one_that_java_writes(path: Path) -> None:
    kv = KvConfig(path)
    await kv.put("ORDER_TOPIC_CONFIG", "T", "a:4")
    assert read(path) == b'{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"a:4"}}}'


def test_file_of_java_is_read(path: Path) -> None:
    write(path, JAVA_FILE)
    kv = KvConfig(path)
    assert kv.get("ORDER_TOPIC_CONFIG", "T") == "a:4;b:4"
    assert kv.table("EMPTY") == {}
    assert kv.table("unknown") is None


async def test_deleted_key_is_gone_and_its_namespace_stays(path: Path) -> None:
    kv = KvConfig(path)
    await kv.put("n", "k", "v")
    await kv.delete("n", "k")
    assert kv.table("n") == {}
    assert KvConfig(path).table("n") == {}


async def test_change_that_changes_nothing_writes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[bytes] = []
    monkeypatch.setattr(kvconfig, "replace_file", lambda path, new, old: writes.append(new))
    kv = KvConfig(path)
    await kv.delete("n", "k")
    assert writes == []
    await kv.put("n", "k", "v")
    await kv.put("n", "k", "v")
    assert len(writes) == 1


async def test_backup_is_one_change_behind(path: Path) -> None:
    kv = KvConfig(path)
    await kv.put("n", "k", "1")
    await kv.put("n", "k", "2")
    assert b'"1"' in read(backup_of(path))
    assert b'"2"' in read(path)


async def test_concurrent_changes_are_all_kept(path: Path) -> None:
    kv = KvConfig(path)
    await asyncio.gather(*(kv.put("n", f"k{i}", str(i)) for i in range(20)))
    assert KvConfig(path).table("n") == {f"k{i}": str(i) for i in range(20)}


async def test_change_of_a_client_that_left_is_finished(path: Path) -> None:
    kv = KvConfig(path)
    task = asyncio.create_task(kv.put("n", "k", "v"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await kv.put("n", "other", "v")  # waits for the one under way
    assert kv.table("n") == {"k": "v", "other": "v"}
    assert KvConfig(path).table("n") == {"k": "v", "other": "v"}


@pytest.mark.parametrize("cut", range(len(JAVA_FILE)))
def test_torn_file_is_replaced_by_its_backup(
    path: Path, caplog: pytest.LogCaptureFixture, cut: int
) -> None:
    write(path, JAVA_FILE[:cut])
    write(backup_of(path), b'{"configTable":{"n":{"k":"v"}}}')
    assert KvConfig(path).get("n", "k") == "v"
    assert str(backup_of(path)) in caplog.text


def test_missing_file_is_replaced_by_its_backup(path: Path) -> None:
    write(backup_of(path), b'{"configTable":{"n":{"k":"v"}}}')
    assert KvConfig(path).get("n", "k") == "v"


async def test_good_backup_survives_a_change_after_a_torn_file(path: Path) -> None:
    write(path, b'{"config')
    write(backup_of(path), b'{"configTable":{"n":{"k":"v"}}}')
    await KvConfig(path).put("n", "l", "w")
    assert KvConfig(path).table("n") == {"k": "v", "l": "w"}
    write(path, b"")
    assert KvConfig(path).table("n") == {"k": "v"}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"configTable":7}', b"\xff\xfe", b"{}"])
@pytest.mark.parametrize("has_backup", [False, True])
def test_unreadable_file_is_an_error_that_names_it(
    path: Path, content: bytes, has_backup: bool
) -> None:
    write(path, content)
    if has_backup:
        write(backup_of(path), b"garbage")
    with pytest.raises(ConfigError, match=r"kvConfig\.json"):
        KvConfig(path)


def test_directory_in_place_of_the_file_is_an_error(path: Path) -> None:
    path.mkdir()
    with pytest.raises(ConfigError, match="directory"):
        KvConfig(path)


@pytest.mark.parametrize(("namespace", "key"), [("", "k"), ("n", ""), ("n" * 256, "k")])
async def test_name_out_of_bounds_is_refused(path: Path, namespace: str, key: str) -> None:
    kv = KvConfig(path)
    with pytest.raises(RequestError, match="characters; write 1 to 255"):
        await kv.put(namespace, key, "v")
    assert kv.table(namespace) is None


async def test_full_table_refuses_more_and_keeps_what_it_has(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kvconfig, "KV_CONFIG_BYTES_MAX", 100)
    kv = KvConfig(path)
    await kv.put("n", "k", "v")
    with pytest.raises(RequestError, match="the bound is 100"):
        await kv.put("n", "l", "w" * 100)
    assert KvConfig(path).table("n") == kv.table("n") == {"k": "v"}


async def test_change_that_cannot_be_written_is_refused_and_invisible(path: Path) -> None:
    kv = KvConfig(path)
    path.parent.joinpath("kvConfig.json.tmp").mkdir()
    with pytest.raises(RequestError, match="cannot be written") as caught:
        await kv.put("n", "k", "v")
    assert caught.value.code == 1
    assert kv.get("n", "k") is None
