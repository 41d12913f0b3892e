"""A send is tried again elsewhere when that can help, within its time, and says what was tried."""

import asyncio
from dataclasses import replace

import pytest

from roketto.client.errors import (
    BrokerNotFoundError,
    ClientClosedError,
    RefusedError,
    SendFailedError,
    UnreachableError,
)
from roketto.client.message import MessageQueue, SendStatus
from roketto.client.send_settings import SendSettings
from roketto.protocol.bodies.topics import TopicQueueMappingInfo
from roketto.protocol.codes import ResponseCode
from roketto.protocol.command import Command
from roketto.remoting.errors import ConnectError, ConnectionLostError, RequestTimeoutError
from unit.client.core_rig import TOPIC, Answer
from unit.client.sending_rig import HELLO, A, B, SendRig, stored


def failing_at(address: str, error: Exception) -> Answer:
    def answer(asked: str, command: Command) -> Command:
        if asked == address:
            raise error
        return stored(command)

    return answer


def refusing(code: int) -> Answer:
    return lambda address, command: command.answer(code, remark="because")


async def test_a_broker_that_is_gone_is_followed_by_the_other_one() -> None:
    """With retries, every message gets through, wherever its turn would have sent it."""
    rig = SendRig(failing_at(A, ConnectError(A, "connection refused")))
    async with rig.producer as producer:
        results = [await producer.send(HELLO) for _ in range(4)]
    assert {result.queue.broker_name for result in results} == {"broker-b"}
    assert rig.addresses.count(B) == 4
    assert 1 <= rig.addresses.count(A) <= 2
    ids = [rig.properties(number)["UNIQ_KEY"] for number in range(len(rig.sends))]
    assert len(set(ids)) == 4  # a retry has the id of the first attempt


@pytest.mark.parametrize("code", [17, 14, 1, 2, 16, 204, 205, 1500])
async def test_some_refusals_are_tried_three_times(code: int) -> None:
    rig = SendRig(refusing(code))
    async with rig.producer as producer:
        with pytest.raises(SendFailedError, match="after 3 attempts") as caught:
            await producer.send(HELLO)
    assert rig.addresses in ([A, B, A], [B, A, B])
    assert [type(error) for error in caught.value.attempts] == [RefusedError] * 3
    assert not caught.value.may_be_stored
    assert isinstance(caught.value.__cause__, RefusedError)


@pytest.mark.parametrize("code", [ResponseCode.MESSAGE_ILLEGAL, ResponseCode.FLOW_CONTROL])
async def test_all_other_refusals_are_final(code: int) -> None:
    rig = SendRig(refusing(code))
    async with rig.producer as producer:
        with pytest.raises(SendFailedError, match="because") as caught:
            await producer.send(HELLO)
    assert len(rig.sends) == 1
    first = caught.value.attempts[0]
    assert isinstance(first, RefusedError)
    assert first.code == code


async def test_a_chosen_queue_is_tried_once() -> None:
    """By queue, by selector, by sharding key: elsewhere it would be out of order."""
    rig = SendRig(refusing(ResponseCode.SYSTEM_BUSY))
    async with rig.producer as producer:
        for arguments in (
            {"queue": MessageQueue("broker-b", 1, TOPIC)},
            {"selector": lambda queues, message, arg: queues[arg], "arg": 3},
        ):
            with pytest.raises(SendFailedError, match="after 1 attempts"):
                await producer.send(HELLO, **arguments)
            assert (rig.addresses[-1], rig.header()["e"]) == (B, "1")
        with pytest.raises(SendFailedError):
            await producer.send(replace(HELLO, sharding_key="hello"))
    assert len(rig.sends) == 3
    assert (rig.addresses[-1], rig.header()["e"]) == (B, "0")  # 99162322 modulo 4 is 2


async def test_a_timeout_uses_up_the_time_unless_attempts_have_their_own() -> None:
    def too_late(address: str, command: Command) -> Command:
        raise RequestTimeoutError(address, "no answer")

    rig = SendRig(too_late, SendSettings(timeout_ms=5_000, attempt_timeout_ms=1_000))
    async with rig.producer as producer:
        with pytest.raises(SendFailedError) as caught:
            await producer.send(HELLO, timeout_ms=3_000)
    assert rig.pool.timeouts_ms[:2] == [1_000, 1_000]
    assert 2_900 <= rig.pool.timeouts_ms[2] <= 3_000  # the last one may take what is left
    assert caught.value.may_be_stored
    error = caught.value.attempts[-1]
    assert isinstance(error, UnreachableError)
    assert (error.is_timeout, error.is_sent) == (True, True)


async def test_without_time_there_is_no_attempt() -> None:
    rig = SendRig()
    async with rig.producer as producer:
        await producer.send(HELLO)
        with pytest.raises(SendFailedError, match="there was no time for one"):
            await producer.send(HELLO, timeout_ms=0)
    assert len(rig.sends) == 1


async def test_a_broker_without_an_address_counts_as_a_failed_attempt() -> None:
    rig = SendRig()
    async with rig.producer as producer:
        with pytest.raises(SendFailedError) as caught:
            await producer.send(HELLO, queue=MessageQueue("broker-x", 0, TOPIC))
    assert isinstance(caught.value.attempts[0], BrokerNotFoundError)


