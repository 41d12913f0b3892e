"""The bounds and deadlines of a connection and of a server, each with its reason."""

import ssl
from dataclasses import dataclass

from roketto.protocol.limits import FRAME_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """What one connection may hold and how long it may take."""

    frame_bytes_max: int = FRAME_BYTES_MAX
    idle_s: float = 120.0
    """No byte in either direction for so long: closed, as Java does on both sides."""
    frame_deadline_s: float = 30.0
    """A frame that was begun must be complete by then; a slow drip of bytes holds nothing."""
    write_buffer_bytes_max: int = 8 * 1024 * 1024
    """Above this, nothing more is read from the peer until it has read half of it."""
    write_deadline_s: float = 30.0
    """A peer that leaves the buffer full for so long is dropped."""
    requests_in_flight_max: int = 4_096
    """Requests of one peer that wait for their answers; at the bound we stop reading from it."""
    calls_in_flight_max: int = 65_535
    """Our own requests without an answer, as many as Java's async permits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where a server listens and how many peers it takes."""

    host: str = "127.0.0.1"
    port: int = 0
    backlog: int = 1_024
    connections_max: int = 10_000
    """In all; kept below the limit on open files, so that the process can always open its own."""
    connections_per_address_max: int = 4_000
    """One host must not use up all of them; many clients may share one address behind a NAT."""
    requests_in_flight_max: int = 65_536
    """Waiting requests of all peers together; above it the answer is SYSTEM_BUSY, as in Java."""
    spin_s: float = 100e-6
    """How long to look for the next request of a quick conversation before sleeping; 0: never."""
    stop_grace_s: float = 5.0
    """How long a stopping server waits for the answers under way."""
    tls: ssl.SSLContext | None = None
    tls_required: bool = False
    """Java's ``enforcing``: refuse plain connections. Otherwise both share the port."""
    tls_handshake_s: float = 10.0
    connection: ConnectionSettings = ConnectionSettings()
