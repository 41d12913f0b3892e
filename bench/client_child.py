"""What the measured programs say: a word and a number a line. They may import nothing of ours.

A program that sends says "ready" when it does, and, told to stop, "failed" and "acknowledged". One
that consumes says "first" and "last" when so many messages have come, and waits to be looked at.
"""

import sys
import threading
import time
from collections.abc import Callable


def say(word: str, number: int = 0) -> None:
    print(word, number, flush=True)


def wait_for_stop() -> None:
    """Until the benchmark says so, or is gone."""
    sys.stdin.readline()


def say_sent(acknowledged: int, failed: int = 0) -> None:
    say("failed", failed)
    say("acknowledged", acknowledged)


def send_in_threads(send: Callable[[], bool], threads: int) -> None:
    """Call it again and again in so many threads; it says whether a message was acknowledged."""
    counts = [[0, 0] for _ in range(threads)]
    counts[0][send()] += 1  # it connects
    stopping = threading.Event()

    def work(count: list[int]) -> None:
        while not stopping.is_set():
            count[send()] += 1

    workers = [threading.Thread(target=work, args=(count,)) for count in counts]
    for worker in workers:
        worker.start()
    say("ready")
    wait_for_stop()
    stopping.set()
    for worker in workers:
        worker.join()
    say_sent(sum(count[1] for count in counts), sum(count[0] for count in counts))


class Progress:
    """Counts messages, and says when the measured part of them begins and ends.

    It ends after so many messages, or with the first that comes after so many seconds. Threads have
    to take turns: ``lock`` is for them.
    """

    def __init__(
        self, first: int, last: int, seconds: float, on_last: Callable[[], object]
    ) -> None:
        self.lock = threading.Lock()
        self._first = first
        self._last = last
        self._seconds = seconds
        self._on_last = on_last
        self._seen = 0
        self._until_s = 0.0
        self._is_done = False

    def add(self, messages: int) -> None:
        before = self._seen
        self._seen = seen = before + messages
        if before < self._first <= seen:
            self._until_s = time.monotonic() + self._seconds
            say("first", seen)
        elif seen > self._first and not self._is_done:
            self._is_done = seen >= self._last or time.monotonic() > self._until_s
            if self._is_done:
                say("last", seen)
                self._on_last()

    def add_safely(self, messages: int) -> None:
        with self.lock:
            self.add(messages)
