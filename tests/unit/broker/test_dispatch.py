"""Every request has one handler, and every failure of the store one response code."""

import inspect
from pathlib import Path
from typing import cast

import pytest

from roketto.broker.dispatch import ROUTES, Dispatcher, _join, refusal
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import IllegalNameError, RecordError, RequestError
from roketto.remoting.connection import Connection, Reply
from roketto.store.errors import CorruptStoreError, DiskFullError, StoreError, StoreReadOnlyError
from roketto.store.put_status import PutRefusedError, PutStatus
from unit.broker.send_rig import SendRig


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


class WaitedConnection:
    """A connection whose requests had to wait."""

    peer = "10.0.0.9:50000"
    waiting = 4

    def __init__(self, waited_s: float) -> None:
        self.waited_s = waited_s


def test_a_request_that_waited_too_long_is_refused_before_its_handler(tmp_path: Path) -> None:
    """Nothing is stored; the refusal is counted as any other."""
    rig = SendRig(tmp_path)
    dispatcher = Dispatcher(rig.context)
    late = dispatcher.handle(cast("Connection", WaitedConnection(0.5)), rig.request())
    assert isinstance(late, Command)
    assert (late.code, rig.store.log.max_offset) == (ResponseCode.SYSTEM_BUSY, 0)
    assert (late.remark or "").endswith("period in queue: 500ms, size of queue: 4")
    assert rig.context.stats.refusals == {(310, int(ResponseCode.SYSTEM_BUSY)): 1}
    rig.connection.waited_s = 0.1
    in_time = dispatcher.handle(rig.connection.as_connection, rig.request())
    assert isinstance(in_time, Command)
    assert in_time.code == ResponseCode.SUCCESS
    rig.close()


async def test_what_operators_change_is_saved_before_they_are_told(tmp_path: Path) -> None:
    """And if it cannot be, they are told that instead; what is refused needs no save."""
    rig = SendRig(tmp_path)
    dispatcher = Dispatcher(rig.context)

    def ask(name: str) -> Reply:
        request = Command(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            body=encode_body(SubscriptionGroupConfig(group_name=name)),
        )
        return dispatcher.handle(rig.connection.as_connection, request)

    work = ask("G")
    assert inspect.iscoroutine(work)
    assert rig.saves == 0
    answer = await work
    assert (answer.code, rig.saves) == (0, 1)
    refused = ask("no name")
    assert isinstance(refused, Command)
    assert refused.code == ResponseCode.INVALID_PARAMETER

    async def fail() -> None:
        raise StoreError("a restart would forget it")

    rig.context.saved = fail
    work = ask("H")
    assert inspect.iscoroutine(work)
    answer = await work
    assert (answer.code, answer.remark) == (1, "a restart would forget it")
    rig.close()


async def test_offsets_that_operators_move_are_saved_before_they_are_told(tmp_path: Path) -> None:
    """What consumers commit is not: they would only consume some messages again."""
    rig = SendRig(tmp_path)
    dispatcher = Dispatcher(rig.context)
    rig.context.groups.find("G")
    where = {"topic": "T", "group": "G", "timestamp": "0", "isForce": "true"}
    for code, fields in (
        (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, where),
        (RequestCode.CLONE_GROUP_OFFSET, {"srcGroup": "G", "destGroup": "H", "topic": "T"}),
    ):
        saves = rig.saves
        work = dispatcher.handle(rig.connection.as_connection, Command(code, fields))
        assert inspect.iscoroutine(work), code
        answer = await work
        assert (answer.code, rig.saves) == (0, saves + 1)
    rig.close()
