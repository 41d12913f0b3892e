"""Errors say what they know: codes with their names, and whether a message may be stored."""

from roketto.client.errors import (
    ClientError,
    IllegalMessageError,
    RefusedError,
    ReplyTimeoutError,
    SendFailedError,
    TopicNotFoundError,
    UnreachableError,
    UnreadableError,
)
from roketto.protocol.codes import ResponseCode


def test_a_refusal_names_its_code_if_it_has_a_name() -> None:
    refused = RefusedError("h:1", ResponseCode.NO_PERMISSION, "not you")
    assert str(refused) == "h:1 refuses with code 16 (NO_PERMISSION): not you"
    assert (refused.address, refused.code, refused.remark) == ("h:1", 16, "not you")
    assert str(RefusedError("h:1", 9_999, "?")) == "h:1 refuses with code 9999 (unknown): ?"


def test_a_message_may_be_stored_if_one_attempt_was_sent() -> None:
    unsent = UnreachableError("h:1", "refused", is_sent=False)
    sent = UnreachableError("h:2", "too late", is_sent=True, is_timeout=True)
    refused = RefusedError("h:3", 1, "no")
    assert not SendFailedError("failed", [unsent, refused]).may_be_stored
    assert SendFailedError("failed", [unsent, sent]).may_be_stored
    assert not SendFailedError("there was no time", []).may_be_stored


def test_errors_are_also_what_python_calls_them() -> None:
    """Who waits for ValueError or TimeoutError gets it; who waits for ClientError gets all."""
    assert issubclass(IllegalMessageError, ValueError)
    assert issubclass(ReplyTimeoutError, TimeoutError)
    for kind in (IllegalMessageError, ReplyTimeoutError, UnreadableError, TopicNotFoundError):
        assert issubclass(kind, ClientError)
    assert TopicNotFoundError("T", "gone").topic == "T"
    assert str(UnreadableError("h:1", "no JSON")) == (
        "h:1 has answered with what cannot be read: no JSON"
    )
