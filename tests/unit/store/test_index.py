"""Proves that the index has Java's files and answers, rolls, repairs itself and forgets."""

import json
from datetime import UTC, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.properties import encode_properties
from roketto.store.errors import DiskFullError
from roketto.store.files import Files, MappedFile
from roketto.store.index import MAPS_MAX, WAITING_MAX, Index
from roketto.store.index_ahead import NEXT_NAME
from roketto.store.indexfile import file_bytes
from roketto.store.run_properties import RunProperties
from sim.files import CrashFiles
from sim.worker import InlineWorker

GOLDEN: Any = json.loads(
    (Path(__file__).parents[2] / "golden/store/index-5.5.0.json").read_text("utf-8")
)
SLOTS, ENTRIES = 4, 6
T0 = 1_700_000_000_000


def new_index(
    directory: Path,
    now_ms: int = T0,
    slots: int = SLOTS,
    entries: int = ENTRIES,
    waiting_max: int = WAITING_MAX,
    maps_max: int = MAPS_MAX,
    files: Files | None = None,
    hashes_at_once: bool = False,
) -> Index:
    return Index(
        files or Files(), directory, lambda: now_ms, UTC, slots, entries, waiting_max, maps_max,
        hashes_at_once,
    )  # fmt: skip


def filled(directory: Path, count: int) -> Index:
    index = new_index(directory)
    for n in range(count):
        index.put("T", f"k{n}", None, n * 100, T0 + n * 1000)
    return index


def query(index: Index, key: str, begin_ms: int = 0, end_ms: int = 2 * T0) -> list[int]:
    return index.query("T", key, 64, begin_ms, end_ms)


@pytest.mark.parametrize("hashes_at_once", [False, True])
def test_the_same_puts_give_javas_bytes_and_answers(tmp_path: Path, hashes_at_once: bool) -> None:
    index = new_index(
        tmp_path,
        slots=GOLDEN["slots"],
        entries=GOLDEN["entries"],
        hashes_at_once=hashes_at_once,
    )
    for put in GOLDEN["puts"]:
        index.put(put["topic"], put.get("unique"), put.get("keys"), put["offset"], put["time"])
    contents = [(tmp_path / name).read_bytes().hex() for name in index.file_names]
    assert contents == GOLDEN["files"]
    assert len(contents) > 2
    for row in GOLDEN["queries"]:
        found = index.query(row["topic"], row["key"], row["max"], row["begin"], row["end"])
        assert found == row["found"], row
    index.close()


def test_javas_files_open_and_answer_as_in_java(tmp_path: Path) -> None:
    for number, content in enumerate(GOLDEN["files"]):
        (tmp_path / f"{20231114221320000 + number}").write_bytes(bytes.fromhex(content))
    index = new_index(tmp_path, slots=GOLDEN["slots"], entries=GOLDEN["entries"])
    assert index.load(writable=False) == []
    for row in GOLDEN["queries"]:
        found = index.query(row["topic"], row["key"], row["max"], row["begin"], row["end"])
        assert found == row["found"], row
    with_keys = [put for put in GOLDEN["puts"] if put.get("unique") or put.get("keys")]
    assert index.log_offset_max == with_keys[-1]["offset"]
    index.close()


def test_each_key_finds_the_message_and_blanks_make_none(tmp_path: Path) -> None:
    index = new_index(tmp_path)
    index.put("T", "u", " a  b ", 100, T0)
    index.put("T", None, None, 200, T0)
    index.put("T", "", "", 300, T0)
    assert [query(index, key) for key in ("u", "a", "b", "")] == [[100], [100], [100], []]
    index.close()


def test_keys_that_do_not_fit_go_on_in_the_next_file(tmp_path: Path) -> None:
    index = new_index(tmp_path)
    keys = [f"k{n}" for n in range(2 * ENTRIES)]
    index.put("T", "u", " ".join(keys), 100, T0)
    assert len(index.file_names) == 3
    assert all(query(index, key) == [100] for key in ("u", *keys))
    index.close()


def test_without_keys_no_file_is_made(tmp_path: Path) -> None:
    index = new_index(tmp_path / "index")
    index.put("T", None, None, 0, T0)
    assert (index.file_names, index.log_offset_max, index.end_time_ms) == ([], -1, 0)
    assert not (tmp_path / "index").exists()


