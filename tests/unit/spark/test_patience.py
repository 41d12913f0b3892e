"""Trying again: as long and as often as was said, and not at all where it is of no use."""

import pytest

from roketto.client.errors import ClientError, RefusedError, TopicNotFoundError, UnreachableError
from roketto.protocol.codes import ResponseCode
from roketto.spark.patience import Patience
from roketto.spark.sink_options import SinkError

AWAY = UnreachableError("10.0.0.5:10911", "nobody is there", is_sent=False)
BUSY = RefusedError("10.0.0.5:10911", ResponseCode.SYSTEM_BUSY, "later")


class Attempts:
    """Fails so often, with these errors."""

    def __init__(self, *failures: ClientError) -> None:
        self.failures = list(failures)
        self.count = 0

    async def __call__(self, left_ms: int) -> str:
        assert left_ms > 0
        self.count += 1
        if self.failures:
            raise self.failures.pop(0)
        return "done"


async def test_what_passes_by_itself_is_tried_until_it_succeeds() -> None:
    attempts, seen = Attempts(AWAY, BUSY), list[ClientError]()
    assert await Patience(5_000, 5).keep_trying("send", attempts, seen.append) == "done"
    assert (attempts.count, seen) == (3, [AWAY, BUSY])


async def test_after_so_many_attempts_the_error_says_how_often_and_why() -> None:
    attempts = Attempts(*[AWAY] * 9)
    with pytest.raises(SinkError, match=r"could not send in 3 attempts.*retries is 2.*nobody is"):
        await Patience(5_000, 2).keep_trying("send", attempts)
    assert attempts.count == 3


async def test_when_its_time_is_over_nothing_is_tried_any_more() -> None:
    attempts = Attempts(*[AWAY] * 99)
    with pytest.raises(SinkError, match="sendTimeoutMs is 120"):
        await Patience(120, 99).keep_trying("send", attempts)
    assert attempts.count == 2


@pytest.mark.parametrize(
    "error",
    [
        TopicNotFoundError("Orders", "no route"),
        RefusedError("10.0.0.5:10911", ResponseCode.NO_PERMISSION, "read only"),
        RefusedError("10.0.0.5:10911", ResponseCode.TOPIC_NOT_EXIST, "no such topic"),
    ],
)
async def test_what_does_not_pass_is_told_at_once(error: ClientError) -> None:
    attempts = Attempts(error)
    with pytest.raises(SinkError, match="could not send: "):
        await Patience(5_000, 5).keep_trying("send", attempts)
    assert attempts.count == 1
