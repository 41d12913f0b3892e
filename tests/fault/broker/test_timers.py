"""Timer messages and kill -9: each is delivered, none early, and none a second time.

Java's broker delivers again what came between its last flush and the kill.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from checker import Report
from fault.appender import PRODUCERS
from fault.broker.later import PATIENCE_S, QUEUES, UNDER_WAY, Later, Plan
from fault.broker.planted import lose_index, planted, timers_again, timers_early, timers_lost
from fault.broker.producers import properties_of
from fault.broker.site import LARGE, Site
from fault.broker.wire import Queue, ask, connected, read_queue, send_request
from roketto.clock import wall_ms
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.route import KVTable
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.names import TIMER_TOPIC
from roketto.protocol.property_names import TIMER_DELIVER_MS
from roketto.remoting.connection import Connection
from roketto.store.timer_log import UNIT_BYTES

CONFIG: Final = {
    **LARGE,
    "timerPrecisionMs": "100",
    "timerRollWindowSlot": "15",
    "timerFlushIntervalMs": "100",
    "mappedFileSizeTimerLog": str(200 * UNIT_BYTES),
}
"""Most messages roll on the way to their time, and the timer log has many files."""
FIRST_MS: Final = 1_000
SEED: Final = 20261117


class Timed(Later):
    """Messages that were sent with a time, each for some time within the span."""

    def __init__(self, site: Site, count: int, span_ms: int, patience_s: float) -> None:
        super().__init__(site, count, patience_s)
        self._span_ms = span_ms
        self._random = random.Random(SEED)

    def plan(self, producer: int, number: int) -> Plan:
        due_ms = wall_ms() + FIRST_MS + self._random.randrange(self._span_ms)
        # Each has a time of its own, so nothing is said of their order.
        return Plan(due_ms, {TIMER_DELIVER_MS: str(due_ms)}, f"p{producer}-{number}")

    async def rolls(self) -> int:
        """How often messages have rolled."""
        async with connected(self.site.address) as connection:
            return len(await read_queue(connection, Queue(TIMER_TOPIC, 0))) - self.count


async def run_timers(
    folder: Path,
    messages: int,
    kills: int,
    program: Sequence[str] = ("roketto",),
    *,
    span_ms: int = 2_000,
    patience_s: float = PATIENCE_S,
) -> Report:
    """Send all, and kill the broker so many times while it delivers them."""
    with Site(folder, CONFIG, program=program) as site:
        timed = Timed(site, messages, span_ms, patience_s)
        reads = await timed.deliver(kills, rest_s=0.4)
        rolls = await timed.rolls()
        site.stop()
    report = timed.judge(reads)
    assert rolls > 0, "no message has rolled"
    print(f"rolls: {rolls}")
    return report


async def test_every_timer_message_is_delivered_once_through_twenty_kills(tmp_path: Path) -> None:
    """3,000 with times of their own."""
    report = await run_timers(tmp_path, 3_000, 20, span_ms=7_000)
    assert (report.read, report.ok) == (3_000, 3_000)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_thirty_thousand_timer_messages_through_two_hundred_kills(tmp_path: Path) -> None:
    """The long tier."""
    await run_timers(tmp_path, 30_000, 200, span_ms=100_000, patience_s=300.0)


@pytest.mark.parametrize(
    ("bug", "kills", "noticed"),
    [
        (timers_again, 1, r"duplicate [1-9]"),
        (timers_early, 0, r"was delivered \d+ ms early"),
    ],
)
async def test_delivering_twice_or_early_is_noticed(
    tmp_path: Path, bug: Callable[[], None], kills: int, noticed: str
) -> None:
    """Planted: what was delivered is not looked for, and slots that end too soon."""
    with pytest.raises(AssertionError, match=noticed):
        await run_timers(tmp_path, 300, kills, planted(bug), span_ms=1_000)


async def test_delivering_not_all_is_noticed(tmp_path: Path) -> None:
    """Planted: some are taken for delivered."""
    with pytest.raises(TimeoutError):
        await run_timers(tmp_path, 300, 0, planted(timers_lost), span_ms=500, patience_s=4.0)


async def test_keys_that_are_lost_are_noticed(tmp_path: Path) -> None:
    """Planted: the index is begun anew with every start."""
    with pytest.raises(AssertionError, match=r"^\d+ of \d+ keys find nothing"):
        await run_timers(tmp_path, 300, 1, planted(lose_index), span_ms=1_000)


# --- very many ------------------------------------------------------------------------------------


async def figure(connection: Connection, name: str) -> int:
    """One of the figures that a broker tells of itself."""
    answer = await ask(connection, Command(RequestCode.GET_BROKER_RUNTIME_INFO))
    return int(decode_body(KVTable, bytes(answer.body)).table[name])


async def send_far(address: str, count: int) -> None:
    """Send messages that are due in an hour, and later."""
    due_ms = wall_ms() + 3_600_000

    async def produce(first: int) -> None:
        async with connected(address) as connection:
            for start in range(first, count, PRODUCERS * UNDER_WAY):
                numbers = range(start, min(start + UNDER_WAY, count))
                requests = (
                    send_request(
                        QUEUES[number % 4], b"x" * 64,
                        {**properties_of(f"f{number}"), TIMER_DELIVER_MS: str(due_ms + number)},
                    )
                    for number in numbers
                )  # fmt: skip
                for answer in await asyncio.gather(*(ask(connection, it) for it in requests)):
                    assert answer.code == 0, answer.remark

    await asyncio.gather(*(produce(n * UNDER_WAY) for n in range(PRODUCERS)))


async def until_waiting(address: str, count: int) -> None:
    async with connected(address) as connection, asyncio.timeout(PATIENCE_S):
        while await figure(connection, "timerCongestNum") < count:  # noqa: ASYNC110 (its broker)
            await asyncio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_a_million_timers_cost_little_and_a_restart_reads_little(tmp_path: Path) -> None:
    """Less than 32 bytes of memory for each; a start after a kill does not go through them."""
    await run_many(tmp_path, 1_000_000)


async def run_many(folder: Path, count: int) -> None:
    """Let so many wait, kill the broker, and let it go on."""
    config = {**CONFIG, "timerPrecisionMs": "1000", "timerRollWindowSlot": "172800",
              "mappedFileSizeTimerLog": "104857600", "messageIndexEnable": "false"}  # fmt: skip
    with Site(folder, config) as site:
        server = site.start()
        await send_far(site.address, 10_000)
        await until_waiting(site.address, 10_000)
        before_kb = private_kb(server.popen.pid)
        await send_far(site.address, count - 10_000)
        await until_waiting(site.address, count)
        after_kb = private_kb(server.popen.pid)
        await asyncio.sleep(2)  # the last of it comes to the disk
        site.kill()
        server = site.start()
        await until_waiting(site.address, count)
        print(
            f"{count} timers: {before_kb} kB before, {after_kb} kB after,"
            f" {private_kb(server.popen.pid)} kB after a restart of {server.start_s:.2f} s"
        )
        assert (after_kb - before_kb) * 1024 < count * 32
        assert server.start_s < 10
        site.stop()


def private_kb(pid: int) -> int:
    """Memory that is the process's own: files that it has mapped are not."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise AssertionError("the process has no memory")