def test_messages_indexed_before_are_not_filed_again(tmp_path: Path) -> None:
    index = filled(tmp_path, 3)
    index.put("T", "k1", None, 100, T0)
    index.put("T", "k2", None, 200, T0)  # the newest: a crash may have come between its keys
    assert query(index, "k1") == [100]
    assert query(index, "k2") == [200, 200]
    index.close()


def test_files_are_named_by_local_time_and_never_before_an_older_one(tmp_path: Path) -> None:
    now = [1_700_000_000_005]
    index = Index(Files(), tmp_path, lambda: now[0], timezone(timedelta(hours=8)), SLOTS, ENTRIES)
    for n in range(2 * ENTRIES):
        index.put("T", f"k{n}", None, n, T0)
        index.flush()
        now[0] -= 1000
    assert index.file_names == ["20231115061320005", "20231115061320006", "20231115061320007"]
    index.close()


def test_a_query_walks_back_through_the_files_until_it_has_enough(tmp_path: Path) -> None:
    index = new_index(tmp_path)
    for n in range(13):
        index.put("T", "k", None, n, T0 + n * 1000)
    assert len(index.file_names) == 3
    assert query(index, "k") == list(range(12, -1, -1))
    assert index.query("T", "k", 4, 0, 2 * T0) == [12, 11, 10, 9]
    assert query(index, "k", T0 + 7000, T0 + 8000) == [8, 7]
    assert index.query("T", "k", 1000, 0, T0 - 1) == []
    assert index.end_time_ms == T0 + 12_000
    index.close()


def searched(index: Index, key: str, looks: int, begin_ms: int, end_ms: int) -> list[int]:
    search = index.search("T", key, begin_ms, end_ms)
    offsets: list[int] = []
    while not search.is_done:
        offsets += search.step(looks)
    return offsets


def test_a_search_in_pieces_walks_back_through_the_files(tmp_path: Path) -> None:
    index = new_index(tmp_path)
    assert searched(index, "k", 1, 0, 2 * T0) == []
    assert index.last_update == (0, 0)
    for n in range(13):
        index.put("T", "k", None, n, T0 + n * 1000)
    for looks in (1, 2, 100):
        assert searched(index, "k", looks, 0, 2 * T0) == list(range(12, -1, -1))
        assert searched(index, "k", looks, T0 + 7000, T0 + 8000) == [8, 7]
        assert searched(index, "k", looks, 0, T0 - 1) == []
        assert searched(index, "other", looks, 0, 2 * T0) == []
    assert index.last_update == (T0 + 12_000, 12)
    index.close()


def test_files_that_go_during_a_search_are_passed_by(tmp_path: Path) -> None:
    """The log has lost their messages; and what is filed meanwhile is not looked for."""
    index = new_index(tmp_path)
    for n in range(13):
        index.put("T", "k", None, n, T0 + n * 1000)
    search = index.search("T", "k", 0, 2 * T0)
    assert search.step(2) == [12, 11]
    index.put("T", "k", None, 13, T0 + 13_000)
    assert index.delete_below(10) == 2
    found = []
    while not search.is_done:
        found += search.step(2)
    assert found == [10]
    index.close()


def test_one_query_finds_no_more_than_the_bound(tmp_path: Path) -> None:
    index = new_index(tmp_path, entries=200)
    for n in range(100):
        index.put("T", "k", None, n, T0)
    assert len(index.query("T", "k", 1000, 0, 2 * T0)) == 64
    index.close()


def test_a_closed_index_is_found_again_and_continues(tmp_path: Path) -> None:
    first = filled(tmp_path, 7)
    first.close()
    (tmp_path / "notes.txt").write_text("not ours")
    again = new_index(tmp_path)
    assert again.load() == []
    assert again.log_offset_max == 600
    again.put("T", "k7", None, 700, T0 + 7000)
    assert [query(again, f"k{n}") for n in range(8)] == [[n * 100] for n in range(8)]
    again.close()


