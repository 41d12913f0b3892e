"""Java push consumers, concurrent and orderly, alone and many: every message, to the right one."""

import json
from collections import defaultdict
from contextlib import ExitStack

from interop.broker.clients import Clients, Message, PushConsumer, eventually, eventually_equal
from interop.broker.cluster import Cluster
from interop.peer import Peer


def test_concurrent_consumer_gets_every_message_once(clients: Clients) -> None:
    """All of four queues, as they were sent; the broker knows then how far the group is."""
    asked = [{"body": f"push {n}", "tags": f"T{n % 5}", "keys": f"k{n}"} for n in range(100)]
    sent = clients.send("Concurrent", asked)
    clients.drain("Concurrent", 100)
    with clients.push("concurrent", "Concurrent") as consumer:
        received = consumer.received(100)
        assert sorted((one.id, one.queue, one.offset, one.body) for one in received) == sorted(
            (one.id, one.queue, one.offset, str(message["body"]))
            for one, message in zip(sent, asked, strict=True)
        )
        assert {(one.topic, one.broker, one.times) for one in received} == {
            ("Concurrent", "broker-a", 0)
        }
        expected = {f"broker-a:{n}": sum(one.queue == n for one in sent) for n in range(4)}
        assert all(
            one.properties["MAX_OFFSET"] == str(expected[f"broker-a:{one.queue}"])
            for one in received
        )
        eventually_equal(consumer.offsets, expected, "offsets of the group")
        assert len(consumer.stop()) == 100


def test_group_goes_on_where_it_stopped(clients: Clients) -> None:
    """What a consumer has consumed, the next one of its group does not get."""
    clients.send("GoesOn", [f"before {n}" for n in range(8)])
    with clients.push("first", "GoesOn", group="goesOn") as first:
        assert len(first.received(8)) == 8
        # A listener has noted a message before its consumer counts it as consumed.
        eventually(lambda: sum(first.offsets().values()) == 8, "offsets of the group")
    clients.send("GoesOn", [f"after {n}" for n in range(8)])
    with clients.push("second", "GoesOn", group="goesOn") as second:
        second.received(8)
        bodies = [one.body for one in second.stop()]
    assert sorted(bodies) == [f"after {n}" for n in range(8)]


def test_waiting_consumer_gets_what_comes_while_it_waits(clients: Clients) -> None:
    """A pull that the broker holds is answered as soon as a message is there."""
    clients.send("Waiting", [f"{n}" for n in range(4)])
    with clients.push("waiting", "Waiting") as consumer:
        consumer.received(4)
        for n in range(4, 12):
            clients.send("Waiting", [f"{n}"])
            assert [one.body for one in consumer.received(n + 1)][-1] == f"{n}"


def test_calls_with_many_messages_have_them_in_order(clients: Clients) -> None:
    """consumeMessageBatchMaxSize 8: the messages of a queue come in the order of their offsets."""
    asked = [{"body": f"{n}", "hash": "one"} for n in range(32)]
    clients.send("Calls", asked, "selector")
    with clients.push("calls", "Calls", batch=8) as consumer:
        received = consumer.received(32)
    assert sorted(int(one.body) for one in received) == list(range(32))
    calls = [received[n : n + 8] for n in range(0, 32, 8)]
    assert all(one.offset == int(one.body) for call in calls for one in call)


def test_orderly_consumer_keeps_the_order_of_each_queue(clients: Clients) -> None:
    """A message that fails twice holds its own queue up, and no other; it is tried in its place."""
    orders = ["a", "b", "c", "d"]
    asked = [
        {"body": f"{'fail' if (order, n) == ('a', 3) else 'pass'} {order} {n}", "hash": order}
        for n in range(10)
        for order in orders
    ]
    clients.send("Orderly", asked, "selector")
    with clients.push("orderly", "Orderly", orderly=True, fails=2) as consumer:
        received = consumer.received(42)
    in_order = defaultdict(list)
    for one in received:
        state, order, n = one.body.split()
        in_order[order].append((state, int(n), one.times))
    plain = [("pass", n, 0) for n in range(10)]
    assert in_order["b"] == in_order["c"] == in_order["d"] == plain
    tried = [("fail", 3, times) for times in range(3)]
    assert in_order["a"] == [*plain[:3], *tried, *plain[4:]]


