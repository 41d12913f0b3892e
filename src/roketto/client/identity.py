"""Who a client is: its address, the id it is known by, and the ids of its messages."""

import os
import secrets
import socket
from datetime import datetime
from ipaddress import ip_address
from typing import Final

from roketto.clock import monotonic_s, wall_ms
from roketto.protocol.ids import UniqueIds, substitute_ip

__all__ = ["DEFAULT_INSTANCE", "client_id", "local_ip", "make_unique_ids", "own_instance_name"]

DEFAULT_INSTANCE = "DEFAULT"

_ANYWHERE: Final = (
    (socket.AF_INET, ("192.0.2.1", 9)),
    (socket.AF_INET6, ("2001:db8::1", 9)),
)
"""Addresses kept for documentation: nothing is sent there, the system only picks a way."""


def local_ip() -> str:
    """The address from which this machine would speak to others; loopback if it is alone."""
    for family, anywhere in _ANYWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as asked:
                asked.connect(anywhere)
                found: str = asked.getsockname()[0]
        except OSError:  # no way there, or no such family
            continue
        return found
    return "127.0.0.1"


def own_instance_name() -> str:
    """A name that no other client has, on this machine or at another time."""
    return f"{os.getpid()}#{int(monotonic_s() * 1e9)}{secrets.randbelow(1000):03}"


def client_id(ip: str, instance_name: str, unit_name: str = "") -> str:
    """``ip@instance`` and the unit behind it, as brokers and operators see a client."""
    return f"{ip}@{instance_name}@{unit_name}" if unit_name else f"{ip}@{instance_name}"


def make_unique_ids(ip: str) -> UniqueIds:
    """The source of message ids of one producer; no two of a process share one."""
    try:
        packed = ip_address(ip).packed
    except ValueError:  # a name instead of an address
        packed = substitute_ip(wall_ms())
    zone = datetime.now().astimezone().tzinfo
    assert zone is not None
    return UniqueIds(packed, os.getpid(), secrets.randbits(32), zone, secrets.randbelow(65_536))