@pytest.mark.parametrize("damage", ["short", "empty", "header", "order"])
def test_a_damaged_file_goes_with_all_newer_ones(tmp_path: Path, damage: str) -> None:
    index = filled(tmp_path, 15)
    first, second, third = (tmp_path / name for name in index.file_names)
    index.close()
    content = bytearray(second.read_bytes())
    if damage == "header":
        content[36:40] = b"\x7f" * 4
    elif damage == "order":
        content[16:32] = bytes(16)
    size = {"short": 100, "empty": 0}.get(damage, len(content))
    second.write_bytes(content[:size])

    looked_at = new_index(tmp_path)
    assert looked_at.load(writable=False) == [second, third]
    looked_at.close()
    assert third.exists()

    repaired = new_index(tmp_path)
    assert repaired.load() == [second, third]
    assert repaired.log_offset_max == 400
    assert [path.name for path in tmp_path.iterdir()] == [first.name]
    for n in range(4, 15):
        repaired.put("T", f"k{n}", None, n * 100, T0 + n * 1000)
    assert [query(repaired, f"k{n}")[:1] for n in range(15)] == [[n * 100] for n in range(15)]
    repaired.close()


def test_after_a_crash_files_newer_than_the_checkpoint_go(tmp_path: Path) -> None:
    index = filled(tmp_path, 12)
    checkpoint_ms = index.sync()
    assert checkpoint_ms == T0 + 9000  # the end of the second file, the newest that is full
    names = index.file_names
    index.close()
    again = new_index(tmp_path)
    assert again.load(checkpoint_ms) == [tmp_path / names[2]]
    assert again.log_offset_max == 900
    again.close()


class CountedSyncs:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.error: OSError | None = None
        monkeypatch.setattr(MappedFile, "sync", self._sync_of())

    def _sync_of(self) -> Any:
        def sync(mapped: MappedFile) -> None:
            self.names.append(mapped.path.name)
            if self.error:
                raise self.error

        return sync


def test_a_sync_visits_what_was_put_since_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = CountedSyncs(monkeypatch)
    index = filled(tmp_path, 7)
    assert index.sync() == T0 + 4000
    assert syncs.names == index.file_names
    index.sync()
    assert syncs.names == index.file_names
    index.put("T", "k", None, 700, T0 + 7000)
    syncs.error = OSError("broken disk")
    with pytest.raises(OSError, match="broken disk"):
        index.sync()
    syncs.error = None
    index.sync()
    assert syncs.names[2:] == index.file_names[1:] * 2
    index.close()


def test_an_index_without_full_files_has_no_checkpoint(tmp_path: Path) -> None:
    index = filled(tmp_path, 2)
    assert index.sync() == 0
    index.close()


@pytest.mark.parametrize("kept", range(15))
def test_truncation_leaves_what_fewer_puts_would_have_left(tmp_path: Path, kept: int) -> None:
    cut, model = filled(tmp_path / "cut", 15), filled(tmp_path / "model", kept)
    cut.truncate(kept * 100)
    contents = [(tmp_path / "cut" / name).read_bytes() for name in cut.file_names]
    assert contents == [(tmp_path / "model" / name).read_bytes() for name in model.file_names]
    assert cut.log_offset_max == model.log_offset_max
    cut.close()
    model.close()


def test_files_below_the_log_go_but_never_the_last(tmp_path: Path) -> None:
    index = filled(tmp_path, 12)
    assert index.delete_below(400) == 0
    assert index.delete_below(401) == 1
    assert index.delete_below(10**9) == 1
    assert index.delete_below(10**9) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == index.file_names
    assert query(index, "k11") == [1100]
    index.close()


def test_removing_files_below_the_log_can_be_left_to_somebody_else(tmp_path: Path) -> None:
    index = filled(tmp_path, 12)
    names = index.file_names
    left: list[Path] = []
    assert index.delete_below(10**9, left.append) == 2
    assert [path.name for path in left] == names[:2]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert query(index, "k11") == [1100]
    index.close()


def test_a_cleared_index_can_be_rebuilt(tmp_path: Path) -> None:
    index = filled(tmp_path, 12)
    index.clear()
    assert list(tmp_path.iterdir()) == []
    index.put("T", "k0", None, 0, T0)
    assert query(index, "k0") == [0]
    assert (tmp_path / index.file_names[0]).stat().st_size == file_bytes(SLOTS, ENTRIES)
    index.close()


