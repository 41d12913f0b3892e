"""What the sections of the client's benchmark share: both brokers, and who takes turns at them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from broker_load import remove_generators
from broker_requests import ASYNC
from broker_servers import JAVA, ROKETTO, Server, open_peer, start_broker
from broker_versus import Pair
from client_java import JavaConsumer, JavaProducer, JavaPrograms
from client_marks import Figures
from client_process import ClientFailedError
from client_sizes import Sizes

BROKERS: Final = (ROKETTO, JAVA)


@dataclass(frozen=True, slots=True)
class Contender:
    """A client with something to do, and what does it at a broker."""

    name: str
    turn: Callable[[Server], Figures]
    brokers: Sequence[str] = BROKERS


Found = Mapping[str, Mapping[str, list[Figures]]]
"""The rounds by contender and by broker."""


class ClientRig:
    """Both brokers for the whole run, Java's programs when a section asks for them."""

    def __init__(self, sizes: Sizes, java_version: str) -> None:
        self.sizes = sizes
        self.java_version = java_version
        self._stack = ExitStack()
        self._stack.callback(remove_generators)
        self._java = self._stack.enter_context(open_peer(java_version))
        self._programs = JavaPrograms(java_version)
        self._stack.callback(self._programs.close)
        self._consumer: JavaConsumer | None = None
        self._producer: JavaProducer | None = None
        self._turns = 0

    def __enter__(self) -> Self:
        try:
            start = self._stack.enter_context
            ours, java = (start(start_broker(kind, self._java, ASYNC)) for kind in BROKERS)
        except BaseException:
            self._stack.close()
            raise
        self.pair = Pair(ours, java)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def start_java_consumer(self) -> None:
        """Early: it may take half a minute until brokers let it pull."""
        self._consumer = JavaConsumer(self._programs, self.sizes)
        for server in self.pair:
            self._consumer.start(server)

    def java_consumer(self) -> JavaConsumer:
        """Warmed up by now."""
        if self._consumer is None:
            self.start_java_consumer()
        assert self._consumer is not None
        self._alone(self._consumer.warm_up)
        return self._consumer

    def java_producer(self) -> JavaProducer:
        """Warmed up, and Java's broker with it."""
        if self._producer is None:
            self._producer = JavaProducer(self._programs, self.sizes)
            self._alone(self._producer.warm_up)
        return self._producer

    def _alone(self, act: Callable[[Server], object]) -> None:
        for server in self.pair:
            with self.pair.alone(server):
                act(server)

    def take_turns(
        self,
        contenders: Sequence[Contender],
        rounds: int,
        may_fail: Callable[[Contender, ClientFailedError], None] | None = None,
    ) -> Found:
        """Each at each of its brokers in every round; every other round goes backwards.

        Who fails has no more turns and no figures, and ``may_fail`` is told; without it, all ends.
        """
        turns = [
            (contender, server)
            for contender in contenders
            for server in self.pair
            if server.kind in contender.brokers
        ]
        found: dict[str, dict[str, list[Figures]]] = {
            contender.name: {kind: [] for kind in contender.brokers} for contender in contenders
        }
        for number in range(rounds):
            for contender, server in turns if number % 2 == 0 else reversed(turns):
                if contender.name not in found:
                    continue
                try:
                    with self.pair.alone(server):
                        figures = contender.turn(server)
                except ClientFailedError as why:
                    if may_fail is None:
                        raise
                    del found[contender.name]
                    may_fail(contender, why)
                else:
                    found[contender.name][server.kind].append(figures)
        return found

    def new_group(self) -> str:
        """A consumer group that was never there before, so that it begins with the backlog."""
        self._turns += 1
        return f"ClientBench{self._turns}"
