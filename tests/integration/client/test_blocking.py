"""The blocking API does what the asyncio one does, for threads, and leaves no thread behind."""

import asyncio
import logging
import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from roketto.admin.blocking import Admin
from roketto.admin.errors import GroupNotFoundError
from roketto.client import (
    ClientClosedError,
    ClientSettings,
    ConsumeContext,
    ConsumeResult,
    FromWhere,
    Message,
    ReceivedMessage,
    ReplyTimeoutError,
    SelfWaitError,
    SendStatus,
    SqliteOutbox,
    TopicNotFoundError,
    TransactionState,
    make_reply,
)
from roketto.client import Producer as AsyncProducer
from roketto.client.blocking import (
    Client,
    LitePullConsumer,
    Outbox,
    Producer,
    PullConsumer,
    PushConsumer,
    TransactionProducer,
    tracing,
)
from roketto.clock import monotonic_s
from servers import broker, name_server

NUMBERS = count()
WAIT_S = 15.0


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    config = {"messageDelayLevel": "1s 1s 1s 1s", "autoCreateTopicEnable": "false"}
    with name_server(folder) as server, broker(folder, [server.address], config):
        yield server.address


@pytest.fixture
def topic(names: str) -> str:
    """A new topic with one queue, when its route is known."""
    made = f"Topic{next(NUMBERS)}"
    with Admin(names) as admin:
        admin.topics.create(made, read_queues=1, write_queues=1)

        def is_known() -> bool:
            try:
                return bool(admin.topics.route(made))
            except TopicNotFoundError:
                return False

        until(is_known)
    return made


@pytest.fixture(autouse=True)
def no_threads_left() -> Iterator[None]:
    """Neither the portal's, nor those of listeners, nor of the loop."""
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def until(is_so: Callable[[], bool], wait_s: float = WAIT_S) -> None:
    deadline_s = monotonic_s() + wait_s
    while not is_so():
        assert monotonic_s() < deadline_s, "it was not so in time"
        threading.Event().wait(0.005)


def group() -> str:
    return f"group{next(NUMBERS)}"


def send(names: str, topic: str, *bodies: str) -> None:
    with Producer(group(), names) as producer:
        for body in bodies:
            producer.send(Message(topic, body.encode()))


def interrupt_soon(after_s: float = 0.1) -> threading.Timer:
    """Ctrl-C, for the thread that waits."""
    timer = threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


