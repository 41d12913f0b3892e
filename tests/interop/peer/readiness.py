"""Wait until a started broker really serves: it can be asked, and its name servers know it."""

import time
from collections.abc import Sequence
from typing import Final

from .errors import PeerLateError
from .remote import ask

_UPDATE_BROKER_CONFIG: Final = 25
_GET_BROKER_RUNTIME_INFO: Final = 28
_GET_BROKER_CLUSTER_INFO: Final = 106
_SUCCESS: Final = 0

_POLL_S: Final = 0.05
_NUDGE_INTERVAL_S: Final = 1.0
_TIMEOUT_S: Final = 40.0


def wait_until_answering(broker: str) -> None:
    """Return when the broker can tell its figures: 4.9 cannot in its first second."""
    deadline = time.monotonic() + _TIMEOUT_S
    while (refusal := _refusal(broker)) is not None:
        if time.monotonic() > deadline:
            raise PeerLateError(f"broker {broker} does not tell its figures: {refusal}")
        time.sleep(_POLL_S)


def _refusal(broker: str) -> str | None:
    try:
        answer = ask(broker, _GET_BROKER_RUNTIME_INFO)
    except OSError as error:
        return str(error)
    return None if answer.code == _SUCCESS else f"{answer.code} {answer.remark}"


def wait_until_registered(
    broker: str, name_servers: Sequence[str], known_as: str | None = None
) -> None:
    """Return when every name server knows the broker's address, or the one it is `known_as`.

    A broker of 5.x registers when it starts only with the name servers that it is connected to
    by then, mostly none, and tries again after 10 s. An update of its permission to what it was
    makes it register at once.
    """
    deadline = time.monotonic() + _TIMEOUT_S
    nudge_at = time.monotonic() + _POLL_S
    missing = list(name_servers)
    while missing := [server for server in missing if not _knows(server, known_as or broker)]:
        now = time.monotonic()
        if now > deadline:
            raise PeerLateError(f"broker {broker} is not registered with {', '.join(missing)}")
        if now > nudge_at:
            ask(broker, _UPDATE_BROKER_CONFIG, b"brokerPermission=6")
            nudge_at = now + _NUDGE_INTERVAL_S
        time.sleep(_POLL_S)


def _knows(name_server: str, address: str) -> bool:
    try:
        answer = ask(name_server, _GET_BROKER_CLUSTER_INFO)
    except OSError:
        return False  # it may still be starting; the caller's deadline decides
    return f'"{address}"'.encode() in answer.body
