"""A host as records and ids keep it.

::

    0   4 or 16   address
    4   4         port, as a signed integer

The address length is not written: in a record two bits of the system flag tell it, in an id the
length of the id.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address
from struct import Struct
from typing import Final

from roketto.protocol.errors import RecordError

IPV4_HOST_BYTES: Final = 8
IPV6_HOST_BYTES: Final = 20
NO_HOST: Final = bytes(IPV4_HOST_BYTES)
"""0.0.0.0 with port 0: the host of a record that has none yet."""

_PORT: Final = Struct(">i")
_PORT_MAX: Final = 65_535


def encode_host(ip: str, port: int) -> bytes:
    """The bytes of a host; call it once per connection, not once per message.

    An IPv4 address that a dual-stack socket shows as ``::ffff:a.b.c.d`` is stored as IPv4: Java
    knows no other form of it.
    """
    try:
        address: IPv4Address | IPv6Address = ip_address(ip)
    except ValueError as error:
        raise RecordError(f"host {ip[:64]!r} is not an IP address; give its numbers") from error
    if not 0 <= port <= _PORT_MAX:
        raise RecordError(f"port {port} of host {ip} is outside 0..{_PORT_MAX}")
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return address.packed + _PORT.pack(port)


def decode_host(host: bytes) -> tuple[str, int]:
    """The address in its usual spelling, and the port."""
    if len(host) not in (IPV4_HOST_BYTES, IPV6_HOST_BYTES):
        raise RecordError(
            f"a host of {len(host)} bytes; it takes {IPV4_HOST_BYTES} (IPv4) or"
            f" {IPV6_HOST_BYTES} (IPv6)"
        )
    address = ip_address(host[:-4])
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return str(address), _PORT.unpack_from(host, len(host) - 4)[0]
