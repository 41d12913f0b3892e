"""Questions to clients: answered by them, and so many at a time."""

import asyncio

import pytest

from roketto.broker.consumer_group import Member
from roketto.broker.relays import Relays
from roketto.protocol.codes import ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.remoting.errors import ConnectionLostError
from unit.broker.peers import Peer


class Answering(Peer):
    """A client that answers when the test lets it."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()
        self.error = error

    async def request(self, command: Command, timeout_ms: int) -> Command:
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return Command(0, remark=f"{command.code} {timeout_ms}")


def member(peer: Peer) -> Member:
    return Member("c", peer, 0, 479, 1.0)


async def test_the_answer_of_a_client_is_the_answer() -> None:
    relays, peer = Relays(), Answering()
    peer.may_answer.set()
    answer = await relays.ask(member(peer), Command(307), 10_000)
    assert answer.remark == "307 10000"
    assert len(relays) == 0


async def test_so_many_wait_and_no_more() -> None:
    """Who fails makes room as well as who answers."""
    relays = Relays(relays_max=2)
    good, bad = Answering(), Answering(ConnectionLostError("10.0.0.1:1", "gone"))
    tasks = [asyncio.create_task(relays.ask(member(peer), Command(307), 1)) for peer in (good, bad)]
    await asyncio.sleep(0)
    assert len(relays) == 2
    with pytest.raises(RequestError) as refused:
        await relays.ask(member(good), Command(307), 1)
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    good.may_answer.set()
    bad.may_answer.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[1], ConnectionLostError)
    assert len(relays) == 0
