"""Proves that messages in runs wait and are looked at as they would be one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.properties import find_spans
from roketto.store.keyhashes import PROPERTIES_BYTES_MAX, KeyHashes
from roketto.store.run_properties import RunProperties
from roketto.store.waiting_keys import HashedKeys, WaitingKeys

SIZE = 100
Entries = list[tuple[int, int, int]]


def take_all(waiting: WaitingKeys) -> Entries:
    """Hash, log offset and time of every key."""
    taken: Entries = []
    while waiting.count:
        texts, *columns = waiting.look(KeyHashes())
        waiting.remove(texts)
        taken += zip(*(column.tolist() for column in columns), strict=True)
    return taken


KEYS = st.text(st.sampled_from("ab #\u00e9\u4e2d"), max_size=5)
STRINGS = st.lists(KEYS, min_size=1, max_size=5).map(
    lambda keys: [f"UNIQ_KEY\x01{key}\x02KEYS\x01{key}".encode() for key in keys]
)


@given(st.lists(st.tuples(st.sampled_from(["T", "U"]), STRINGS), max_size=6))
def test_runs_are_filed_as_their_messages_one_by_one(runs: list[tuple[str, list[bytes]]]) -> None:
    """Also with keys that are not ASCII, and with strings and records of several lengths.

    So are those whose keys are hashed at once, in runs as well.
    """
    together, apart = WaitingKeys(), WaitingKeys()
    hashed, hashed_apart = HashedKeys(KeyHashes()), HashedKeys(KeyHashes())
    log_offset = 0
    for number, (topic, strings) in enumerate(runs):
        sizes = [SIZE + len(raw) for raw in strings]
        is_even = sizes.count(sizes[0]) == len(sizes)
        properties = RunProperties(strings, len(strings[0]) if is_even else -1)
        together.add_run(topic, properties, log_offset, sizes, number)
        hashed.add_run(topic, properties, log_offset, sizes, number)
        for raw, size in zip(strings, sizes, strict=True):
            apart.add_found(topic, raw, find_spans(raw), log_offset, number)
            hashed_apart.add_found(topic, raw, find_spans(raw), log_offset, number)
            log_offset += size
    assert together.count == apart.count == hashed.count == hashed_apart.count
    taken = take_all(together)
    assert taken == take_all(apart) == take_all(hashed) == take_all(hashed_apart)


@pytest.mark.parametrize("text_bytes", [PROPERTIES_BYTES_MAX // 8, PROPERTIES_BYTES_MAX // 2])
def test_runs_with_much_to_say_are_looked_at_a_few_at_a_time(text_bytes: int) -> None:
    """What is left waits on, and knows its places; a text that is too long is taken apart."""
    together, apart = WaitingKeys(), WaitingKeys()
    for number in range(12):
        filler = b"x" * (text_bytes // 4)
        strings = [b"KEYS\x01%03d\x02%b" % (number * 4 + n, filler) for n in range(4)]
        together.add_run("T", RunProperties(strings), number * 4 * SIZE, [SIZE] * 4, number)
        for n, raw in enumerate(strings):
            apart.add("T", raw, (number * 4 + n) * SIZE, number)
    assert together.count == 48
    texts = together.look(KeyHashes())[0]
    together.remove(texts)
    assert 0 < together.count < 48
    left = take_all(together)
    assert left == take_all(apart)[48 - len(left) :]


@pytest.mark.parametrize("waiting", [WaitingKeys(), HashedKeys(KeyHashes())])
def test_what_is_cleared_waits_no_more(waiting: WaitingKeys) -> None:
    waiting.add_run("T", RunProperties([b"KEYS\x01a", b"KEYS\x01b"]), 0, [SIZE] * 2, 1)
    waiting.clear()
    assert waiting.count == 0
    waiting.add("T", b"KEYS\x01c", 500, 2)
    assert [entry[1:] for entry in take_all(waiting)] == [(500, 2)]
