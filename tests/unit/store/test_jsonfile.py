"""Tables are Java's files, byte for byte, and no crash or damage makes one empty in silence."""

from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.bodies.base import Body, encode_body
from roketto.protocol.bodies.groups import (
    CustomizedRetryPolicy,
    GroupRetryPolicy,
    SubscriptionGroupWrapper,
)
from roketto.protocol.bodies.offsets import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
)
from roketto.protocol.bodies.topics import DataVersion, TopicConfigSerializeWrapper
from roketto.protocol.errors import BodyError
from roketto.store.errors import CorruptStoreError
from roketto.store.files import Files
from roketto.store.jsonfile import JsonFile, compact, decode_table, encode_table, pretty
from sim.files import CrashFiles, PowerLoss

GOLDEN = Path(__file__).parents[2] / "golden" / "store"
TABLES: dict[str, type[Body]] = {
    "consumerOffset.json": ConsumerOffsetSerializeWrapper,
    "delayOffset.json": DelayOffsetSerializeWrapper,
    "subscriptionGroup.json": SubscriptionGroupWrapper,
    "topics.json": TopicConfigSerializeWrapper,
}
INLINE_MAPS = ("consumerOffset.json", "delayOffset.json")
"""4.9 writes maps with integer keys on one line; we write them as 5.5 does."""


def golden(version: str, *, but: tuple[str, ...] = ()) -> list[Path]:
    return [path for path in sorted((GOLDEN / version).glob("*.json")) if path.name not in but]


# --- the form -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [*golden("5.5.0"), *golden("4.9.7", but=INLINE_MAPS)],
    ids=lambda path: f"{path.parent.name}-{path.name}",
)
def test_a_file_of_java_without_its_blanks_is_indented_as_it_was(path: Path) -> None:
    """Every table that a broker of either version left behind, filters and modes included."""
    text = path.read_bytes()
    assert b"\n" not in compact(text)
    assert pretty(compact(text)) == text


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_java_5_is_written_back_byte_for_byte(name: str) -> None:
    """Read into the body that the broker works with, and out again."""
    text = (GOLDEN / "5.5.0" / name).read_bytes()
    assert encode_table(decode_table(TABLES[name], text)) == text


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_java_4_says_the_same_when_we_have_written_it(name: str) -> None:
    """Its form differs and it has fewer members; what it says is all there."""
    text = (GOLDEN / "4.9.7" / name).read_bytes()
    table = decode_table(TABLES[name], text)
    assert decode_table(TABLES[name], encode_table(table)) == table
    assert set(member_names(text)) <= set(member_names(encode_table(table)))


def member_names(text: bytes) -> list[bytes]:
    return [line.split(b":")[0].strip() for line in text.splitlines() if b'":' in line]


def test_the_offsets_that_java_4_had_are_read() -> None:
    """A spot check of what the other tests compare only with itself."""
    text = (GOLDEN / "4.9.7" / "consumerOffset.json").read_bytes()
    table = decode_table(ConsumerOffsetSerializeWrapper, text).offset_table
    assert table["GoldenMany@C_GoldenMany"] == {0: 12, 1: 12, 2: 12, 3: 13}


def test_arrays_of_numbers_that_java_calls_primitive_stay_on_one_line() -> None:
    """As fastjson2 writes long[]; a list of numbers goes line by line."""
    policy = GroupRetryPolicy(customized_retry_policy=CustomizedRetryPolicy([1000, 5000]))
    assert encode_table(policy) == (
        b'{\n\t"customizedRetryPolicy":{\n\t\t"next":[1000,5000]\n\t},\n\t"type":"CUSTOMIZED"\n}'
    )
    assert pretty(b'{"list":[5,6],"next":["a]","b"]}') == (
        b'{\n\t"list":[\n\t\t5,\n\t\t6\n\t],\n\t"next":[\n\t\t"a]",\n\t\t"b"\n\t]\n}'
    )


