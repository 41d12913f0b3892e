"""Connect to a server; a failure says which address was tried and why it did not work."""

import asyncio
import os
import socket
import ssl

from roketto.remoting.connection import Connection, Handler, refuse_requests
from roketto.remoting.errors import ConnectError
from roketto.remoting.settings import ConnectionSettings

CONNECT_TIMEOUT_MS = 3_000
"""Java's connectTimeoutMillis."""


def split_address(address: str) -> tuple[str, int]:
    """Split ``host:port`` at its last colon, as Java does; IPv6 hosts may stand in brackets."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ConnectError(
            address, "is not an address; write host:port, for example 127.0.0.1:9876"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


async def connect(
    address: str,
    *,
    handler: Handler = refuse_requests,
    settings: ConnectionSettings | None = None,
    timeout_ms: int = CONNECT_TIMEOUT_MS,
    tls: ssl.SSLContext | None = None,
) -> Connection:
    """Return an open connection; its owner sweeps and closes it."""
    host, port = split_address(address)
    connection = Connection(handler, settings or ConnectionSettings())
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await asyncio.get_running_loop().create_connection(
                connection.as_protocol,
                host,
                port,
                ssl=tls,
                server_hostname=host if tls is not None and tls.check_hostname else None,
            )
    except TimeoutError as error:
        raise ConnectError(address, f"no connection within {timeout_ms} ms") from error
    except OSError as error:
        raise ConnectError(address, f"cannot connect: {_reason(error)}") from error
    return connection


def _reason(error: OSError) -> str:
    """The system's own words; the event loops put their own around them."""
    if error.errno is None or isinstance(error, ssl.SSLError | socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno)
