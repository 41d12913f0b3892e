"""Transactions and kill -9 (F28): each ends as its producer says, and is seen once or never.

Java's broker, which notes the end of a transaction up to three seconds after it, commits again what
it asks about after a kill; and it stores a message once more with every commit that it is sent.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

import pytest

from checker import Found, QueueRead, check
from evidence import Evidence, Outcome, Place
from fault.appender import body_of, value_of
from fault.broker.planted import (
    forget_ends,
    lose_commits,
    lose_index,
    planted,
    show_rolled_back,
)
from fault.broker.producers import properties_of
from fault.broker.site import LARGE, Site
from fault.broker.wire import (
    Queue,
    ask,
    check_keys,
    connected,
    find_by_key,
    read_queue,
    send_request,
    stored_at,
)
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.transactions import (
    CheckTransactionStateRequest,
    EndTransactionRequest,
)
from roketto.protocol.ids import decode_offset_id
from roketto.protocol.record import decode_records
from roketto.protocol.sysflags import (
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from roketto.remoting.connection import Connection, Reply
from roketto.remoting.errors import RemotingError

GROUP: Final = "transacting"
QUEUES: Final = tuple(Queue("T", number) for number in range(4))
CONFIG: Final = {
    **LARGE, "transactionTimeOut": "100", "transactionCheckInterval": "100",
    "transactionCheckMax": "1000",
}  # fmt: skip
PRODUCERS: Final = 4
UNDER_WAY: Final = 16
ENDS_A_LIFE: Final = 50
"""Transactions that end at least between a start and a kill."""
PATIENCE_S: Final = 60.0
SILENT: Final = 0


class Transacting:
    """Producers whose transactions end as their numbers say, and what they were told."""

    def __init__(self, site: Site, seed: int) -> None:
        self.site = site
        self.random = Random(seed)
        self.evidence = Evidence()
        self.decisions: dict[str, int] = {}
        self.asked: dict[str, int] = {}
        self.ended = 0
        self._count = 0

    def decide(self, value: str) -> int:
        """Three of four are committed."""
        return self.decisions.setdefault(
            value, TRANSACTION_ROLLBACK if int(value[1:]) % 4 == 3 else TRANSACTION_COMMIT
        )

    async def produce(self, producer: int) -> None:
        """Send until the broker is gone."""
        with suppress(RemotingError, OSError):
            async with connected(self.site.address, self.answer) as connection:
                await register(connection, f"{producer}")
                while True:
                    await asyncio.gather(
                        *(self._transact(connection, producer) for _ in range(UNDER_WAY))
                    )

    async def _transact(self, connection: Connection, producer: int) -> None:
        """One transaction: its half message, and mostly a word about its end, sometimes two."""
        self._count += 1
        value = f"t{self._count}"
        queue = QUEUES[self._count % len(QUEUES)]
        is_committed = self.decide(value) == TRANSACTION_COMMIT
        if is_committed:
            self.evidence.send(value, f"p{producer}-{self._count}", str(queue))
        properties = {**properties_of(value), "TRAN_MSG": "true", "PGROUP": GROUP}
        request = send_request(queue, body_of(value), properties, sys_flag=TRANSACTION_PREPARED)
        answer = await ask(connection, request)
        assert answer.code == 0, answer.remark
        if is_committed:
            self.evidence.ok(value, Place(str(queue), None))
        where = stored_at(answer)
        log_offset = decode_offset_id(where.msg_id).log_offset
        for _ in range(self.random.choice((SILENT, 1, 1, 1, 2))):
            end = end_request(value, where.queue_offset, log_offset, self.decide(value))
            answer = await ask(connection, end)
            assert answer.code == 0, answer.remark
            self.ended += 1

    def answer(self, connection: Connection, request: Command) -> Reply:
        """What the broker asks; nothing is answered now and then."""
        assert request.code == RequestCode.CHECK_TRANSACTION_STATE, request
        header = decode_header(CheckTransactionStateRequest, request.ext)
        (half,) = decode_records(memoryview(request.body), strict=True)
        value = value_of(bytes(half.body))
        self.asked[value] = self.asked.get(value, 0) + 1
        if self.random.random() < 0.9:
            connection.send_one_way(
                end_request(
                    value, header.half_queue_offset, header.log_offset, self.decide(value),
                    is_asked=True,
                )
            )  # fmt: skip
        return None

    async def until_more_end(self, count: int) -> None:
        """Wait until so many more transactions were ended."""
        goal = self.ended + count
        async with asyncio.timeout(PATIENCE_S):
            while self.ended < goal:  # noqa: ASYNC110 (its producers' work)
                await asyncio.sleep(0.01)

    async def until_ended(self, patience_s: float) -> None:
        """Answer until every message that was acknowledged, and is to be committed, is there."""
        wanted = {send.value for send in self.evidence if send.outcome is Outcome.OK}
        async with connected(self.site.address, self.answer) as connection:
            await register(connection, "last")
            async with asyncio.timeout(patience_s):
                while not wanted <= await self.seen():  # noqa: ASYNC110 (its broker's work)
                    await asyncio.sleep(0.1)
                before = -1  # and until nobody is asked any more
                while before != sum(self.asked.values()):
                    before = sum(self.asked.values())
                    await asyncio.sleep(0.5)

    async def seen(self) -> set[str]:
        return {found.value for read in await self.read() for found in read.found}

    async def read(self) -> list[QueueRead]:
        reads = []
        async with connected(self.site.address) as connection:
            for queue in QUEUES:
                records = await read_queue(connection, queue)
                found = [Found(None, value_of(bytes(record.body))) for record in records]
                reads.append(QueueRead("broker", str(queue), found))
        return reads

    async def check_keys(self, reads: Sequence[QueueRead]) -> None:
        """All that came is found by its keys; of what was rolled back no key finds anything."""
        values = {found.value for read in reads for found in read.found}
        rolled_back = {
            value for value, end in self.decisions.items() if end == TRANSACTION_ROLLBACK
        }
        async with connected(self.site.address) as connection:
            await check_keys(connection, "T", values)
            for value in rolled_back - values:
                assert not await find_by_key(connection, "T", f"U{value}"), value


async def register(connection: Connection, name: str) -> None:
    """Be known as a producer, whom the broker may ask."""
    data = HeartbeatData(client_id=name, producer_data_set=[ProducerData(GROUP)])
    answer = await ask(connection, Command(RequestCode.HEART_BEAT, None, encode_body(data)))
    assert answer.code == 0, answer.remark


def end_request(
    value: str, offset: int, log_offset: int, decision: int, *, is_asked: bool = False
) -> Command:
    header = EndTransactionRequest(
        producer_group=GROUP, half_queue_offset=offset, log_offset=log_offset,
        commit_or_rollback=decision, from_transaction_check=is_asked, msg_id=value,
    )  # fmt: skip
    return Command(RequestCode.END_TRANSACTION, encode_header(header))


async def run_kills(
    folder: Path,
    kills: int,
    seed: int,
    program: Sequence[str] = ("roketto",),
    patience_s: float = PATIENCE_S,
    flush: str = "ASYNC_FLUSH",
) -> None:
    config = {**CONFIG, "flushDiskType": flush}
    with Site(folder, config, program=program) as site:
        transacting = Transacting(site, seed)
        for _ in range(kills):
            site.start()
            producers = [asyncio.create_task(transacting.produce(n)) for n in range(PRODUCERS)]
            await transacting.until_more_end(ENDS_A_LIFE)
            await asyncio.sleep(transacting.random.random() * 0.4)
            site.kill()
            await asyncio.gather(*producers)
        site.start()
        await transacting.until_ended(patience_s)
        site.stop()
        site.start()
        reads = await transacting.read()
        await transacting.check_keys(reads)
        site.stop()
    report = check(transacting.evidence, reads, faults={"kill -9": site.kills})
    report.raise_if_bad(f"seed {seed}")
    assert transacting.asked, "nobody was asked"
    assert transacting.ended >= ENDS_A_LIFE * kills
    assert "Traceback" not in site.log, site.log
    print(
        f"seed {seed}: {report}\n{len(transacting.decisions)} transactions,"
        f" {sum(transacting.asked.values())} questions about {len(transacting.asked)} of them"
    )


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_transactions_end_once_through_ten_kills(tmp_path: Path, flush: str) -> None:
    await run_kills(tmp_path, 10, 1, flush=flush)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_transactions_end_once_through_two_hundred_kills(tmp_path: Path, flush: str) -> None:
    """The long tier."""
    await run_kills(tmp_path, 200, 2, flush=flush)


async def test_ends_that_are_not_kept_are_noticed(tmp_path: Path) -> None:
    """Planted: what was decided is in no record, and commits are not looked for."""
    with pytest.raises(AssertionError, match=r"duplicate [1-9]"):
        await run_kills(tmp_path, 2, 3, planted(forget_ends), 10.0)


async def test_commits_that_are_lost_are_noticed(tmp_path: Path) -> None:
    """Planted: some commits store nothing. A message never comes, or a second commit finds out."""
    with pytest.raises((TimeoutError, AssertionError)) as noticed:
        await run_kills(tmp_path, 1, 4, planted(lose_commits), 5.0)
    is_late = isinstance(noticed.value, TimeoutError)
    assert is_late or "was rolled back before" in str(noticed.value)


async def test_what_is_rolled_back_and_seen_is_noticed(tmp_path: Path) -> None:
    """Planted: a rollback stores its message."""
    with pytest.raises(AssertionError, match=r"phantom [1-9]"):
        await run_kills(tmp_path, 1, 5, planted(show_rolled_back))


async def test_keys_that_are_lost_are_noticed(tmp_path: Path) -> None:
    """Planted: the index is begun anew with every start."""
    with pytest.raises(AssertionError, match=r"^\d+ of \d+ keys find nothing"):
        await run_kills(tmp_path, 1, 6, planted(lose_index))
