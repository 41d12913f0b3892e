"""What a client is told about its cluster and itself; the defaults are those of Java's clients."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from roketto.protocol.signing import Credentials

__all__ = ["ClientSettings", "Credentials"]

_AT_LEAST_ONE: Final = ("request_timeout_ms", "connect_timeout_ms", "calls_in_flight_max")
_POSITIVE: Final = ("route_interval_s", "heartbeat_interval_s", "offsets_interval_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Everything has a default that suits a cluster on this machine."""

    name_servers: str | Sequence[str] | None = None
    """``host:port``, several in a list or with ``;`` between them. None: the environment or an
    address server says it (name_servers.py), or else it is 127.0.0.1:9876."""
    namespace: str = ""
    """Put before the names of topics and groups on their way out, taken off on their way in."""
    namespace_v2: str = ""
    """Sent with every request instead, for brokers that know namespaces themselves."""
    credentials: Credentials | None = None
    """Signs every request, for clusters with access control."""
    tls: ssl.SSLContext | None = None
    """``remoting.tls.client_context()`` makes one."""
    instance_name: str = "DEFAULT"
    """Part of the client id. Left as it is, clients that share the work of a group get one of
    their own, and those that all get everything keep it: their offsets are kept by it."""
    unit_name: str = ""
    """Part of the client id, and of the address server's page."""
    zone: str = ""
    """Routes have the brokers of this zone only, where name servers know zones;
    $ROCKETMQ_ZONE if empty and $ROCKETMQ_ZONE_MODE is true."""
    client_ip: str = ""
    """Part of the client id and of message ids; the address of this machine if empty."""
    request_timeout_ms: int = 3_000
    """For whatever has no time of its own."""
    connect_timeout_ms: int = 3_000
    """To open a connection."""
    route_interval_s: float = 30.0
    """How often routes are asked for again."""
    heartbeat_interval_s: float = 30.0
    """How often brokers are told who is here; they forget those who are silent for two minutes."""
    offsets_interval_s: float = 5.0
    """How often consumers tell how far they are."""
    calls_in_flight_max: int = 65_535
    """Requests to one server without an answer."""

    def __post_init__(self) -> None:
        for name in _AT_LEAST_ONE:
            if (count := getattr(self, name)) < 1:
                raise ValueError(f"{name} is {count}; it takes at least 1")
        for name in _POSITIVE:
            if not (seconds := getattr(self, name)) > 0:
                raise ValueError(f"{name} is {seconds}; it takes more than 0 seconds")
