"""The portal has one thread while somebody is in it, and brings back whatever happens in there."""

import asyncio
import contextvars
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from roketto.client import portal as portal_module
from roketto.client.errors import ClientClosedError
from roketto.client.portal import Portal, SelfWaitError, enter
from roketto.clock import monotonic_s


class Guest:
    """Somebody in the portal."""

    def stop(self) -> None:
        raise AssertionError("only the end of the program stops it")


@contextmanager
def entered() -> Iterator[Portal]:
    guest = Guest()
    portal = enter(guest)
    try:
        yield portal
    finally:
        portal.leave(guest)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "roketto-blocking"]


def run_python(script: str) -> subprocess.CompletedProcess[str]:
    """A script in a process of its own; a warning about forks of programs with threads is known."""
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_thread_lives_from_the_first_to_the_last() -> None:
    assert not threads()
    with entered() as first, entered() as second:
        assert first is second
        assert len(threads()) == 1
    assert not threads()
    with entered() as third:
        assert third is not first
    assert not threads()


def test_results_errors_and_context_come_through() -> None:
    """What is raised is the very same exception; context variables of the caller are seen."""
    color = contextvars.ContextVar("color", default="none")

    async def see() -> str:
        await asyncio.sleep(0)
        return color.get()

    error = KeyError("the very same")

    async def fail() -> None:
        raise error

    with entered() as portal:
        color.set("red")
        assert portal.run(see()) == "red"
        assert portal.call(threading.get_ident) != threading.get_ident()
        with pytest.raises(KeyError) as raised:
            portal.run(fail())
        assert raised.value is error


def test_many_threads_wait_at_the_same_time() -> None:
    """Each call waits for all others to be there: one after the other they would never end."""
    here: list[int] = []
    results: list[int] = []

    async def meet(number: int, everybody: asyncio.Event) -> int:
        here.append(number)
        if len(here) == 16:
            everybody.set()
        await everybody.wait()
        return number

    with entered() as portal:
        everybody = asyncio.Event()

        def work(number: int) -> None:
            results.append(portal.run(meet(number, everybody)))

        workers = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(10)
    assert sorted(results) == list(range(16))


def test_a_thread_that_blocks_after_its_call_holds_nobody_up() -> None:
    """All calls end in one turn of the loop; behind them the threads meet."""
    meeting = threading.Barrier(16)
    met: list[int] = []

    async def wait(everybody: asyncio.Event) -> None:
        await everybody.wait()

    with entered() as portal:
        everybody = asyncio.Event()

        def work() -> None:
            portal.run(wait(everybody))
            met.append(meeting.wait(10))

        workers = [threading.Thread(target=work) for _ in range(16)]
        for worker in workers:
            worker.start()
        portal.call(everybody.set)
        for worker in workers:
            worker.join(10)
    assert sorted(met) == list(range(16))


def test_no_call_of_many_threads_is_lost() -> None:
    """Those that take a turn of the loop, those that take none, and those that are cancelled."""
    ended: list[int] = []

    async def take(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    async def cancel() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)

    def work() -> None:
        for number in range(200):
            assert portal.run(take(number % 4)) == number % 4
            with pytest.raises(ClientClosedError):
                portal.run(cancel())
        ended.append(200)

    with entered() as portal:
        workers = [threading.Thread(target=work) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(20)
    assert ended == [200] * 8


def test_an_interrupt_cancels_and_lets_clean_up() -> None:
    """Ctrl-C is raised in the call that waits, after its coroutine has ended."""
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            ended.append("cleaned up")
            raise

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    me = threading.get_ident()

    def interrupt() -> None:
        signal.pthread_kill(me, signal.SIGINT)

    with entered() as portal:
        began_s = monotonic_s()
        timer = threading.Timer(0.05, interrupt)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            portal.run(wait())
        timer.join()
        assert ended == ["cleaned up"]
        assert monotonic_s() - began_s < 5
        assert portal.run(asyncio.sleep(0, "it goes on")) == "it goes on"


def test_a_call_that_would_wait_for_itself_is_refused() -> None:
    with entered() as portal:

        async def block() -> None:
            portal.run(asyncio.sleep(0))

        async def call() -> int:
            return portal.call(threading.get_ident)

        with pytest.raises(SelfWaitError, match="wait for itself"):
            portal.run(block())
        assert portal.run(call()) == portal.call(threading.get_ident)


def test_whoever_waits_at_the_end_is_told() -> None:
    """A call that is under way when the last one leaves ends with an error; so do later ones."""
    errors: list[BaseException] = []
    began = threading.Event()

    async def wait() -> None:
        began.set()
        await asyncio.sleep(60)

    def work() -> None:
        try:
            portal.run(wait())
        except ClientClosedError as error:
            errors.append(error)

    with entered() as portal:
        worker = threading.Thread(target=work)
        worker.start()
        assert began.wait(10)
    worker.join(10)
    assert [str(error) for error in errors] == [
        "stopped by somebody else while a call was under way"
    ]
    with pytest.raises(ClientClosedError, match="has ended"):
        portal.run(wait())


def test_a_loop_that_dies_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    """sys.exit() in a coroutine ends the loop; whoever waits is told, and the next gets another."""

    async def leave() -> None:
        sys.exit("enough")

    with entered() as portal:
        with pytest.raises((SystemExit, ClientClosedError)):
            portal.run(leave())
        portal._thread.join(10)
        with pytest.raises(ClientClosedError, match="has ended"):
            portal.run(asyncio.sleep(0))
        with entered() as other:
            assert other is not portal
            assert other.run(asyncio.sleep(0, 1)) == 1
    assert "has ended" in caplog.text
    assert not threads()


def test_an_end_that_does_not_come_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(portal_module, "_END_S", 0.01)
    let_go = threading.Event()
    guest = Guest()
    portal = enter(guest)
    portal.loop.call_soon_threadsafe(let_go.wait, 10)
    portal.leave(guest)
    assert "does not let go" in caplog.text
    let_go.set()
    portal._thread.join(10)


FORKED = """
import asyncio, os, sys
from roketto.client.portal import ForkedError, enter

class Guest:
    def stop(self): pass

guest = Guest()
portal = enter(guest)
child = os.fork()
if not child:
    try:
        portal.run(asyncio.sleep(0))
    except ForkedError as error:
        assert "make a new one here" in str(error), error
    else:
        os._exit(1)
    portal.leave(guest)     # the parent's, which the child leaves alone
    own = enter(guest)
    assert own is not portal and own.run(asyncio.sleep(0, 7)) == 7
    own.leave(guest)
    sys.exit(3)             # with what is done at the end of a program
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
assert portal.run(asyncio.sleep(0, 8)) == 8
portal.leave(guest)
print("fine")
"""


def test_a_child_is_told_and_gets_its_own() -> None:
    done = run_python(FORKED)
    assert (done.stdout, done.returncode) == ("fine\n", 0), done.stderr


FORGOTTEN = """
import asyncio
from roketto.client.portal import enter

class Guest:
    def __repr__(self): return "the guest"

    def stop(self):
        print("stopped,", portal.run(asyncio.sleep(0, "while the loop runs")))
        portal.leave(self)

portal = enter(Guest())
"""


def test_what_is_forgotten_is_stopped_at_the_end() -> None:
    """A program that stops nothing does not hang, and everything is stopped in order."""
    done = run_python(FORGOTTEN)
    assert done.stdout == "stopped, while the loop runs\n", done.stderr
    assert "the guest was not stopped before the end of the program" in done.stderr
    assert done.returncode == 0
