"""Trying again while brokers are away or busy, for so long and so often."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from roketto.client.errors import (
    BrokerNotFoundError,
    ClientError,
    NoNameServerError,
    RefusedError,
    UnreachableError,
)
from roketto.clock import monotonic_s
from roketto.protocol.codes import ResponseCode
from roketto.spark.sink_options import SinkError, SinkOptions

__all__ = ["Patience", "is_final"]

log = logging.getLogger(__name__)

T = TypeVar("T")

_FIRST_S: Final = 0.05
_LONGEST_S: Final = 2.0
"""Pauses double from the first to the longest."""
_PASSING_CODES: Final = frozenset(
    {
        ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY,
        ResponseCode.GO_AWAY,
    }
)  # fmt: skip
"""Refusals that pass by themselves; of the others a user has to know."""


def is_final(error: ClientError) -> bool:
    """Whether there is no use in trying again."""
    if isinstance(error, RefusedError):
        return error.code not in _PASSING_CODES
    return not isinstance(error, UnreachableError | BrokerNotFoundError | NoNameServerError)


class Patience:
    """How long and how often something is tried.

    patience = Patience.of(options)
    answer = await patience.keep_trying("stage 500 rows for Orders", ask)

    ``ask`` is called with the milliseconds that are left.
    """

    __slots__ = ("retries", "timeout_ms")

    def __init__(self, timeout_ms: int, retries: int) -> None:
        self.timeout_ms = timeout_ms
        self.retries = retries

    @classmethod
    def of(cls, options: SinkOptions) -> "Patience":
        return cls(options.send_timeout_ms, options.retries)

    async def keep_trying(
        self,
        what: str,
        attempt: Callable[[int], Awaitable[T]],
        on_failure: Callable[[ClientError], None] | None = None,
    ) -> T:
        """What an attempt gives; SinkError when there is no time or attempt left."""
        begun_s = monotonic_s()
        deadline_s = begun_s + self.timeout_ms / 1000
        pause_s = _FIRST_S
        for tried in range(1, self.retries + 2):
            left_ms = max(1, int((deadline_s - monotonic_s()) * 1000))
            try:
                result = await attempt(left_ms)
            except ClientError as error:
                failure = error
                if is_final(error):
                    raise SinkError(f"could not {what}: {error}") from error
            else:
                if tried > 1:
                    log.info("%s: done at attempt %d", what, tried)
                return result
            if monotonic_s() + pause_s >= deadline_s:
                break
            if tried == 1:
                log.warning("could not %s, and tries again: %s", what, failure)
            if on_failure is not None:
                on_failure(failure)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_S)
        raise SinkError(
            f"could not {what} in {tried} attempts and {monotonic_s() - begun_s:.1f} s"
            f" (sendTimeoutMs is {self.timeout_ms}, retries is {self.retries}): {failure}"
        ) from failure