async def test_a_client_that_is_closed_meanwhile_is_asked_once() -> None:
    rig = SendRig(failing_at(A, ConnectError(A, "gone")))
    async with rig.producer as producer:
        await producer.send(HELLO)
        rig.client.calls.close("the client was stopped")
        with pytest.raises(SendFailedError, match="after 1 attempts") as caught:
            await producer.send(HELLO)
        assert isinstance(caught.value.attempts[0], ClientClosedError)


async def test_a_queue_of_a_static_topic_is_sent_to_the_broker_that_has_it() -> None:
    """Its name is that of no broker; the request says which one is meant."""
    rig = SendRig()
    logical = {
        name: TopicQueueMappingInfo(
            topic=TOPIC, scope="__global__", total_queues=2, bname=name, epoch=1,
            curr_id_map={number: 0},
        )
        for number, name in enumerate(("broker-a", "broker-b"))
    }  # fmt: skip
    rig.routes[TOPIC].topic_queue_mapping_by_broker = logical
    async with rig.producer as producer:
        for number, address in enumerate((A, B)):
            queue = MessageQueue("__syslo__global__", number, TOPIC)
            assert queue in await producer.fetch_publish_queues(TOPIC)
            result = await producer.send(HELLO, queue=queue)
            assert (result.queue, rig.addresses[-1]) == (queue, address)
            assert (rig.header()["e"], rig.header()["n"]) == (str(number), "broker-" + "ab"[number])
        await producer.send_one_way(HELLO, queue=queue)
        assert (rig.addresses[-1], rig.header()["n"]) == (B, "broker-b")


@pytest.mark.parametrize(("retries_unsafe", "sends"), [(False, 1), (True, 3)])
async def test_what_is_stored_but_not_safe_is_a_result(retries_unsafe: bool, sends: int) -> None:
    """And sent again only for those who rather have it twice."""
    rig = SendRig(
        lambda address, command: stored(command, ResponseCode.SLAVE_NOT_AVAILABLE),
        SendSettings(retries_unsafe=retries_unsafe),
    )
    async with rig.producer as producer:
        result = await producer.send(HELLO)
    assert (result.status, len(rig.sends)) == (SendStatus.SLAVE_NOT_AVAILABLE, sends)


async def test_what_was_stored_unsafely_is_the_result_when_later_attempts_fail() -> None:
    def answer(address: str, command: Command) -> Command:
        if len(rig.sends) > 1:
            return command.answer(ResponseCode.MESSAGE_ILLEGAL)
        return stored(command, ResponseCode.FLUSH_DISK_TIMEOUT)

    rig = SendRig(answer, SendSettings(retries_unsafe=True))
    async with rig.producer as producer:
        assert (await producer.send(HELLO)).status is SendStatus.FLUSH_DISK_TIMEOUT
    assert len(rig.sends) == 2


async def test_sends_under_way_are_bounded_and_others_wait_within_their_time() -> None:
    rig = SendRig(sending=SendSettings(sends_max=2))
    async with rig.producer as producer:
        await producer.send(HELLO)
        rig.pool.gate.clear()
        tasks = [asyncio.create_task(producer.send(HELLO)) for _ in range(3)]
        await asyncio.sleep(0)
        assert len(rig.sends) == 3
        with pytest.raises(SendFailedError, match="its turn did not come within 20 ms; 2 sends"):
            await producer.send(HELLO, timeout_ms=20)
        rig.pool.gate.set()
        await asyncio.gather(*tasks)
    assert len(rig.sends) == 4


async def test_slow_and_failing_brokers_are_left_to_the_others() -> None:
    """Once a broker has failed, sends do not even begin there."""
    rig = SendRig(
        failing_at(A, ConnectionLostError(A, "it broke")),
        SendSettings(avoids_slow_brokers=True, detects_brokers=True),
    )
    async with rig.producer as producer:
        while A not in rig.addresses:
            await producer.send(HELLO)
        count = rig.addresses.count(A)
        for _ in range(8):
            await producer.send(HELLO)
        assert rig.addresses.count(A) == count == 1
        faults = producer._delivery.faults
        assert faults is not None
        assert not faults.is_available("broker-a")
        assert not faults.is_reachable("broker-a")
        assert producer._delivery._detector is not None
        await producer._delivery._detector.look()  # GET_MAX_OFFSET is answered
        assert faults.is_reachable("broker-a")


async def test_one_way_sends_wait_for_a_broker_that_does_not_read() -> None:
    rig = SendRig()
    async with rig.producer as producer:
        await producer.send_one_way(HELLO)
        assert len(rig.sends) == 1
        rig.pool.writable = False
        asyncio.get_running_loop().call_later(0.012, setattr, rig.pool, "writable", True)
        await producer.send_one_way(HELLO)
        assert len(rig.sends) == 2
        assert rig.pool.writes >= 4


async def test_one_way_sends_fail_when_nothing_can_be_handed_over() -> None:
    rig = SendRig(sending=SendSettings(timeout_ms=250))
    rig.pool.writable = False
    async with rig.producer as producer:
        with pytest.raises(SendFailedError, match="does not read what it is sent"):
            await producer.send_one_way(HELLO)