# --- marks ----------------------------------------------------------------------------------------


def contents(index: Index) -> list[bytes]:
    return [(index.directory / name).read_bytes() for name in index.file_names]


def test_an_index_goes_back_to_its_mark_after_a_crash(tmp_path: Path) -> None:
    """Whatever was put since is taken back: in the file of the mark, and in newer ones."""
    index = filled(tmp_path, 8)
    assert len(index.file_names) == 2
    before, mark = contents(index), index.mark()
    for n in range(8, 20):
        index.put("T", f"k{n}", None, n * 100, T0 + n * 1000)
    index.close()
    again = new_index(tmp_path)
    assert again.load_marked(mark, is_exact=False)
    assert len(again.file_names) == 2
    assert [query(again, f"k{n}") for n in range(9)] == [[n * 100] for n in range(8)] + [[]]
    assert contents(again)[0] == before[0]
    for n in range(8, 20):
        again.put("T", f"k{n}", None, n * 100, T0 + n * 1000)
    assert [query(again, f"k{n}") for n in range(20)] == [[n * 100] for n in range(20)]
    again.close()


def test_an_index_after_a_clean_stop_must_be_as_it_was(tmp_path: Path) -> None:
    """A header that is another one now belongs to a stale or garbled file."""
    index = filled(tmp_path, 8)
    mark = index.mark()
    index.close()
    again = new_index(tmp_path)
    assert again.load_marked(mark, is_exact=True)
    again.put("T", "more", None, 900, T0 + 9000)
    again.close()
    last = new_index(tmp_path)
    assert not last.load_marked(mark, is_exact=True)
    assert len(last.file_names) == 1
    assert last.log_offset_max == 400
    last.close()


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("kind", ["gone", "short", "stale"])
@pytest.mark.parametrize("is_exact", [True, False])
def test_what_is_missing_of_a_marked_index_is_noticed(
    tmp_path: Path, number: int, kind: str, is_exact: bool
) -> None:
    """Files before the damage stay; if one is gone, nobody knows which, and none does."""
    index = filled(tmp_path, 13)
    assert len(index.file_names) == 3
    mark = index.mark()
    path = tmp_path / index.file_names[number]
    index.close()
    if kind == "gone":
        path.unlink()
    elif kind == "short":
        path.write_bytes(b"short")
    else:
        path.write_bytes(bytes(file_bytes(SLOTS, ENTRIES)))
    again = new_index(tmp_path)
    assert not again.load_marked(mark, is_exact=is_exact)
    assert len(again.file_names) == (0 if kind == "gone" else number)
    assert len(list(tmp_path.iterdir())) == len(again.file_names)
    again.close()


def test_an_index_without_files_has_a_mark_too(tmp_path: Path) -> None:
    """Files that came later are taken back then."""
    index = new_index(tmp_path)
    mark = index.mark()
    assert index.load_marked(mark, is_exact=True)
    index.put("T", "k", None, 0, T0)
    index.close()
    again = new_index(tmp_path)
    assert again.load_marked(mark, is_exact=False)
    assert again.file_names == []


# --- messages that wait ---------------------------------------------------------------------------

MESSAGES = st.tuples(
    st.sampled_from(["T", "U"]),
    st.sampled_from(["", "u", "v", "\u00e9"]),
    st.sampled_from(["", "a", "a b", "b  c d", "\u4e2d b"]),
    st.integers(0, 12),
    st.integers(0, 9_000),
)


@given(st.lists(MESSAGES, max_size=30), st.lists(st.integers(0, 30), max_size=3))
def test_messages_filed_together_make_the_files_that_they_make_alone(
    messages: list[tuple[str, str, str, int, int]], flushes: list[int]
) -> None:
    """Over the ends of files, with repeats of what is filed already, wherever it is done."""
    files = CrashFiles()
    together, apart = (
        Index(files, Path(name), lambda: T0, UTC, SLOTS, ENTRIES) for name in ("/a", "/b")
    )
    for number, (topic, unique_key, keys, offset, later_ms) in enumerate(messages):
        if number in flushes:
            together.flush()
        for index in (together, apart):
            index.put(topic, unique_key, keys, number * 2 - offset, T0 + later_ms)
        apart.flush()
    assert together.log_offset_max == apart.log_offset_max
    assert together.file_names == apart.file_names
    for name in apart.file_names:
        size = file_bytes(SLOTS, ENTRIES)
        mapped = [files.open_mapped(Path(folder, name), size) for folder in ("/a", "/b")]
        assert bytes(mapped[0].view) == bytes(mapped[1].view)
    for index in (together, apart):
        index.close()


