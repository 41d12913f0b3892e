"""The errors carry the response codes that the code table gives them."""

import pytest

from roketto.protocol import errors
from roketto.protocol.codes import ResponseCode


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.HeaderFieldError, ResponseCode.SYSTEM_ERROR),
        (errors.BodyError, ResponseCode.SYSTEM_ERROR),
        (errors.IllegalNameError, ResponseCode.INVALID_PARAMETER),
        (errors.FilterError, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        (errors.SignatureError, ResponseCode.NO_PERMISSION),
    ],
)
def test_each_refusal_carries_its_response_code(
    kind: type[errors.HeaderFieldError], code: ResponseCode
) -> None:
    """A refusal knows its code, so that one place can turn any of them into an answer."""
    error = kind("the reason")
    assert isinstance(error, errors.RequestError)
    assert (error.code, error.reason, str(error)) == (code, "the reason", "the reason")


def test_a_broken_wire_is_no_refusal() -> None:
    """What closes a connection can never be answered by mistake, and the other way round."""
    assert not issubclass(errors.ProtocolError, errors.RequestError)
    assert not issubclass(errors.RequestError, errors.ProtocolError)
    for kind in (errors.FrameError, errors.CommandError, errors.RecordError):
        assert issubclass(kind, errors.ProtocolError)