def test_brackets_and_commas_inside_strings_are_left_alone() -> None:
    """Also behind escaped quotes; empty maps and lists have no inside."""
    text = rb'{"a{,\"\\":"b\t[,/","e":{},"l":[[],{}],"n":null}'
    assert pretty(text) == (
        b'{\n\t"a{,\\"\\\\":"b\\t[,/",\n\t"e":{},\n\t"l":[\n\t\t[],\n\t\t{}\n\t],\n\t"n":null\n}'
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
        | st.dictionaries(st.integers(0, 99), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(json_values)
def test_indenting_changes_nothing_but_blanks(value: object) -> None:
    """Taking the blanks out again gives the text from before."""
    text = encode_body(value)
    assert compact(pretty(text)) == text


@given(st.dictionaries(st.text(max_size=8), json_values, max_size=4))
def test_blanks_of_any_kind_of_json_are_taken_out(value: dict[str, object]) -> None:
    """People edit these files by hand, and their tools indent with spaces."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=4)
    assert compact(text) == msgspec.json.encode(value)
    assert compact(text.replace(b"\n", b"\r\n")) == msgspec.json.encode(value)


def test_blanks_inside_strings_of_either_quote_stay() -> None:
    """FastJSON reads single quotes, so they may be in a file that somebody has edited."""
    assert compact(b"{ 'a b' : \"c  d\" ,\n\t'e' : \"it's\" }") == b"{'a b':\"c  d\",'e':\"it's\"}"


@given(st.binary(max_size=60))
def test_bytes_that_are_no_table_are_a_body_error(text: bytes) -> None:
    """Nothing else is raised, whatever a disk gives back."""
    with suppress(BodyError):
        decode_table(DelayOffsetSerializeWrapper, text)


# --- the file -----------------------------------------------------------------------------------

DISK = Path("/config")
PATH = DISK / "delayOffset.json"
BACKUP = DISK / "delayOffset.json.bak"
PARSE = partial(decode_table, DelayOffsetSerializeWrapper)


def table(offset: int) -> DelayOffsetSerializeWrapper:
    """A table that is larger than a sector."""
    return DelayOffsetSerializeWrapper(DataVersion(), dict.fromkeys(range(1, 200), offset))


def text_of(offset: int) -> bytes:
    return encode_table(table(offset))


def crash_files(main: bytes | None, backup: bytes | None) -> CrashFiles:
    files = CrashFiles()
    files.make_directory(DISK)
    if main is not None:
        files.replace(PATH, main)
    if backup is not None:
        files.replace(BACKUP, backup)
    return files


def test_a_saved_table_is_loaded_and_its_predecessor_kept(tmp_path: Path) -> None:
    """With Java's names of the files."""
    file = JsonFile(Files(), tmp_path / "delayOffset.json", PARSE)
    assert file.load() is None
    file.save(text_of(1))
    file.save(text_of(2))
    loaded = JsonFile(Files(), tmp_path / "delayOffset.json", PARSE).load()
    assert loaded is not None
    assert loaded == (table(2), tmp_path / "delayOffset.json", None)
    assert PARSE((tmp_path / "delayOffset.json.bak").read_bytes()) == table(1)


DAMAGED = [
    pytest.param(b"", "is empty", id="empty"),
    pytest.param(bytes(700), "cannot be read", id="zeros"),
    pytest.param(text_of(1)[:600], "cannot be read", id="torn"),
    pytest.param(b"null", "cannot be read", id="null"),
    pytest.param(b"[]", "cannot be read", id="list"),
    pytest.param(b"\xff\xfe garbage", "cannot be read", id="garbage"),
]


@pytest.mark.parametrize(("main", "reason"), [*DAMAGED, pytest.param(None, "is not there")])
def test_a_damaged_or_missing_file_is_replaced_by_its_backup_and_reported(
    main: bytes | None, reason: str
) -> None:
    """The file that was used and what is wrong with the other are told; nothing is deleted."""
    files = crash_files(main, text_of(7))
    loaded = JsonFile(files, PATH, PARSE).load()
    assert loaded is not None
    assert (loaded.value, loaded.path) == (table(7), BACKUP)
    assert loaded.problem is not None
    assert f"{PATH} {reason}" in loaded.problem
    assert files.read(PATH) == main


@pytest.mark.parametrize(("main", "reason"), DAMAGED)
@pytest.mark.parametrize("backup", [None, b"", b"{"])
def test_damage_without_a_sound_backup_is_refused_and_never_an_empty_table(
    main: bytes, reason: str, backup: bytes | None
) -> None:
    """Java would delete the file and start with nothing."""
    files = crash_files(main, backup)
    with pytest.raises(CorruptStoreError) as raised:
        JsonFile(files, PATH, PARSE).load()
    assert reason in raised.value.reason
    assert "remove both to start without" in raised.value.reason
    assert raised.value.path == PATH
    assert files.read(PATH) == main


def test_a_damaged_backup_alone_is_refused() -> None:
    """There was a table; where it has gone is for a human to find out."""
    with pytest.raises(CorruptStoreError, match=r"it is not there; .*\.bak cannot be read"):
        JsonFile(crash_files(None, b"{"), PATH, PARSE).load()


def test_a_damaged_file_never_becomes_the_backup() -> None:
    """The backup was the only sound copy when the table was saved again."""
    files = crash_files(b"{", text_of(7))
    file = JsonFile(files, PATH, PARSE)
    file.load()
    file.save(text_of(8))
    assert files.read(BACKUP) == text_of(7)
    file.save(text_of(9))
    assert files.read(BACKUP) == text_of(8)


@pytest.mark.parametrize("damaged", [False, True])
def test_power_loss_at_any_call_of_a_save_leaves_the_last_or_the_new_table(damaged: bool) -> None:
    """Also while a damaged file is being replaced; with names and sectors lost independently."""
    seen = set()
    dropped = 0
    for number in range(1, 30):
        files = crash_files(b"{" if damaged else text_of(2), text_of(2 if damaged else 1))
        file = JsonFile(files, PATH, PARSE)
        file.load()
        files.fail_call(len(files.calls) + number, PowerLoss())
        try:
            file.save(text_of(3))
            allowed = {3}
        except PowerLoss:
            allowed = {2, 3}
        for seed in range(20):
            after = files.crash(seed, garble=0.5)
            dropped += after.loss.total
            loaded = JsonFile(after, PATH, PARSE).load()
            assert loaded is not None
            offset = loaded.value.offset_table[1]
            assert offset in allowed
            seen.add(offset)
    assert seen == {2, 3}
    assert dropped > 50
