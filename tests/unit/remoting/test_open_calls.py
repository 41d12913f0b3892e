"""Each request is answered or ends in its time, with one timer for all of them."""

import asyncio

import pytest

from roketto.protocol.command import Command
from roketto.remoting.errors import ConnectionLostError, RequestTimeoutError
from roketto.remoting.open_calls import OpenCalls


def request(opaque: int) -> Command:
    command = Command(10)
    command.opaque = opaque
    return command


def make() -> OpenCalls:
    calls = OpenCalls(asyncio.get_running_loop())
    calls.peer = "10.0.0.7:10911"
    return calls


async def test_an_answer_goes_to_the_request_that_has_its_opaque() -> None:
    """Once: neither a second one nor one to nothing is given to anybody."""
    calls = make()
    waiting = {opaque: calls.open(request(opaque), 1_000) for opaque in (1, 2)}
    assert calls.answer(request(2))
    assert (waiting[1].done(), (await waiting[2]).opaque) == (False, 2)
    assert not calls.answer(request(2))
    assert not calls.answer(request(3))
    calls.close(2)
    calls.close(2)
    assert (len(calls), calls.answer(request(2))) == (1, False)
    calls.fail(ConnectionLostError("p", "it is gone"))
    with pytest.raises(ConnectionLostError, match="it is gone"):
        await waiting[1]


async def test_each_request_ends_in_its_own_time() -> None:
    """Whatever comes first: a shorter one than that of those before, a longer one, an answer."""
    loop = asyncio.get_running_loop()
    calls = make()
    began_s = loop.time()
    waiting = [calls.open(request(ms), ms) for ms in (200, 50, 120, 51, 100_000)]
    calls.answer(request(51))
    late: list[float] = []
    for number in (1, 2, 0):
        with pytest.raises(RequestTimeoutError, match=r"code 10 within \d+ ms") as caught:
            await waiting[number]
        assert caught.value.address == "10.0.0.7:10911"
        late.append(loop.time() - began_s)
    assert late == sorted(late)
    for at_s, least_s in zip(late, (0.05, 0.12, 0.2), strict=True):
        assert at_s > least_s - 0.01  # the clock of uvloop has milliseconds
    assert not waiting[4].done()
    calls.fail(ConnectionLostError("p", "it is gone"))
    assert waiting[4].exception()


async def test_many_requests_have_one_timer() -> None:
    """It is set anew only for one that ends before all others, and not when nobody waits."""
    calls = make()
    calls.open(request(0), 60)
    first = calls._timer
    for opaque in range(1_000):
        calls.open(request(opaque), 60)
        calls.answer(request(opaque))
        calls.close(opaque)
    assert first is not None
    assert calls._timer is first
    await asyncio.sleep(0.1)
    assert calls._timer is None
    waiting = [calls.open(request(1), 60)]
    second = calls._timer
    waiting.append(calls.open(request(2), 30))
    assert calls._timer is not second
    calls.fail(ConnectionLostError("p", "it is gone"))
    assert calls._timer is None
    assert all(isinstance(call.exception(), ConnectionLostError) for call in waiting)