def test_a_run_of_messages_is_filed_as_its_messages_are(tmp_path: Path) -> None:
    together, apart = new_index(tmp_path / "a"), new_index(tmp_path / "b")
    raws = [encode_properties({"KEYS": f"k{n}", "UNIQ_KEY": f"u{n}"}) for n in range(5)]
    together.add_run("T", RunProperties(raws), 100, [10, 20, 30, 40, 50], T0)
    for raw, log_offset in zip(raws, (100, 110, 130, 160, 200), strict=True):
        apart.add("T", raw, log_offset, T0)
    together.add_run("T", RunProperties(raws), 300, [10] * len(raws), T0 + 1_000)
    for number, raw in enumerate(raws):
        apart.add("T", raw, 300 + number * 10, T0 + 1_000)
    assert contents(together) == contents(apart)
    assert query(together, "u4") == query(together, "k4") == [340, 200]
    together.close()
    apart.close()


def test_no_more_messages_wait_than_the_bound(tmp_path: Path) -> None:
    index = new_index(tmp_path, entries=100, waiting_max=3)
    for n in range(10):
        index.add("T", b"KEYS\x01k\x02", n * 10, T0)
        assert index._waiting.count <= 3
    for n in range(10, 20, 2):
        index.add_run("T", RunProperties([b"KEYS\x01k\x02"] * 2), n * 10, [10, 10], T0)
        assert index._waiting.count <= 4
    assert query(index, "k") == [n * 10 for n in range(19, -1, -1)]
    index.close()


def test_messages_with_much_to_say_are_filed_a_few_at_a_time(tmp_path: Path) -> None:
    index = new_index(tmp_path, entries=100)
    for n in range(20):
        index.put("T", f"u{n}", f"k{n}" + " " * 32_000 * (n % 3), n * 10, T0)
    index.put("T", None, None, 900, T0)
    index.put("T", "", " " * 250_000, 901, T0)
    assert [query(index, f"u{n}") for n in range(20)] == [[n * 10] for n in range(20)]
    assert [query(index, f"k{n}") for n in range(20)] == [[n * 10] for n in range(20)]
    index.close()


class FullDisk:
    """A disk that may have no room for another file of the index."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        create = Files.create_mapped

        def create_mapped(files: Files, path: Path, size: int) -> MappedFile:
            if self.is_full:
                raise DiskFullError("no room")
            return create(files, path, size)

        monkeypatch.setattr(Files, "create_mapped", create_mapped)


def test_what_finds_no_room_waits_until_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a key is lost or filed twice, and nothing claims that they are in the files."""
    disk = FullDisk(monkeypatch)
    index = new_index(tmp_path, waiting_max=1)
    index.put("T", "u0", "a b", 0, T0)
    index.flush()
    disk.is_full = True
    index.put("T", "u1", "c d e f g h i", 100, T0)  # two of them have room
    for ask in (index.flush, index.mark, index.sync):
        with pytest.raises(DiskFullError):
            ask()
    assert [query(index, key) for key in ("u0", "u1", "c", "d", "i")] == [
        [0], [100], [100], [], [],
    ]  # fmt: skip
    assert index.delete_below(1_000) == 0
    index.put("T", "u2", None, 200, T0)
    with pytest.raises(DiskFullError):
        index.put("T", "u3", None, 300, T0)
    disk.is_full = False
    assert query(index, "u3") == []  # it was refused
    index.put("T", "u3", None, 300, T0)
    found = [query(index, key) for key in ("u1", *"cdefghi", "u2", "u3")]
    assert found == [[100]] * 8 + [[200], [300]]
    index.close()


