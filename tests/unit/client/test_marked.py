"""Marks are properties beyond those of users: they add up, win, and change nothing else."""

from dataclasses import fields, replace

import pytest

from roketto.client.errors import IllegalMessageError
from roketto.client.marked import MarkedMessage, mark
from roketto.client.message import Message


def test_marks_add_up_and_keep_the_message() -> None:
    message = Message("T", b"x", tags="t", keys=["k"], delay_level=3, flag=7)
    marked = mark(mark(message, {"TRAN_MSG": "true"}), {"PGROUP": "g"})
    assert marked.marks == {"TRAN_MSG": "true", "PGROUP": "g"}
    for field in fields(Message):
        assert getattr(marked, field.name) == getattr(message, field.name)
    assert replace(marked, tags="u").marks == marked.marks


def test_marks_may_be_what_users_may_not_set_and_win_over_them() -> None:
    with pytest.raises(IllegalMessageError, match="the client's own"):
        Message("T", b"x", properties={"TRAN_MSG": "true"}).to_properties()
    marked = MarkedMessage("T", b"x", tags="t", marks={"TRAN_MSG": "true", "TAGS": "u"})
    assert marked.to_properties() == {"TAGS": "u", "WAIT": "true", "TRAN_MSG": "true"}


def test_where_it_is_best_sent_stays_with_further_marks() -> None:
    reply = MarkedMessage("T", b"x", broker_name="broker-a")
    assert mark(reply, {"A": "1"}).broker_name == "broker-a"
