"""Proves that hosts are kept as Java keeps them, and that bad ones are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden.record.vectors import load
from roketto.protocol.errors import RecordError
from roketto.protocol.hosts import NO_HOST, decode_host, encode_host


def test_hosts_are_the_bytes_that_java_puts_into_ids() -> None:
    for row in load("ids")["offset"]:
        host = encode_host(row["ip"], row["port"])
        assert host.hex().upper() == row["id"][:-16]
        assert decode_host(host) == (row["ip"], row["port"])


def test_an_ipv4_address_of_a_dual_stack_socket_is_ipv4() -> None:
    assert encode_host("::ffff:10.0.0.9", 80) == encode_host("10.0.0.9", 80)
    mapped = bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 9]) + bytes([0, 0, 0, 80])
    assert decode_host(mapped) == ("10.0.0.9", 80)


def test_the_zone_of_a_link_local_address_is_not_stored() -> None:
    assert encode_host("fe80::1%eth0", 1) == encode_host("fe80::1", 1)


def test_no_host_is_all_zeros() -> None:
    assert decode_host(NO_HOST) == ("0.0.0.0", 0)


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6), st.integers(0, 65_535))
def test_a_host_survives_both_ways(ip: object, port: int) -> None:
    host = encode_host(str(ip), port)
    assert encode_host(*decode_host(host)) == host


@pytest.mark.parametrize("ip", ["", "localhost", "1.2.3", "1.2.3.4.5", "::g", "x" * 10_000])
def test_a_name_or_nonsense_is_no_address(ip: str) -> None:
    with pytest.raises(RecordError, match="not an IP address") as caught:
        encode_host(ip, 1)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("port", [-1, 65_536, 2**40])
def test_a_port_outside_16_bits_is_refused(port: int) -> None:
    with pytest.raises(RecordError, match=r"outside 0\.\.65535"):
        encode_host("10.0.0.1", port)


@given(st.binary(max_size=30).filter(lambda raw: len(raw) not in (8, 20)))
def test_other_lengths_are_no_host(raw: bytes) -> None:
    with pytest.raises(RecordError, match=f"a host of {len(raw)} bytes"):
        decode_host(raw)