def test_closing_does_not_fail_for_what_finds_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has it; whoever opens the index again adds it."""
    disk = FullDisk(monkeypatch)
    index = filled(tmp_path, 5)
    index.flush()
    disk.is_full = True
    index.put("T", "more", None, 900, T0)
    index.close()
    disk.is_full = False
    again = new_index(tmp_path)
    again.load()
    assert again.log_offset_max == 400
    again.close()


def test_a_sync_that_was_taken_is_for_what_was_filed_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may run in another thread, so it touches nothing of what waits."""
    syncs = CountedSyncs(monkeypatch)
    index = filled(tmp_path, 5)
    index.mark()
    sync = index.take_sync()
    index.put("T", "later", None, 900, T0 + 9000)
    assert sync() == T0 + 4000
    assert len(syncs.names) == 1
    assert index._waiting.count == 1
    index.close()


# --- files made ahead -----------------------------------------------------------------------------


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_files_made_ahead_have_javas_bytes_and_names(tmp_path: Path) -> None:
    """All but the first are made ahead, and nobody can tell."""
    index = new_index(tmp_path, slots=GOLDEN["slots"], entries=GOLDEN["entries"])
    taken = 0
    for put in GOLDEN["puts"]:
        index.put(put["topic"], put.get("unique"), put.get("keys"), put["offset"], put["time"])
        index.flush()
        taken += NEXT_NAME in names(tmp_path)
        index.prepare_ahead(InlineWorker())
    contents = [(tmp_path / name).read_bytes().hex() for name in index.file_names]
    assert contents == GOLDEN["files"]
    assert taken >= len(contents) - 1, "no file was made ahead"
    index.close()


