"""What the sections of the broker's benchmark share: running brokers, warmed up and filled."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Final, Self

from broker_frames import BATCH, PULL, batch_frames, pull_frames, send_frames
from broker_load import Load, Outcome, put_load, remove_generators, send_all
from broker_servers import JAVA, Server, open_peer, start_broker
from broker_sizes import Sizes
from broker_versus import Pair

QUEUES: Final = 8
TOPIC: Final = "Bench"
PULL_TOPIC: Final = "BenchPull"

_WARM_UP_BODY_BYTES: Final = 128


class Rig:
    """Starts pairs of brokers when a section first asks for them, and stops all at its end."""

    def __init__(self, sizes: Sizes, java_version: str, ours: str) -> None:
        self.sizes = sizes
        self.java = open_peer(java_version)
        self.ours = ours
        self._stack = ExitStack()
        self._stack.callback(remove_generators)
        self._stack.enter_context(self.java)
        self._pair: Pair | None = None
        self._pair_stack = ExitStack()
        self._pair_config: Mapping[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop_pair()
        self._stack.close()

    def pair(self, config: Mapping[str, str]) -> Pair:
        """Both brokers with this configuration, warmed up; those that run, if they have it."""
        if self._pair is None or self._pair_config != config:
            self.stop_pair()
            self._pair = Pair(self._started(self.ours, config), self._started(JAVA, config))
            self._pair_config = dict(config)
            for server in self._pair:
                self._warm_up(server)
        return self._pair

    @contextmanager
    def ours_by_itself(self, config: Mapping[str, str]) -> Iterator[Server]:
        """Ours with this configuration, warmed up, and nobody at work beside it.

        It is that of the pair, if one with this configuration runs.
        """
        if self._pair is not None and self._pair_config == config:
            with self._pair.alone(self._pair.ours):
                yield self._pair.ours
        else:
            with start_broker(self.ours, self.java, config) as server:
                self._warm_up(server)
                yield server

    def put_load(
        self,
        server: Server,
        frames: Sequence[bytes],
        load: Load,
        *,
        messages: int = 1,
        pulls: bool = False,
        transactions: bool = False,
        seconds: float | None = None,
    ) -> Outcome:
        """One round, of the usual length unless it is told another one."""
        sizes = self.sizes
        refused_share_max = sizes.refused_share_max
        return put_load(
            server, frames, load, seconds or sizes.round_s,
            messages=messages, pulls=pulls, transactions=transactions,
            refused_share_max=refused_share_max,
        )  # fmt: skip

    def stop_pair(self) -> None:
        self._pair = None
        self._pair_stack.close()

    def _started(self, kind: str, config: Mapping[str, str]) -> Server:
        return self._pair_stack.enter_context(start_broker(kind, self.java, config))

    def _warm_up(self, server: Server) -> None:
        """Every kind of request, many at once and one by one."""
        server.create_topic(TOPIC, QUEUES)
        server.create_topic(PULL_TOPIC, QUEUES)
        ends = fill(server, PULL_TOPIC, self.sizes.pull_messages)
        seconds = self.sizes.java_warm_up_s if server.kind == JAVA else self.sizes.warm_up_s
        sends = send_frames([TOPIC], QUEUES, _WARM_UP_BODY_BYTES)
        batches = batch_frames(TOPIC, QUEUES, _WARM_UP_BODY_BYTES)
        put_load(server, sends, Load(64, 16), seconds * 3 / 8, refused_share_max=1.0)
        put_load(server, sends, Load(16, 1), seconds * 2 / 8, refused_share_max=1.0)
        put_load(server, batches, Load(16, 4), seconds / 8, messages=BATCH, refused_share_max=1.0)
        server.subscribe([PULL_TOPIC])
        pulls = pull_frames(PULL_TOPIC, ends)
        put_load(
            server,
            pulls,
            Load(16, 4),
            seconds * 2 / 8,
            messages=PULL,
            pulls=True,
            refused_share_max=1.0,
        )


def fill(server: Server, topic: str, messages: int) -> list[int]:
    """Send so many messages of 128 B one by one, the queues in turn; where the queues end.

    A broker that starts may refuse some of them: nearly so many, then.
    """
    before = sum(server.queue_ends(topic, QUEUES))
    stored = send_all(server, send_frames([topic], QUEUES, 128), Load(16, 16), messages)
    return server.await_messages(topic, QUEUES, before + stored)
