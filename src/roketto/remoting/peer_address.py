"""The address of a peer, as people read it and as records have it."""

from typing import Any

from roketto.protocol.errors import RecordError
from roketto.protocol.hosts import NO_HOST, encode_host

__all__ = ["address_text", "host_bytes"]


def host_bytes(peername: Any) -> bytes:
    """What a transport calls its peer, as records have it (hosts.py)."""
    if not peername:
        return NO_HOST
    try:
        return encode_host(peername[0], peername[1])
    except RecordError:  # an IPv6 address with a zone
        return NO_HOST


def address_text(peername: Any) -> str:
    """The same as ``host:port``."""
    if not peername:
        return "unknown"
    host, port = peername[0], peername[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