class Heard:
    """A listener that is a plain function."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.threads: set[str] = set()

    def __call__(self, messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        self.bodies += [message.body.decode() for message in messages]
        self.threads.add(threading.current_thread().name)
        return ConsumeResult.SUCCESS


# --- producers ------------------------------------------------------------------------------------


def test_many_threads_send_with_one_producer(names: str, topic: str) -> None:
    """Every message is stored once, at an offset of its own; a batch and one-way ones as well."""
    offsets: list[int] = []

    def work() -> None:
        for _ in range(20):
            result = producer.send(Message(topic, b"x"))
            assert result.status is SendStatus.SEND_OK
            offsets.append(result.queue_offset)

    with Producer(group(), names) as producer:
        workers = [threading.Thread(target=work) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(WAIT_S)
        producer.send_batch([Message(topic, b"a"), Message(topic, b"b")])
        producer.send_one_way(Message(topic, b"c"))
        queues = producer.fetch_publish_queues(topic)
        with PullConsumer(group(), names) as consumer:
            until(lambda: consumer.max_offset(queues[0]) == 163)
    assert sorted(offsets) == list(range(160))


async def test_it_works_inside_a_loop_of_somebody_else(names: str, topic: str) -> None:
    """As in a notebook, where a loop runs already in the thread that waits."""
    loop = asyncio.get_running_loop()
    with (
        Producer(group(), names) as producer,
        LitePullConsumer(group(), names, from_where=FromWhere.FIRST) as consumer,
    ):
        consumer.subscribe(topic)
        producer.send(Message(topic, b"from a cell"))
        assert [message.body for message in consumer.poll(10_000)] == [b"from a cell"]
        async with AsyncProducer(group(), names) as other:  # and both are there side by side
            await other.send(Message(topic, b"awaited"))
        assert next(consumer).body == b"awaited"
    assert asyncio.get_running_loop() is loop


def test_errors_are_those_of_the_asyncio_api(names: str) -> None:
    with (
        Producer(group(), names) as producer,
        pytest.raises(TopicNotFoundError, match="Nowhere"),
    ):
        producer.send(Message("Nowhere", b"x"))
    with pytest.raises(ClientClosedError, match="was stopped; make a new one"):
        producer.send(Message("Nowhere", b"x"))


def test_a_request_is_replied_by_a_listener_that_blocks(names: str, topic: str) -> None:
    """The listener sends with a blocking producer, in its own thread, while the other one waits."""
    with Producer(group(), names) as producer:

        def answer(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
            producer.send(make_reply(messages[0], b"4.20"))
            return ConsumeResult.SUCCESS

        with PushConsumer(
            group(), names, topics={topic: "*"}, listener=answer, from_where=FromWhere.FIRST
        ):
            assert producer.request(Message(topic, b"tea?"), 10_000).body == b"4.20"
        with pytest.raises(ReplyTimeoutError):
            producer.request(Message(topic, b"coffee?"), 50)


def test_transactions_end_with_their_blocks(names: str, topic: str) -> None:
    def pay(message: Message, arg: object) -> TransactionState:
        assert arg == "order-17"
        return TransactionState.COMMIT

    with TransactionProducer(group(), names) as producer:
        with producer.transaction(Message(topic, b"kept")) as paid:
            assert paid.message_id == paid.sent.message_id
        with pytest.raises(ZeroDivisionError), producer.transaction(Message(topic, b"dropped")):
            _ = 1 / 0
        result = producer.send_in_transaction(Message(topic, b"executed"), pay, "order-17")
        assert paid.result is not None
        assert (paid.result.state, result.state) == (TransactionState.COMMIT,) * 2
    with LitePullConsumer(group(), names, from_where=FromWhere.FIRST) as consumer:
        consumer.subscribe(topic)
        assert [next(consumer).body for _ in range(2)] == [b"kept", b"executed"]


def test_an_outbox_sends_what_a_transaction_has_kept(
    names: str, topic: str, tmp_path: Path
) -> None:
    """It is added with a connection of the thread that adds it, which SQLite insists on."""
    path = tmp_path / "shop.db"
    with Producer(group(), names) as producer, Outbox(SqliteOutbox(path), producer) as outbox:
        with sqlite3.connect(path) as connection:
            outbox.add(Message(topic, b"kept"), connection)
        connection.close()
        assert outbox.wait_until_sent(10)
    left = Outbox(SqliteOutbox(path))
    assert left.backlog().waiting == 0
    left.stop()


def test_traces_are_written_in_a_block(names: str, topic: str) -> None:
    with Producer(group(), names) as producer, tracing(producer):
        assert not producer.hooks.is_empty
        producer.send(Message(topic, b"traced"))
    assert producer.hooks.is_empty


# --- consumers ------------------------------------------------------------------------------------


def test_a_listener_gets_every_message_in_its_own_threads(names: str, topic: str) -> None:
    heard = Heard()
    settings = ClientSettings(name_servers=names)
    with Client(settings) as client, Producer(group(), client=client) as producer:
        with PushConsumer(
            group(), client=client, listener=heard, from_where=FromWhere.FIRST
        ) as consumer:
            consumer.subscribe(topic)
            for number in range(30):
                producer.send(Message(topic, str(number).encode()))
            until(lambda: len(heard.bodies) == 30)
            assert [queue.topic for queue in consumer.queues if queue.topic == topic] == [topic]
        assert sorted(heard.bodies, key=int) == [str(number) for number in range(30)]
        assert all(name.startswith("consume-") for name in heard.threads)
        assert client.id.startswith(client.settings.client_ip)


def test_what_a_listener_raises_is_logged_and_comes_again(
    names: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[int] = []

    def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        tries.append(messages[0].reconsume_times)
        if len(tries) == 1:
            raise ZeroDivisionError("not today")
        return ConsumeResult.SUCCESS

    send(names, topic, "x")
    caplog.set_level(logging.WARNING)
    with PushConsumer(
        group(), names, topics={topic: "*"}, listener=listen, from_where=FromWhere.FIRST
    ):
        until(lambda: len(tries) == 2)
    assert tries == [0, 1]
    assert "not today" in caplog.text


def test_a_coroutine_that_blocks_is_told_so(names: str, topic: str) -> None:
    """A blocking call in a coroutine would wait for itself: it fails, and nothing hangs."""
    errors: list[Exception] = []
    with Producer(group(), names) as producer:

        async def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
            try:
                producer.send(Message(topic, b"more"))
            except SelfWaitError as error:
                errors.append(error)
            return ConsumeResult.SUCCESS

        send(names, topic, "x")
        with PushConsumer(
            group(), names, topics={topic: "*"}, listener=listen, from_where=FromWhere.FIRST
        ):
            until(lambda: bool(errors))
    assert "plain function" in str(errors[0])


def test_an_iteration_consumes_and_gives_back(names: str, topic: str) -> None:
    """What was gone on from is consumed; where the loop is left, the message comes again."""
    send(names, topic, "0", "1", "2")
    members = group()
    with PushConsumer(members, names, topics={topic: "*"}, from_where=FromWhere.FIRST) as consumer:
        for message in consumer:
            if message.body == b"2":
                break
        assert message.is_settled
    with PushConsumer(members, names, topics={topic: "*"}) as consumer:
        again = next(iter(consumer))
        assert (again.body, again.reconsume_times) == (b"2", 1)
        again.ack()
        assert again.is_settled


def test_a_stop_by_another_thread_ends_what_waits(names: str, topic: str) -> None:
    """Iterations end, polls say why, and whoever stops waits until all is done."""
    lite = LitePullConsumer(group(), names)
    lite.subscribe(topic)
    push = PushConsumer(group(), names, topics={topic: "*"})
    ended: list[str] = []

    def iterate() -> None:
        assert list(push) == []
        ended.append("iteration")

    def poll() -> None:
        with pytest.raises(ClientClosedError):
            lite.poll(60_000)
        ended.append("poll")

    lite.start()
    push.start()
    workers = [threading.Thread(target=work) for work in (iterate, poll)]
    for worker in workers:
        worker.start()
    threading.Event().wait(0.1)
    push.stop()
    lite.stop()
    for worker in workers:
        worker.join(WAIT_S)
    assert sorted(ended) == ["iteration", "poll"]


def test_an_interrupt_ends_a_poll_that_waits(names: str, topic: str) -> None:
    """Ctrl-C leaves the poll, which has taken nothing, and the consumer can go on or stop."""
    with LitePullConsumer(group(), names, from_where=FromWhere.FIRST) as consumer:
        consumer.subscribe(topic)
        began_s = monotonic_s()
        timer = interrupt_soon()
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(60_000)
        timer.join()
        assert monotonic_s() - began_s < 10
        send(names, topic, "after it")
        assert next(consumer).body == b"after it"


def test_an_interrupt_in_an_iteration_leaves_the_block(names: str, topic: str) -> None:
    send(names, topic, "0")
    seen: list[bytes] = []
    timers: list[threading.Timer] = []
    members = group()

    def consume() -> None:
        with PushConsumer(
            members, names, topics={topic: "*"}, from_where=FromWhere.FIRST
        ) as consumer:
            for message in consumer:
                seen.append(message.body)
                timers.append(interrupt_soon())

    with pytest.raises(KeyboardInterrupt):
        consume()
    timers[0].join()
    assert seen == [b"0"]
    with Admin(names) as admin:
        assert admin.groups.progress(members, topic).lag == 0  # it was consumed before the wait


def test_a_pull_consumer_reads_and_commits(names: str, topic: str) -> None:
    send(names, topic, "0", "1")
    with PullConsumer(group(), names, topics=[topic]) as consumer:
        (queue,) = consumer.fetch_subscribe_queues(topic)
        pulled = consumer.pull(queue, consumer.min_offset(queue))
        assert [message.body for message in pulled.messages] == [b"0", b"1"]
        consumer.commit(queue, pulled.next_offset)
        assert consumer.committed(queue) == 2
        assert consumer.topics == [topic]


# --- administration -------------------------------------------------------------------------------


def test_an_operator_needs_no_loop(names: str, topic: str) -> None:
    with Admin(names) as admin:
        assert topic in admin.topics.names()
        assert [queue.count for queue in admin.topics.status(topic).queues] == [0]
        admin.kv.put("space", "key", "value")
        assert admin.kv.get("space", "key") == "value"
        with pytest.raises(GroupNotFoundError):
            admin.groups.config("nobody")
        send(names, topic, "x")
        ((queue, status),) = [(one.queue, one) for one in admin.topics.status(topic).queues]
        assert (status.count, admin.offsets.max(queue)) == (1, 1)
        found = admin.messages.by_queue_offset(queue, 0)
        assert admin.messages.view(topic, found.message_id).body == b"x"