def test_orderly_queue_is_locked_by_one_instance(cluster: Cluster, clients: Clients) -> None:
    """Two orderly instances share the queues; when one leaves, the other gets its locks."""
    clients.make_topic("Locked", 4, [cluster.main.address])
    options = {"group": "locked", "orderly": True}
    with (
        clients.push("locked-0", "Locked", **options) as first,
        clients.push("locked-1", "Locked", **options) as second,
    ):
        wait_until_shared(4, [first, second])
        check_round(clients, 4, [first, second], "shared")
        second.stop()
        wait_until_shared(4, [first])
        check_round(clients, 4, [first], "alone")


def test_broadcasting_gives_every_instance_every_message(clients: Clients) -> None:
    """Two instances of one group get all messages each."""
    bodies = [f"broadcast {n}" for n in range(12)]
    clients.send("Broadcast", bodies)
    options = {"group": "broadcast", "broadcasting": True}
    with (
        clients.push("broadcast-0", "Broadcast", **options) as first,
        clients.push("broadcast-1", "Broadcast", **options) as second,
    ):
        for consumer in (first, second):
            assert sorted(one.body for one in consumer.received(12)) == sorted(bodies)
        clients.send("Broadcast", ["one more"])
        for consumer in (first, second):
            assert consumer.received(13)[-1].body == "one more"
            assert len(consumer.stop()) == 13


def test_instances_join_and_leave_and_share_the_queues(cluster: Cluster, clients: Clients) -> None:
    """One to four instances and back: every message is consumed, each queue by one of them."""
    clients.make_topic("Shared", 8, [cluster.main.address])
    meanwhile: list[str] = []
    with ExitStack() as running:
        every: list[PushConsumer] = []
        now: list[PushConsumer] = []

        def settle(change: str) -> None:
            sent = [f"while {change} {n}" for n in range(24)]
            clients.send("Shared", sent)
            meanwhile.extend(sent)
            wait_until_shared(8, now)
            check_round(clients, 8, now, change)

        for n in range(4):
            joined = clients.push(f"shared-{n}", "Shared", group="shared")
            every.append(running.enter_context(joined))
            now.append(joined)
            settle(f"{n} joined")
        for n in (1, 2, 0):
            now.pop(n).stop()
            settle(f"number {n} left")

        def are_consumed() -> bool:
            return {one.body for one in clients.received(every, 0)} >= set(meanwhile)

        eventually(are_consumed, "what was sent while instances came and went")


def test_clients_may_use_binary_headers(cluster: Cluster, peer: Peer) -> None:
    """rocketmq.serialize.type=ROCKETMQ: a producer and a consumer whose frames have no JSON."""
    binary = {"rocketmq.serialize.type": "ROCKETMQ"}
    outcome = peer.run("SendReceive", cluster.name_server, "Binary", "16", properties=binary)
    assert json.loads(outcome)["received"] == 16


def wait_until_shared(queues: int, consumers: list[PushConsumer]) -> None:
    """Wait until each has its share, the earlier ones one more, and no two have the same queue."""
    whole, rest = divmod(queues, len(consumers))
    shares = [whole + (n < rest) for n in range(len(consumers))]
    every = [f"broker-a:{n}" for n in range(queues)]

    def is_shared() -> bool:
        owned = [consumer.queues() for consumer in consumers]
        together = sorted(queue for one in owned for queue in one)
        return sorted(map(len, owned), reverse=True) == shares and together == every

    eventually(is_shared, f"{len(consumers)} consumers to share {queues} queues as {shares}")


def check_round(
    clients: Clients, queues: int, consumers: list[PushConsumer], round_name: str
) -> None:
    """Two messages to each queue: they come once, in order, to the one that has their queue."""
    owner = {queue: consumer.name for consumer in consumers for queue in consumer.queues()}
    asked = [
        {"body": f"{round_name}/{number}", "broker": "broker-a", "queue": queue}
        for number in range(2)
        for queue in range(queues)
    ]
    clients.send(consumers[0].topic, asked, "queue")
    found: list[Message] = []

    def are_there() -> bool:
        received = clients.received(consumers, 0)
        found[:] = [one for one in received if one.body.startswith(f"{round_name}/")]
        return len(found) >= 2 * queues

    eventually(are_there, f"the messages of round {round_name!r}")
    assert sorted((one.queue, one.body, one.consumer) for one in found) == sorted(
        (queue, f"{round_name}/{number}", owner[f"broker-a:{queue}"])
        for number in range(2)
        for queue in range(queues)
    )
