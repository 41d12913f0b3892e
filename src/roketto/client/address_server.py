"""The address server of a cluster: a page that names its name servers, asked by HTTP.

Its address comes from the environment: ``ROCKETMQ_NAMESRV_DOMAIN`` names the host, and maybe the
port, ``ROCKETMQ_NAMESRV_DOMAIN_SUBGROUP`` the page. As in Java, a unit has a page of its own. Java
asks a host of Alibaba's where nobody names one; here there is no address server then.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from roketto.remoting.client import split_address
from roketto.remoting.errors import ConnectError

__all__ = ["address_server_url", "fetch_line"]

_DOMAIN: Final = "ROCKETMQ_NAMESRV_DOMAIN"
_SUBGROUP: Final = "ROCKETMQ_NAMESRV_DOMAIN_SUBGROUP"
_SCHEME: Final = "http://"
_TIMEOUT_S: Final = 3.0
"""Java's, for all of it: looking up the name, connecting, the answer."""
_ANSWER_BYTES_MAX: Final = 65_536


def address_server_url(environment: Mapping[str, str], unit_name: str = "") -> str:
    """Where the addresses are told; empty if nobody says so."""
    domain = environment.get(_DOMAIN, "").strip()
    if not domain:
        return ""
    host = domain if ":" in domain else f"{domain}:8080"
    subgroup = environment.get(_SUBGROUP, "").strip() or "nsaddr"
    unit = f"-{unit_name}?nofix=1" if unit_name else ""
    return f"{_SCHEME}{host}/rocketmq/{subgroup}{unit}"


async def fetch_line(url: str) -> str:
    """The first line of a page; OSError or ValueError where there is none.

    By hand and not with urllib, which would need a thread that nobody can end: HTTP/1.0, no
    redirections, no proxies.
    """
    address, _, path = url.removeprefix(_SCHEME).partition("/")
    try:
        host, port = split_address(address)
    except ConnectError as error:
        raise ValueError(str(error)) from None
    async with asyncio.timeout(_TIMEOUT_S):
        reader, writer = await asyncio.open_connection(host, port, limit=_ANSWER_BYTES_MAX)
        try:
            writer.write(f"GET /{path} HTTP/1.0\r\nHost: {address}\r\n\r\n".encode())
            body = await _read_page(reader)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    lines = body.decode().strip().splitlines()
    return lines[0].strip() if lines else ""


async def _read_page(reader: asyncio.StreamReader) -> bytes:
    """What follows the header of an answer that has status 200."""
    try:
        header = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (EOFError, asyncio.LimitOverrunError):
        raise ValueError("its answer is no HTTP") from None
    first, *fields = header.split("\r\n")
    protocol, _, status = first.partition(" ")
    if not protocol.startswith("HTTP/") or not status.startswith("200"):
        raise ValueError(f"its answer is {first[:100]!r}, and not status 200")
    length = _length(fields)
    body = b""
    while len(body) < length and (more := await reader.read(length - len(body))):
        body += more
    return body


def _length(fields: list[str]) -> int:
    """How many bytes there are to read; without a word about it all until the end, and a bound."""
    for field in fields:
        name, _, value = field.partition(":")
        if name.strip().lower() == "content-length" and value.strip().isdecimal():
            return min(int(value), _ANSWER_BYTES_MAX)
    return _ANSWER_BYTES_MAX