def test_the_next_file_is_made_when_half_of_the_last_is_used(tmp_path: Path) -> None:
    """Under a name that Java leaves alone, and once; none before the first, nor an unused one."""
    index = new_index(tmp_path)
    worker = InlineWorker()
    index.prepare_ahead(worker)
    assert names(tmp_path) == []
    for n in range(ENTRIES // 2 - 1):
        index.prepare_ahead(worker)
        index.put("T", f"k{n}", None, n, T0)
        index.flush()
    assert names(tmp_path) == index.file_names
    for _ in range(3):
        index.prepare_ahead(worker)
    (first,) = index.file_names
    assert names(tmp_path) == [first, NEXT_NAME]
    for n in range(ENTRIES // 2 - 1, ENTRIES):
        index.put("T", f"k{n}", None, n, T0)
    index.flush()
    assert names(tmp_path) == index.file_names
    assert len(index.file_names) == 2
    assert [query(index, f"k{n}") for n in range(ENTRIES)] == [[n] for n in range(ENTRIES)]
    index.close()


@pytest.mark.parametrize("is_marked", [False, True])
def test_a_file_that_was_made_ahead_of_a_crash_is_removed(tmp_path: Path, is_marked: bool) -> None:
    """Nothing was put into it; one that is only looked at keeps it."""
    index = filled(tmp_path, ENTRIES - 2)
    index.sync()
    mark = index.mark()
    index.prepare_ahead(InlineWorker())
    assert NEXT_NAME in names(tmp_path)
    again = new_index(tmp_path)
    assert again.load(writable=False) == []
    assert NEXT_NAME in names(tmp_path)
    again = new_index(tmp_path)
    if is_marked:
        assert again.load_marked(mark, is_exact=True)
    else:
        assert again.load() == []
    assert names(tmp_path) == again.file_names
    assert query(again, "k0") == [0]
    again.close()


def test_a_file_made_ahead_is_safe_with_its_name_after_the_next_sync() -> None:
    """Whatever power loss takes: the sync brings the name to the disk, and not before its file."""
    for seed in range(20):
        files = CrashFiles()
        index = new_index(Path("/index"), files=files)
        for n in range(ENTRIES):
            index.put("T", f"k{n}", None, n, T0)
            index.flush()
            index.prepare_ahead(InlineWorker())
        assert len(index.file_names) == 2
        unsynced = files.crash(seed, keep=0.0)
        assert unsynced.loss.names_dropped, "the name was on the disk already"
        index.sync()
        mark = index.mark()
        after = files.crash(seed, keep=0.0)
        again = new_index(Path("/index"), files=after)
        assert again.load_marked(mark, is_exact=False)
        assert again.file_names == index.file_names
        assert all(query(again, f"k{n}") == [n] for n in range(ENTRIES))


# --- maps -----------------------------------------------------------------------------------------


class CountedFiles(Files):
    """Knows which files of the index are mapped."""

    def __init__(self) -> None:
        super().__init__()
        self.maps: list[MappedFile] = []
        self.mapped_max = 0

    def _count(self, mapped: MappedFile) -> MappedFile:
        self.maps.append(mapped)
        self.mapped_max = max(self.mapped_max, len(self.mapped))
        return mapped

    @property
    def mapped(self) -> list[str]:
        return sorted(mapped.path.name for mapped in self.maps if not mapped._is_closing)

    def create_mapped(self, path: Path, size: int) -> MappedFile:
        return self._count(super().create_mapped(path, size))

    def open_mapped(self, path: Path, size: int, *, writable: bool = True) -> MappedFile:
        return self._count(super().open_mapped(path, size, writable=writable))


def test_only_the_newest_files_stay_mapped(tmp_path: Path) -> None:
    """Older ones are mapped for a query and let go again, whoever asks and however often."""
    count = 12 * (ENTRIES - 1)
    files = CountedFiles()
    index = new_index(tmp_path, maps_max=3, files=files)
    for n in range(count):
        index.put("T", f"k{n}", None, n, T0 + n * 1000)
        index.sync()
    assert len(index.file_names) == 12
    assert files.mapped == index.file_names[-3:]
    for n in range(count):
        time_ms = T0 + n * 1000
        assert query(index, f"k{n}", time_ms - 2000, time_ms + 2000) == [n]
    assert query(index, "k0") == [0], "a query through all files"
    assert files.mapped_max <= 4
    assert index.file_names[-1] in files.mapped, "the one in use was let go"
    index.close()
    assert files.mapped == []


@pytest.mark.parametrize("is_writable", [False, True])
def test_a_load_leaves_only_the_newest_files_mapped(tmp_path: Path, is_writable: bool) -> None:
    """The older ones answer and the newest one takes entries, as if all were."""
    filled(tmp_path, 10 * (ENTRIES - 1) + 1).close()
    files = CountedFiles()
    index = new_index(tmp_path, maps_max=3, files=files)
    assert index.load(writable=is_writable) == []
    assert len(index.file_names) == 11
    assert files.mapped == index.file_names[-3:]
    assert files.mapped_max <= 4
    assert all(query(index, f"k{n}") == [n * 100] for n in range(10 * (ENTRIES - 1) + 1))
    assert files.mapped_max <= 4
    index.close()


def test_a_file_with_unsynced_entries_stays_mapped(tmp_path: Path) -> None:
    """Who lets it go would not hear that it could not be written."""
    files = CountedFiles()
    index = new_index(tmp_path, maps_max=2, files=files)
    for n in range(6 * (ENTRIES - 1)):
        index.put("T", f"k{n}", None, n, T0)
    index.flush()
    assert files.mapped == index.file_names
    index.sync()
    assert query(index, "k0") == [0]
    assert len(files.mapped) <= 2
    index.close()


def test_an_older_file_that_becomes_the_newest_takes_entries(tmp_path: Path) -> None:
    """What a crash has taken back may end in a file that was only there to be read."""
    filled(tmp_path, 4 * (ENTRIES - 1)).close()
    index = new_index(tmp_path, maps_max=1)
    index.load()
    index.truncate(2 * (ENTRIES - 1) * 100 - 100)
    assert len(index.file_names) == 2
    for n in range(2 * (ENTRIES - 1) - 1, 4 * (ENTRIES - 1)):
        index.put("T", f"k{n}", None, n * 100, T0 + n * 1000)
    assert all(query(index, f"k{n}") == [n * 100] for n in range(4 * (ENTRIES - 1)))
    index.close()


def test_removed_files_are_not_mapped_any_more(tmp_path: Path) -> None:
    """Those of messages that the log has lost, and all of them."""
    files = CountedFiles()
    index = new_index(tmp_path, files=files)
    for n in range(3 * (ENTRIES - 1)):
        index.put("T", f"k{n}", None, n, T0)
    assert index.delete_below(ENTRIES - 1) == 1
    assert files.mapped == index.file_names
    index.clear()
    assert files.mapped == []
    index.close()
