"""The real Java RocketMQ as a fixture: fetched by name, started on free ports, stopped for sure."""

from .admin import AdminOutput
from .clients import ClientError, ClientShell
from .errors import PeerFailedError, PeerUnavailableError
from .fetch import VERSIONS
from .peer import Peer
from .process import PLAIN, QUICK, JavaProcess
from .servers import Broker, NameServer

__all__ = [
    "PLAIN",
    "QUICK",
    "VERSIONS",
    "AdminOutput",
    "Broker",
    "ClientError",
    "ClientShell",
    "JavaProcess",
    "NameServer",
    "Peer",
    "PeerFailedError",
    "PeerUnavailableError",
]
