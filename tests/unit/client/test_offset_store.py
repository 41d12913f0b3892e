"""Offsets are asked for and told as Java's clients do, and only go back when somebody says so."""

from pathlib import Path

import pytest

from roketto.client.errors import ClientError, RefusedError, UnreachableError
from roketto.client.offset_store import (
    BrokerOffsets,
    LocalOffsets,
    Offsets,
    OffsetStore,
    local_offsets_path,
)
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from unit.client.core_rig import GROUP, MASTER, SLAVE, TOPIC, Rig, route_data, unreachable

QUEUE = MessageQueue("broker-a", 1, TOPIC)
OTHER = MessageQueue("broker-a", 2, TOPIC)
QUERY = RequestCode.QUERY_CONSUMER_OFFSET
UPDATE = RequestCode.UPDATE_CONSUMER_OFFSET


def stores(rig: Rig, folder: Path) -> list[OffsetStore]:
    return [BrokerOffsets(rig.client, GROUP), LocalOffsets(folder / "offsets.json")]


def test_memory_goes_back_only_when_it_is_told_to() -> None:
    """And not at all while it is frozen."""
    memory = Offsets()
    memory.update(QUEUE, 5, increase_only=True)
    memory.update(QUEUE, 4, increase_only=True)
    assert memory.memory(QUEUE) == 5
    memory.update(QUEUE, 3, increase_only=False)
    memory.update(OTHER, 0, increase_only=True)
    memory.update(QUEUE, -1, increase_only=False)
    assert memory.offsets(TOPIC) == memory.offsets() == {QUEUE: 3, OTHER: 0}
    assert memory.offsets("another") == {}
    memory.freeze(QUEUE, 100)
    memory.update(QUEUE, 200, increase_only=False)
    assert memory.memory(QUEUE) == 100
    memory.remove(QUEUE)
    assert memory.memory(QUEUE) is None
    memory.update(QUEUE, 7, increase_only=True)
    assert memory.memory(QUEUE) == 7


async def test_a_broker_is_asked_for_what_is_not_in_memory() -> None:
    """And the answer is remembered."""
    rig = Rig(lambda address, command: command.answer(ext={"offset": "42"}))
    store = BrokerOffsets(rig.client, GROUP)
    await store.load()
    assert await store.read(QUEUE) == 42
    assert await store.read(QUEUE) == 42
    fields = {
        "consumerGroup": GROUP, "topic": TOPIC, "queueId": "1", "bname": "broker-a",
    }  # fmt: skip
    assert rig.sent(QUERY) == [(MASTER, fields)]
    store.update(QUEUE, 50, increase_only=True)
    assert await store.read(QUEUE, memory_first=False) == 42
    assert store.memory(QUEUE) == 42


@pytest.mark.parametrize("code", [ResponseCode.QUERY_NOT_FOUND, ResponseCode.SUCCESS])
async def test_a_group_that_has_not_begun_has_no_offset(code: int) -> None:
    """Neither as an answer of its own nor as -1."""
    rig = Rig(lambda address, command: command.answer(code, ext={"offset": "-1"}))
    store = BrokerOffsets(rig.client, GROUP)
    assert await store.read(QUEUE) is None
    assert store.offsets() == {}


async def test_a_broker_that_cannot_tell_is_an_error() -> None:
    """It must not look as if nothing was stored: the group would begin somewhere else."""

    def refuse(address: str, command: Command) -> Command:
        return command.answer(ResponseCode.SYSTEM_BUSY, remark="later")

    def garble(address: str, command: Command) -> Command:
        return command.answer(ext={"offset": "many"})

    def vanish(address: str, command: Command) -> Command:
        raise unreachable(address)

    with pytest.raises(RefusedError, match="later"):
        await BrokerOffsets(Rig(refuse).client, GROUP).read(QUEUE)
    with pytest.raises(ClientError, match="cannot be read"):
        await BrokerOffsets(Rig(garble).client, GROUP).read(QUEUE)
    with pytest.raises(UnreachableError, match="broker broker-a at"):
        await BrokerOffsets(Rig(vanish).client, GROUP).read(QUEUE)


