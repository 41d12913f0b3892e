"""Proves that the bits of the system flags do not overlap and are told apart."""

import pytest

from roketto.protocol import sysflags


def test_bits_of_a_message_do_not_overlap() -> None:
    masks = (
        sysflags.COMPRESSED,
        sysflags.MULTI_TAGS,
        sysflags.TRANSACTION_TYPE,
        sysflags.HOST_BITS,
        sysflags.UNWRAP_BITS,
        sysflags.COMPRESSION_TYPE,
    )
    assert sum(masks) == 0x7FF


def test_pull_requests_of_java_clients_have_the_values_seen_on_the_wire() -> None:
    blocking = sysflags.PULL_SUSPEND | sysflags.PULL_SUBSCRIPTION
    assert sysflags.PULL_COMMIT_OFFSET | sysflags.PULL_SUSPEND == 3
    assert blocking == 6
    assert blocking | sysflags.PULL_LITE == 22


@pytest.mark.parametrize("before", [0x000, 0x7FF, 0x004, -1])
@pytest.mark.parametrize("wanted", [0x000, 0x004, 0x008, 0x00C])
def test_transaction_type_is_replaced_and_nothing_else(before: int, wanted: int) -> None:
    after = sysflags.with_transaction_type(before, wanted)
    assert after & sysflags.TRANSACTION_TYPE == wanted
    assert after & ~sysflags.TRANSACTION_TYPE == before & ~sysflags.TRANSACTION_TYPE


def test_only_both_batch_bits_together_ask_for_unwrapping() -> None:
    assert sysflags.needs_unwrap(0x0C0)
    assert sysflags.needs_unwrap(0x7FF)
    assert not sysflags.needs_unwrap(0x040)
    assert not sysflags.needs_unwrap(0x080)
    assert not sysflags.needs_unwrap(0x73F)
