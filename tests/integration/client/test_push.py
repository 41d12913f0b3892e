"""The push consumer with our servers: nothing is skipped, and what fails comes again."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from integration.client.pull_rig import PullRig, name, queue, until
from integration.client.push_rig import LATER, SUCCESS, Heard, hurry, push, send_until, texts
from roketto.client.errors import RefusedError
from roketto.client.listeners import ConsumeContext, ConsumeResult
from roketto.client.positions import FromWhere, Positions
from roketto.client.push import PushConsumer
from roketto.client.push_tuning import PushTuning
from roketto.client.received import ReceivedMessage
from roketto.client.settings import ClientSettings
from roketto.client.subscription import Sql
from roketto.clock import wall_ms
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.heartbeat import MessageModel
from roketto.protocol.bodies.running import (
    CMResult,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
)
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.headers.pushes import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
)
from servers import broker, name_server


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    config = {"enablePropertyFilter": "true", "messageDelayLevel": "1s 1s 1s 1s 1s 1s"}
    with name_server(folder) as names, broker(folder, [names.address], config) as server:
        yield names.address, server.address


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@pytest.fixture
async def rig(servers: tuple[str, str]) -> AsyncIterator[PullRig]:
    async with PullRig(*servers) as made:
        yield made


async def test_every_message_is_heard_once_and_committed(rig: PullRig) -> None:
    """A message that comes while the consumer waits is there at once; a new start goes on."""
    topic = await rig.topic(queues=2)
    await rig.send(topic, range(50), 0)
    await rig.send(topic, range(50, 100), 1)
    heard = Heard()
    group = name()
    async with push(rig, topic, group, listener=heard):
        await heard.all_of(texts(0, 100))
        await rig.send(topic, ["later"], 1)
        await heard.all_of(["later"], wait_s=1)
    assert set(heard.counts.values()) == {1}
    again = Heard()
    async with push(rig, topic, group, listener=again) as consumer:
        await rig.send(topic, ["new"])
        await again.all_of(["new"])
        assert again.bodies == ["new"]

        async def is_committed() -> bool:
            return consumer.offsets(topic) == {queue(topic, 0): 51, queue(topic, 1): 51}

        await until(is_committed)


async def test_members_come_and_go_and_nothing_is_skipped(rig: PullRig) -> None:
    """Three of them, while messages are sent all the time; hardly anything is heard twice."""
    topic = await rig.topic(queues=4)
    heard = Heard(pause_s=0.001)
    group = name()
    sent: list[str] = []

    async def is_shared(*members: PushConsumer) -> bool:
        shares = [len([one for one in member.queues if one.topic == topic]) for member in members]
        return all(shares) and sum(shares) == 4

    sending = asyncio.create_task(send_until(rig, topic, sent, is_enough := asyncio.Event(), 4))
    async with push(rig, topic, group, listener=heard) as first:
        await until(lambda: is_shared(first))
        async with push(rig, topic, group, listener=heard) as second:
            await until(lambda: is_shared(first, second))
            await heard.more(100)
            async with push(rig, topic, group, listener=heard) as third:
                await until(lambda: is_shared(first, second, third))
                await heard.more(100)
        await until(lambda: is_shared(first))
        is_enough.set()
        await sending
        await heard.all_of(sent)
    twice = sum(heard.counts.values()) - len(heard.counts)
    assert len(sent) > 200
    assert twice < len(sent) / 4, f"{twice} of {len(sent)} were heard twice"


async def test_what_fails_comes_again_and_ends_as_a_dead_letter(rig: PullRig) -> None:
    """From the topic it was sent to, with the number of times it was given back."""
    topic = await rig.topic()
    await rig.send(topic, ["bad"], KEYS="k", UNIQ_KEY="id-bad")
    await rig.send(topic, ["good"])
    heard = Heard(lambda message: LATER if message.body == b"bad" else SUCCESS)
    group = name()
    tuning = PushTuning(reconsume_max=1)
    async with push(rig, topic, group, listener=heard, tuning=tuning) as consumer:
        await heard.until(lambda: heard.counts["bad"] == 2)
        first, second = (one for one in heard.messages if one.body == b"bad")
        assert (first.topic, first.reconsume_times) == (topic, 0)
        assert (second.topic, second.reconsume_times) == (topic, 1)
        assert second.queue.topic == f"%RETRY%{group}"
        assert (second.keys, second.message_id) == (["k"], "id-bad")
        dead = Positions(consumer.client)

        async def is_dead() -> bool:
            return await dead.max_offset(queue(f"%DLQ%{group}")) == 1

        await until(is_dead)
    assert heard.counts == {"bad": 2, "good": 1}


async def test_exceptions_and_missing_answers_mean_again(rig: PullRig) -> None:
    """Of a plain function, which runs in threads; other messages do not wait for these."""
    topic = await rig.topic()
    await rig.send(topic, ["raises", "nothing", "fine", "dead"])
    seen: list[tuple[str, int]] = []
    threads: set[str] = set()

    def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult | None:
        (message,) = messages
        body = message.body.decode()
        seen.append((body, message.reconsume_times))
        threads.add(threading.current_thread().name.rpartition("_")[0])
        if body == "dead":
            context.delay_level = -1
            return LATER
        if message.reconsume_times:
            return SUCCESS
        if body == "raises":
            raise ValueError(body)
        return None if body == "nothing" else SUCCESS

    group = name()
    async with push(rig, topic, group, listener=listen):
        wanted = {("raises", 0), ("raises", 1), ("nothing", 0), ("nothing", 1), ("fine", 0)}

        async def is_heard() -> bool:
            return wanted <= set(seen)

        await until(is_heard)
    assert set(seen) == wanted | {("dead", 0)}
    assert threads == {f"consume-{group}"}


async def test_of_a_batch_only_what_was_not_acknowledged_comes_again(rig: PullRig) -> None:
    topic = await rig.topic()
    await rig.send(topic, range(4))
    batches: list[list[str]] = []

    async def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        batches.append([message.body.decode() for message in messages])
        if not messages[0].reconsume_times:
            context.ack_index = 1
            context.delay_level = 1
        return SUCCESS

    async with push(rig, topic, listener=listen, tuning=PushTuning(batch_max=8)):

        async def is_heard() -> bool:
            return sum(map(len, batches)) == 6

        await until(is_heard)
    assert batches[0] == texts(0, 4)
    assert sorted(body for batch in batches[1:] for body in batch) == ["2", "3"]


async def test_filters_choose_and_can_be_changed(rig: PullRig) -> None:
    """By tags and by SQL92, at the start and while it runs; what is filtered out is committed."""
    topic, other = await rig.topic(), await rig.topic()
    for number, tag in enumerate(["a", "b", "c"] * 2):
        await rig.send(topic, [number], TAGS=tag, price=str(number))
        await rig.send(other, [f"o{number}"], TAGS=tag, price=str(number))
    heard = Heard()
    wanted = {topic: "a || c", other: Sql("price > 3")}
    async with push(rig, topic, topics=wanted, listener=heard) as consumer:
        await heard.all_of(["0", "2", "3", "5", "o4", "o5"])
        await consumer.subscribe(topic, "b")
        await consumer.unsubscribe(other)
        await rig.send(other, ["unheard"], price="9")
        await rig.send(topic, ["unwanted"], TAGS="a")
        await rig.send(topic, ["wanted"], TAGS="b")
        await heard.all_of(["wanted"])
        with pytest.raises(RefusedError, match="SUBSCRIPTION_PARSE_FAILED"):
            await consumer.subscribe(other, Sql("price >"))
        await consumer.subscribe(other)
        await heard.all_of(["unheard"])
    assert set(heard.bodies) == {"0", "2", "3", "5", "o4", "o5", "wanted", "unheard"}
    with pytest.raises(RefusedError):
        async with push(rig, topic, topics={topic: Sql("price >")}, listener=heard):
            pass


async def test_broadcasting_members_hear_everything_and_keep_their_own_offsets(
    rig: PullRig, tmp_path: Path
) -> None:
    topic = await rig.topic(queues=2)
    await rig.send(topic, range(5))
    group = name()
    a, b = Heard(), Heard(lambda _: LATER)

    def member(heard: Heard, instance: str) -> PushConsumer:
        settings = ClientSettings(name_servers=rig.names, instance_name=instance)
        return PushConsumer(
            group, settings=settings, topics={topic: "*"}, listener=heard,
            model=MessageModel.BROADCASTING, from_where=FromWhere.FIRST, offsets_folder=tmp_path,
        )  # fmt: skip

    members = member(a, "a"), member(b, "b")
    async with members[0], members[1]:
        await a.all_of(texts(0, 5))
        await b.all_of(texts(0, 5))
    files = [tmp_path / f"{a_or_b.client.id}/{group}/offsets.json" for a_or_b in members]
    assert all(file.stat().st_size for file in files)
    again = Heard()
    async with member(again, "a"):
        await rig.send(topic, ["new"], 1)
        await again.all_of(["new"])
    assert again.bodies == ["new"]
    assert len(b.bodies) == 5  # what is not consumed does not come again


async def test_a_group_begins_where_it_is_told(rig: PullRig, tmp_path: Path) -> None:
    """Where no offset is stored; brokers have one of young topics, which is why these broadcast."""
    topic = await rig.topic()
    await rig.send(topic, ["first"])
    await asyncio.sleep(0.01)
    between_ms = wall_ms()
    await asyncio.sleep(0.01)
    await rig.send(topic, ["second"])
    heard = {where: Heard() for where in FromWhere}
    consumers = [
        push(rig, topic, listener=listener, from_where=where, from_time_ms=between_ms,
             model=MessageModel.BROADCASTING, offsets_folder=tmp_path)
        for where, listener in heard.items()
    ]  # fmt: skip
    for consumer in consumers:
        await consumer.start()

    async def has_begun() -> bool:
        return all(consumer.offsets(topic) for consumer in consumers[:1])

    await until(has_begun)
    await heard[FromWhere.TIMESTAMP].all_of(["second"])
    await asyncio.sleep(0.2)
    await rig.send(topic, ["third"])
    for listener in heard.values():
        await listener.all_of(["third"])
    for consumer in consumers:
        await consumer.stop()
    assert heard[FromWhere.FIRST].bodies == ["first", "second", "third"]
    assert heard[FromWhere.TIMESTAMP].bodies == ["second", "third"]
    assert heard[FromWhere.LAST].bodies == ["third"]


async def test_a_stop_in_the_middle_loses_nothing(rig: PullRig) -> None:
    """Listeners under way end, what waits is left to the next one, also what takes too long."""
    topic = await rig.topic(queues=2)
    await rig.send(topic, range(100), 0)
    await rig.send(topic, range(100, 200), 1)
    group = name()
    heard = Heard(pause_s=0.02)
    begun: list[str] = []

    async def listen(
        messages: list[ReceivedMessage], context: ConsumeContext
    ) -> ConsumeResult | None:
        begun.append(messages[0].body.decode())
        if begun[-1] == "7":
            await asyncio.sleep(60)
        return await heard(messages, context)

    tuning = PushTuning(concurrency=8, stop_timeout_s=0.2)
    async with push(rig, topic, group, listener=listen, tuning=tuning):
        await heard.until(lambda: len(heard.messages) > 30)
    assert set(begun) - set(heard.bodies) == {"7"}
    assert len(heard.messages) < 150
    rest = Heard()
    async with push(rig, topic, group, listener=rest):
        await rest.all_of(set(texts(0, 200)) - set(heard.bodies))
    assert set(heard.bodies + rest.bodies) == set(texts(0, 200))


async def test_a_loop_acknowledges_what_comes_to_its_end(rig: PullRig) -> None:
    """What the body leaves by an exception or a break comes again; so does what it gives back."""
    topic = await rig.topic()
    await rig.send(topic, ["a", "b", "c", "d"])
    group = name()
    seen: list[str] = []
    async with push(rig, topic, group) as consumer:

        async def take_two() -> None:
            async for message in consumer:
                seen.append(message.body.decode())
                if message.body == b"b":
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await take_two()
        async for message in consumer:
            seen.append(message.body.decode())
            if message.body == b"c":
                message.later(delay_level=1)
            if message.body == b"d":
                message.ack()
                break
    assert seen == ["a", "b", "c", "d"]
    async with push(rig, topic, group) as consumer:
        async for message in consumer:
            assert message.reconsume_times == 1
            seen.append(message.body.decode())
            if len(seen) == 6:
                message.ack()
                break
    assert sorted(seen[4:]) == ["b", "c"]
    assert [message async for message in consumer] == []


async def test_operators_see_move_and_use_a_consumer(rig: PullRig) -> None:
    """What mqadmin asks by way of a broker: how it is, to consume one message, to go back."""
    topic = await rig.topic()
    await rig.send(topic, range(3))
    heard = Heard(lambda message: None if message.body == b"2" else SUCCESS)
    group = name()
    tuning = PushTuning(reconsume_max=0)
    async with push(rig, topic, group, listener=heard, tuning=tuning) as consumer:
        await heard.all_of(texts(0, 3))
        calls = rig.client.calls
        request = GetConsumerRunningInfoRequest(consumer_group=group, client_id=consumer.client.id)
        info = await calls.ask_for_body(
            ConsumerRunningInfo, rig.address, RequestCode.GET_CONSUMER_RUNNING_INFO, request
        )
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert info.properties["maxReconsumeTimes"] == "0"
        assert {data.topic for data in info.subscription_set} == {topic, f"%RETRY%{group}"}
        assert queue(topic) in info.mq_table
        assert info.status_table[topic].pull_tps > 0
        direct = ConsumeMessageDirectlyRequest(
            consumer_group=group, client_id=consumer.client.id, msg_id=heard.messages[0].offset_id
        )
        answer = await calls.ask(rig.address, RequestCode.CONSUME_MESSAGE_DIRECTLY, direct)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        result = decode_body(ConsumeMessageDirectlyResult, answer.body)
        assert (result.consume_result, result.order) == (CMResult.CR_SUCCESS, False)
        await heard.until(lambda: heard.counts["0"] == 2)
        await consumer.reset_offsets({queue(topic): 1})
        await heard.until(lambda: heard.counts["1"] == 2)
        await rig.reset(group, topic, 0)
        await rig.send(topic, ["wakes it"])
        await heard.until(lambda: heard.counts["0"] == 3)


async def test_names_have_their_namespace_on_the_wire_only(rig: PullRig) -> None:
    """Also of what is given back and comes again."""
    topic = await rig.topic(name="space%Spaced")
    await rig.send(topic, ["x"])
    heard = Heard(lambda message: SUCCESS if message.reconsume_times else LATER)
    settings = ClientSettings(name_servers=rig.names, namespace="space")
    consumer = PushConsumer(
        "spaced", settings=settings, topics={"Spaced": "*"}, listener=heard,
        from_where=FromWhere.FIRST,
    )  # fmt: skip
    async with consumer:
        await heard.until(lambda: heard.counts["x"] == 2)
        assert consumer.group == "space%spaced"
        assert set(consumer.topics) == {"space%Spaced", "%RETRY%space%spaced"}
    assert [message.topic for message in heard.messages] == ["Spaced", "Spaced"]


async def test_a_paused_consumer_pulls_nothing_until_it_goes_on(rig: PullRig) -> None:
    topic = await rig.topic()
    heard = Heard()
    consumer = push(rig, topic, listener=heard)
    consumer.pause()
    async with consumer:
        await rig.send(topic, ["x"])
        await asyncio.sleep(0.3)
        assert heard.bodies == []
        consumer.resume()
        await heard.all_of(["x"])
