"""Proves that the index has Java's files and answers, rolls, repairs itself and forgets."""

import json
from datetime import UTC, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.javahash import java_hash
from roketto.store import index as index_module
from roketto.store.files import Files, MappedFile
from roketto.store.index import Index
from roketto.store.indexfile import file_bytes

GOLDEN: Any = json.loads(
    (Path(__file__).parents[2] / "golden/store/index-5.5.0.json").read_text("utf-8")
)
SLOTS, ENTRIES = 4, 6
T0 = 1_700_000_000_000


def new_index(
    directory: Path, now_ms: int = T0, slots: int = SLOTS, entries: int = ENTRIES
) -> Index:
    return Index(Files(), directory, lambda: now_ms, UTC, slots, entries)


def filled(directory: Path, count: int) -> Index:
    index = new_index(directory)
    for n in range(count):
        index.put("T", f"k{n}", None, n * 100, T0 + n * 1000)
    return index


def query(index: Index, key: str, begin_ms: int = 0, end_ms: int = 2 * T0) -> list[int]:
    return index.query("T", key, 64, begin_ms, end_ms)


def test_the_same_puts_give_javas_bytes_and_answers(tmp_path: Path) -> None:
    index = new_index(tmp_path, slots=GOLDEN["slots"], entries=GOLDEN["entries"])
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


@given(st.text(st.characters(max_codepoint=0x7F), max_size=12), st.text(max_size=120))
def test_key_hashes_are_javas_without_the_sign(topic: str, key: str) -> None:
    index = new_index(Path())
    expected = abs(java_hash(f"{topic}#{key}")) & 0x7FFF_FFFF
    assert index.key_hash(topic, key) == expected
    assert index.key_hash(topic, key) == expected


@pytest.mark.parametrize("length", [0, 1, 19, 20, 21, 32, 60, 61, 200])
def test_key_hashes_do_not_depend_on_how_the_key_is_cut(length: int) -> None:
    key = ("7F000001ABCD00000000" * 11)[:length]
    assert new_index(Path()).key_hash("T", key) == abs(java_hash(f"T#{key}"))


def test_the_hash_without_a_positive_counterpart_is_zero() -> None:
    assert java_hash("polygenelubricants") == -(2**31)
    assert index_module._unsigned(java_hash("polygenelubricants")) == 0


def test_remembered_key_beginnings_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "_HEADS_MAX", 3)
    index = new_index(Path())
    for n in range(20):
        assert index.key_hash(f"t{n}", "k") == abs(java_hash(f"t{n}#k"))
        assert len(index._heads) <= 3


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
