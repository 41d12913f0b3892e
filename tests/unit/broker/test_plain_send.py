"""Which property strings are plain, and what the producer's id in them is."""

import pytest

from roketto.broker.plain_send import unique_key
from roketto.protocol.properties import encode_properties

PLAIN = {"UNIQ_KEY": "7F00A1", "WAIT": "true"}


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        (encode_properties(PLAIN), b"7F00A1"),
        (encode_properties({"WAIT": "true", "KEYS": "DELAY a", "UNIQ_KEY": "b"}), b"b"),
        (encode_properties({**PLAIN, "TAGS": "TagA", "T": "", "TRACE_ON": "true"}), b"7F00A1"),
        (encode_properties({**PLAIN, "PRICE": "3", "INSTANCE_ID": "i", "_x": "y"}), b"7F00A1"),
        (encode_properties({**PLAIN, "XDELAY": "3"}), b"7F00A1"),
        (encode_properties({**PLAIN, "TIMER_OUT": "3", "TRAN_MSGS": "true"}), b"7F00A1"),
        (encode_properties({**PLAIN, "作者": "李白"}), b"7F00A1"),
        (b"UNIQ_KEY\x01a\x02\x02UNIQ_KEY\x01b\x02T", b"b"),
        (b"UNIQ_KEY\x01a\x02WAIT\x01true", b"a"),
        (b"UNIQ_KEY\x01a\x02UNIQ\x01b\x02", b"a"),
    ],
)
def test_properties_without_a_special_name_are_plain(properties: bytes, key: bytes) -> None:
    """Whatever their values are, and also where a name only begins or ends like a special one."""
    assert unique_key(properties) == key


@pytest.mark.parametrize(
    "name",
    [
        "DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DEL_UNIQKEY",
        "TRAN_MSG", "POP_CK", "CLUSTER", "INNER_NUM", "_SYS_MSG_PRIORITY_",
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_first", [True, False])
def test_a_special_name_is_found_wherever_it_stands(name: str, is_first: bool) -> None:
    """Such a message is not plain."""
    special = {name: "1"}
    assert unique_key(encode_properties(special | PLAIN if is_first else PLAIN | special)) == b""


@pytest.mark.parametrize(
    "properties",
    [b"", b"WAIT\x01true\x02", b"XUNIQ_KEY\x01a\x02", b"UNIQ_KEY\x01\x02", b"UNIQ_KEY\x01a", b"U"],
)
def test_without_an_id_that_ends_nothing_is_plain(properties: bytes) -> None:
    """What gets an id from the broker takes the ordinary way."""
    assert unique_key(properties) == b""