async def test_a_slave_is_asked_only_without_a_master() -> None:
    """After a new look at the route."""
    rig = Rig(lambda address, command: command.answer(ext={"offset": "1"}))
    rig.routes[TOPIC] = route_data({"broker-a": {1: SLAVE}})
    store = BrokerOffsets(rig.client, GROUP)
    assert await store.read(QUEUE) == 1
    store.update(QUEUE, 2, increase_only=True)
    assert await store.persist([QUEUE]) == {}
    assert [address for address, _ in rig.sent(QUERY) + rig.sent(UPDATE)] == [SLAVE, SLAVE]


async def test_only_what_is_chosen_and_known_is_stored() -> None:
    """Each by a request that is answered: whoever has waited knows that it is kept."""
    rig = Rig(lambda address, command: command.answer())
    store = BrokerOffsets(rig.client, GROUP)
    store.update(QUEUE, 5, increase_only=True)
    store.update(OTHER, 6, increase_only=True)
    assert await store.persist([QUEUE, MessageQueue("broker-a", 3, TOPIC)]) == {}
    fields = {
        "consumerGroup": GROUP, "topic": TOPIC, "queueId": "1", "commitOffset": "5",
        "bname": "broker-a",
    }  # fmt: skip
    assert rig.sent(UPDATE) == [(MASTER, fields)]
    assert store.offsets() == {QUEUE: 5, OTHER: 6}


async def test_what_could_not_be_stored_is_told_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not every five seconds; but again when it has worked in between."""
    is_up = False

    def answer(address: str, command: Command) -> Command:
        if is_up or (command.ext or {})["queueId"] == "2":
            return command.answer()
        raise unreachable(address)

    store = BrokerOffsets(Rig(answer).client, GROUP)
    store.update(QUEUE, 5, increase_only=True)
    store.update(OTHER, 6, increase_only=True)
    for _ in range(3):
        failed = await store.persist([QUEUE, OTHER])
        assert list(failed) == [QUEUE]
    assert isinstance(failed[QUEUE], UnreachableError)
    assert caplog.text.count("not kept by broker-a") == 1
    is_up = True
    assert await store.persist([QUEUE, OTHER]) == {}
    is_up = False
    await store.persist([QUEUE])
    assert caplog.text.count("not kept by broker-a") == 2


async def test_a_file_keeps_offsets_for_the_next_start(tmp_path: Path) -> None:
    """Also those of queues that are others' now."""
    path = local_offsets_path("10.0.0.1@DEFAULT", GROUP, tmp_path)
    assert path == tmp_path / "10.0.0.1@DEFAULT" / GROUP / "offsets.json"
    first = LocalOffsets(path)
    await first.load()
    assert await first.read(QUEUE) is None
    first.update(QUEUE, 5, increase_only=True)
    assert await first.read(QUEUE) == 5
    first.update(OTHER, 6, increase_only=True)
    assert await first.persist([QUEUE, OTHER]) == {}
    second = LocalOffsets(path)
    assert await second.read(OTHER) == 6
    second.update(OTHER, 7, increase_only=True)
    assert await second.persist([OTHER]) == {}
    assert await second.read(OTHER, memory_first=False) == 7
    third = LocalOffsets(path)
    await third.load()
    assert third.offsets() == {QUEUE: 5, OTHER: 7}
    third.remove(QUEUE)
    assert await third.read(QUEUE) == 5


async def test_a_damaged_file_stops_who_would_begin_with_it(tmp_path: Path) -> None:
    """And is not written over by who was there before."""
    path = tmp_path / "offsets.json"
    path.write_bytes(b"{")
    store = LocalOffsets(path)
    with pytest.raises(ClientError, match="damaged"):
        await store.load()
    store.update(QUEUE, 5, increase_only=True)
    assert list(await store.persist([QUEUE])) == [QUEUE]
    assert path.read_bytes() == b"{"


async def test_both_stores_are_what_consumers_expect(tmp_path: Path) -> None:
    """As far as types can tell, and no queue more than none."""
    rig = Rig(lambda address, command: command.answer())
    for store in stores(rig, tmp_path):
        assert await store.persist([]) == {}
        assert store.memory(QUEUE) is None
    assert rig.pool.sent == []
