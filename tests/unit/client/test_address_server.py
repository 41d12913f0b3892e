"""The page of an address server is found as Java finds it, and read with bounds."""

import asyncio

import pytest

from roketto.client.address_server import _read_page, address_server_url, fetch_line

DOMAIN = "ROCKETMQ_NAMESRV_DOMAIN"
SUBGROUP = "ROCKETMQ_NAMESRV_DOMAIN_SUBGROUP"


@pytest.mark.parametrize(
    ("environment", "unit", "url"),
    [
        ({}, "", ""),
        ({DOMAIN: " "}, "", ""),
        ({DOMAIN: "ns.example"}, "", "http://ns.example:8080/rocketmq/nsaddr"),
        ({DOMAIN: "ns.example:80"}, "", "http://ns.example:80/rocketmq/nsaddr"),
        ({DOMAIN: "ns", SUBGROUP: "blue"}, "", "http://ns:8080/rocketmq/blue"),
        ({DOMAIN: "ns"}, "u1", "http://ns:8080/rocketmq/nsaddr-u1?nofix=1"),
    ],
)
def test_the_page_is_where_java_looks_for_it(
    environment: dict[str, str], unit: str, url: str
) -> None:
    assert address_server_url(environment, unit) == url


def answered(data: bytes, *, ends: bool = True) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=65_536)
    reader.feed_data(data)
    if ends:
        reader.feed_eof()
    return reader


async def test_a_page_ends_where_its_length_says_or_the_peer_ends() -> None:
    with_length = b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 5\r\n\r\na:1;b"
    assert await _read_page(answered(with_length, ends=False)) == b"a:1;b"
    assert await _read_page(answered(b"HTTP/1.0 200 OK\r\n\r\na:1\nmore")) == b"a:1\nmore"
    assert len(await _read_page(answered(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 70_000))) == 65_536


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"HTTP/1.0 404 Not Found\r\n\r\n", "'HTTP/1.0 404 Not Found', and not status 200"),
        (b"SSH-2.0-x\r\n\r\n", "and not status 200"),
        (b"HTTP/1.0 200 OK\r\n", "is no HTTP"),
        (b"x" * 70_000, "is no HTTP"),
    ],
)
async def test_what_is_no_page_is_an_error_in_words(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        await _read_page(answered(data))


async def test_a_host_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match=r"\[::1\]: is not an address; write host:port"):
        await fetch_line("http://[::1]/rocketmq/nsaddr")
