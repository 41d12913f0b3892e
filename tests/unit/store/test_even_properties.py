"""Proves that a text of many property strings is the same as the strings."""

import numpy as np
import pytest

from roketto.store.even_properties import EvenProperties, Runs


@pytest.mark.parametrize("strings", [[b""], [b"", b"", b""], [b"A\x01B", b"A\x01C"], [b"\x02\x02"]])
def test_a_text_is_split_where_it_was_joined(strings: list[bytes]) -> None:
    """Whatever stands in the strings: their length says where they end."""
    even = EvenProperties(b"\x02".join(strings), len(strings), len(strings[0]))
    assert even.split() == list(even) == strings


def test_runs_say_which_message_is_where() -> None:
    """Texts: one message at 10, three from 100 on, one at 500, two from 900 on."""
    runs = Runs(4, [(1, 3, 7, 50), (3, 2, 5, 60)])
    assert runs.owners.tolist() == [0, 1, 1, 1, 2, 3, 3]
    assert runs.lengths(np.array([4, 23, 6, 11])).tolist() == [4, 7, 7, 7, 6, 5, 5]
    log_offsets = runs.log_offsets(np.array([10, 100, 500, 900]))
    assert log_offsets.tolist() == [10, 100, 150, 200, 500, 900, 960]
