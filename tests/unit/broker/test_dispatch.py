"""Every request has one handler, and every failure of the store one response code."""

from pathlib import Path

import pytest

from roketto.broker.dispatch import ROUTES, _join, refusal
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.errors import IllegalNameError, RecordError, RequestError
from roketto.remoting.connection import refuse_requests
from roketto.store.errors import CorruptStoreError, DiskFullError, StoreReadOnlyError
from roketto.store.put_status import PutRefusedError, PutStatus


def test_every_route_is_a_known_request_with_a_permission() -> None:
    """Nothing is served whose permission nobody has thought about."""
    for code in ROUTES:
        assert RequestCode(code).permission, code


def test_two_handlers_for_one_code_are_a_mistake() -> None:
    """The table is joined from files that know nothing of each other."""

    def handler(context: object, connection: object, request: object) -> None:
        """Never called."""

    with pytest.raises(AssertionError, match="two handlers for"):
        _join({RequestCode.HEART_BEAT: handler}, {RequestCode.HEART_BEAT: handler})
    assert refuse_requests not in ROUTES.values()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RequestError(ResponseCode.NO_PERMISSION, "no"), ResponseCode.NO_PERMISSION),
        (IllegalNameError("topic ../x"), ResponseCode.INVALID_PARAMETER),
        (PutRefusedError(PutStatus.OS_PAGE_CACHE_BUSY, "full"), ResponseCode.SYSTEM_BUSY),
        (PutRefusedError(PutStatus.MESSAGE_ILLEGAL, "large"), ResponseCode.MESSAGE_ILLEGAL),
        (DiskFullError("no room"), ResponseCode.SERVICE_NOT_AVAILABLE),
        (StoreReadOnlyError("closed"), ResponseCode.SERVICE_NOT_AVAILABLE),
        (RecordError("no batch"), ResponseCode.MESSAGE_ILLEGAL),
        (CorruptStoreError(Path("x"), 7, "bad"), ResponseCode.SYSTEM_ERROR),
    ],
)  # fmt: skip
def test_errors_become_the_code_that_tells_them(error: Exception, code: ResponseCode) -> None:
    """The reason a user reads is the error's own."""
    refused = refusal(error)
    assert refused.code == code
    assert refused.reason == str(error)
