"""Hooks see every attempt, what they raise stays with them, and only a check can forbid a send."""

import pytest

from roketto.client.errors import SendFailedError
from roketto.client.hooks import MessageKind, SendContext, SendMode
from roketto.client.marked import mark
from roketto.client.message import Message
from roketto.protocol.codes import ResponseCode
from unit.client.core_rig import TOPIC
from unit.client.sending_rig import HELLO, A, B, SendRig


class Diary:
    def __init__(self) -> None:
        self.before_all: list[SendContext] = []
        self.after_all: list[SendContext] = []

    def before(self, context: SendContext) -> None:
        assert context.result is None
        self.before_all.append(context)

    def after(self, context: SendContext) -> None:
        self.after_all.append(context)


class Broken:
    def before(self, context: SendContext) -> None:
        raise ValueError("before")

    def after(self, context: SendContext) -> None:
        raise ValueError("after")


async def test_a_hook_knows_all_about_a_send() -> None:
    rig = SendRig(namespace="ns")
    diary = Diary()
    rig.producer.hooks.add(diary)
    async with rig.producer as producer:
        result = await producer.send(Message(TOPIC, b"x" * 5_000, tags="t", keys="k"))
    (context,) = diary.after_all
    assert diary.before_all == [context]
    assert (context.group, context.topic, context.namespace) == ("ns%orders", TOPIC, "ns")
    assert (context.result, context.error, context.mode) == (result, None, SendMode.SYNC)
    assert context.message_id == result.message_id == context.properties["UNIQ_KEY"]
    assert context.address in (A, B)
    assert 0 < context.body_bytes < 5_000  # as compressed
    assert (context.messages[0].tags, context.client_ip) == ("t", "10.1.1.1")
    assert context.latency_ms >= 0


async def test_kinds_and_modes_are_told_apart() -> None:
    rig = SendRig()
    diary = Diary()
    rig.producer.hooks.add(diary)
    async with rig.producer as producer:
        await producer.send_one_way(HELLO)
        await producer.send(Message(TOPIC, b"x", delay_level=1))
        await producer.send(mark(HELLO, {"TRAN_MSG": "true"}))
        await producer.send_batch([HELLO, HELLO])
    assert [context.kind for context in diary.after_all] == [
        MessageKind.NORMAL, MessageKind.DELAYED, MessageKind.HALF, MessageKind.NORMAL,
    ]  # fmt: skip
    assert diary.after_all[0].mode is SendMode.ONE_WAY
    assert len(diary.after_all[3].messages) == 2


async def test_failures_of_hooks_are_logged_and_spoil_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = SendRig()
    diary = Diary()
    broken = Broken()
    rig.producer.hooks.add(broken)
    rig.producer.hooks.add(diary)
    async with rig.producer as producer:
        await producer.send(HELLO)
        assert len(diary.after_all) == 1
        assert [record.exc_text is not None for record in caplog.records] == [True, True]
        producer.hooks.remove(broken)
        producer.hooks.remove(diary)
        assert producer.hooks.is_empty


async def test_every_attempt_is_seen_with_its_error() -> None:
    rig = SendRig(lambda address, command: command.answer(ResponseCode.SYSTEM_BUSY))
    diary = Diary()
    rig.producer.hooks.add(diary)
    async with rig.producer as producer:
        with pytest.raises(SendFailedError) as caught:
            await producer.send(HELLO)
    assert [context.error for context in diary.after_all] == caught.value.attempts
    assert len(diary.before_all) == 3


async def test_a_check_forbids_by_raising() -> None:
    """Nothing is sent, nothing is tried again, and the caller gets what the check has raised."""

    def no_sundays(context: SendContext) -> None:
        raise PermissionError(f"{context.topic} rests")

    rig = SendRig()
    rig.producer.hooks.add_check(no_sundays)
    async with rig.producer as producer:
        with pytest.raises(PermissionError, match="Orders rests"):
            await producer.send(HELLO)
        with pytest.raises(PermissionError):
            await producer.send_one_way(HELLO)
        assert rig.sends == []
        assert producer._delivery.permits.count == 0
