"""Proves that the text of many property strings is their strings with an 02 between them."""

import pytest

from roketto.store.run_properties import RunProperties


@pytest.mark.parametrize(
    ("each", "text"),
    [([], b""), ([b""], b""), ([b"A\x01B", b""], b"A\x01B\x02"), ([b"\x02", b"A"], b"\x02\x02A")],
)
def test_the_text_has_the_strings_in_their_order(each: list[bytes], text: bytes) -> None:
    properties = RunProperties(each)
    assert (properties.each, properties.text) == (each, text)
