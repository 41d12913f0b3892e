"""What brokers count: with the same traffic Java's and ours have the same figures.

They are looked at every ten seconds, so that some of these tests wait as long. What a broker counts
does not depend on who asks: clients of one version are enough.
"""

import asyncio
import re
from typing import Final, NamedTuple

import pytest

from fault.broker.wire import Queue, ask, batch_request, connected, send
from interop.broker.clients import eventually_equal
from interop.broker.cluster import Cluster
from interop.peer import VERSIONS, Peer
from roketto.protocol.batch import BatchItem
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.stats import BrokerStatsData, TopicStatsTable
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import encode_header
from roketto.protocol.headers.offsets import UpdateConsumerOffsetRequest
from roketto.protocol.headers.pull import PullMessageRequest
from roketto.protocol.headers.send import ConsumerSendMsgBackRequest
from roketto.protocol.headers.stats import ViewBrokerStatsDataRequest
from roketto.protocol.headers.topics import GetTopicStatsInfoRequest
from roketto.protocol.record import Record, decode_records
from roketto.protocol.sysflags import PULL_SUBSCRIPTION, PULL_SUSPEND
from roketto.remoting.connection import Connection

pytestmark = pytest.mark.parametrize(
    "peer",
    [
        pytest.param(
            VERSIONS[0],
            marks=[pytest.mark.peer, pytest.mark.xdist_group(f"peer-{VERSIONS[0]}")],
        )
    ],
    indirect=True,
    scope="session",
)

TOPIC: Final = "Counted"
GROUP: Final = "counters"
RETRY: Final = f"%RETRY%{GROUP}"

SPELLING_OF_49: Final = "getTransferedTps"
"""Tools of 4.9 fail without it."""

SENT: Final = 10
IN_BATCH: Final = 5
DELAYED: Final = 1
COUNT: Final = SENT + IN_BATCH + DELAYED
LEFT: Final = 1
"""Of these so many are not consumed in the end."""

SUMS: Final = {
    ("TOPIC_PUT_NUMS", TOPIC): COUNT,
    ("GROUP_GET_NUMS", f"{TOPIC}@{GROUP}"): COUNT,
    ("TOPIC_PUT_NUMS", RETRY): 1,
    ("GROUP_GET_NUMS", f"{RETRY}@{GROUP}"): 1,
    ("SNDBCK_PUT_NUMS", f"{TOPIC}@{GROUP}"): 2,
    ("SNDBCK2DLQ_TIMES", f"null@{TOPIC}@{GROUP}@SEND_BACK_TO_DLQ"): 1,
}
"""What the traffic below comes to, by the names that mqadmin, dashboards and exporters ask for."""

AVERAGES: Final = {
    ("TOPIC_PUT_NUMS", TOPIC): COUNT / (SENT + 1 + DELAYED),
    ("GROUP_GET_NUMS", f"{TOPIC}@{GROUP}"): COUNT / 3,
}
"""Messages of a put, the batch being one, and of a pull."""

NEVER: Final = [
    ("TOPIC_PUT_NUMS", f"%DLQ%{GROUP}"),
    ("TOPIC_PUT_NUMS", "NobodyKnowsIt"),
    ("QUEUE_PUT_NUMS", f"{TOPIC}@0"),
    ("GROUP_GET_NUMS", f"{TOPIC}@nobody"),
    ("GROUP_ACK_NUMS", f"{TOPIC}@{GROUP}"),
    ("GROUP_GET_FALL_SIZE", f"0@{TOPIC}@{GROUP}"),
    ("COMMERCIAL_SEND_TIMES", TOPIC),
    ("DLQ_PUT_NUMS", f"{TOPIC}@{GROUP}"),
    ("NO_SUCH_NAME", TOPIC),
]
"""What no broker has an item for, whatever it does."""

EVER: Final = [
    ("TOPIC_PUT_LATENCY", f"0@{TOPIC}"),
    ("GROUP_GET_LATENCY", f"0@{TOPIC}@{GROUP}"),
    ("QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@0"),
    ("QUEUE_GET_NUMS", "SCHEDULE_TOPIC_XXXX@0@SCHEDULE_CONSUMER"),
    ("GROUP_GET_NUMS", "SCHEDULE_TOPIC_XXXX@SCHEDULE_CONSUMER"),
    ("BROKER_PUT_NUMS", "Interop"),
    ("BROKER_GET_NUMS", "Interop"),
    ("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "Interop"),
    ("BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", "Interop"),
]
"""What every broker has one for; others use these, too, or they tell of time."""

_NUMBER: Final = r"\d+"
_FLOAT: Final = r"\d+\.\d+(E-?\d+)?"
_RATES: Final = rf"({_FLOAT})? ({_FLOAT})? ({_FLOAT})?"
_BYTES: Final = r"\d+(\.\d [KMGTPE]i| )B"

FORMATS: Final = {
    "EndTransactionQueueSize": _NUMBER,
    "EndTransactionThreadPoolQueueCapacity": _NUMBER,
    "bootTimestamp": r"\d{13}",
    "brokerActive": "true",
    "brokerVersionDesc": r"V5_\d+_\d+",
    "commitLogDirCapacity": rf"Total : {_BYTES}, Free : {_BYTES}\.",
    "commitLogDiskRatio": r"[01]\.\d+",
    "commitLogDiskRatio_/commitlog": r"[01]\.\d+",
    "commitLogMaxOffset": _NUMBER,
    "commitLogMinOffset": _NUMBER,
    "consumeQueueDiskRatio": r"[01]\.\d+",
    "dispatchBehindBytes": _NUMBER,
    "dispatchMaxBuffer": _NUMBER,
    "earliestMessageTimeStamp": r"\d{13}",
    "getFoundTps": _RATES,
    "getMessageEntireTimeMax": _NUMBER,
    "getMissTps": _RATES,
    "getTotalTps": _RATES,
    "getTransferredTps": _RATES,
    "msgGetTotalTodayMorning": _NUMBER,
    "msgGetTotalTodayNow": _NUMBER,
    "msgGetTotalYesterdayMorning": _NUMBER,
    "msgPutTotalTodayMorning": _NUMBER,
    "msgPutTotalTodayNow": _NUMBER,
    "msgPutTotalYesterdayMorning": _NUMBER,
    "pageCacheLockTimeMills": _NUMBER,
    "putLatency99": r"\d+\.\d\d",
    "putLatency999": r"\d+\.\d\d",
    "putMessageAverageSize": _FLOAT,
    "putMessageDistributeTime": (
        r"null|\[<=0ms\]:\d+ \[0~10ms\]:\d+ .*\[5~10s\]:\d+ \[10s~\]:\d+ ?"
    ),
    "putMessageEntireTimeMax": _NUMBER,
    "putMessageFailedTimes": _NUMBER,
    "putMessageSizeTotal": _NUMBER,
    "putMessageTimesTotal": _NUMBER,
    "putTps": _RATES,
    "remainHowManyDataToFlush": _BYTES,
    "remainTransientStoreBufferNumbs": "2147483647",
    "runtime": r"\[ \d+ days, \d+ hours, \d+ minutes, \d+ seconds \]",
    "scheduleMessageOffset_1": r"\d+,\d+",
    "startAcceptSendRequestTimeStamp": _NUMBER,
    "timerCongestNum": _NUMBER,
    "timerDequeueTps": _FLOAT,
    "timerEnqueueTps": _FLOAT,
    "timerOffsetBehind": _NUMBER,
    "timerReadBehind": _NUMBER,
} | {
    f"{pool}ThreadPoolQueue{figure}": _NUMBER
    for pool in ("send", "pull", "litePull", "query", "ack")
    for figure in ("Size", "Capacity", "HeadWaitTimeMills")
}
"""Every key of brokerStatus, and what its value looks like; null is Java's first minute."""


class Status(NamedTuple):
    """What brokerStatus has printed before the traffic and after it."""

    before: dict[str, str]
    after: dict[str, str]


@pytest.fixture(scope="session")
def status(peer: Peer, cluster: Cluster) -> Status:
    """Traffic of every kind, on a topic and with a group that nobody else uses."""
    before = broker_status(peer, cluster)
    asyncio.run(make_traffic(cluster.main.address))
    return Status(before, broker_status(peer, cluster))


def broker_status(peer: Peer, cluster: Cluster) -> dict[str, str]:
    """The table of a broker; the end of a path, and delay levels as one, stand for all."""
    shown = peer.mqadmin(
        "brokerStatus", "-b", cluster.main.address, name_server=cluster.name_server
    )
    pairs = [line.partition(": ") for line in shown.splitlines() if ": " in line]
    table = {key.strip(): value for key, _, value in pairs}
    return {re.sub(r"_/.*(?=/)", "_", re.sub(r"_\d+$", "_1", key)): table[key] for key in table}


async def make_traffic(address: str) -> None:
    """Sends of three kinds, all of it pulled; one message given back twice."""
    async with connected(address) as connection:
        for number in range(SENT):
            await send(connection, Queue(TOPIC, number % 2), b"one", {})
        batch = batch_request(Queue(TOPIC, 0), [BatchItem(b"some")] * IN_BATCH)
        assert (await ask(connection, batch)).code == 0
        await send(connection, Queue(TOPIC, 1), b"late", {"DELAY": "1"})
        first = await pull(connection, TOPIC, 0, 0, SENT // 2 + IN_BATCH)
        await give_back(connection, first[0], 1)
        await give_back(connection, first[0], -1)
        await pull(connection, TOPIC, 1, 0, SENT // 2)
        await pull(connection, TOPIC, 1, SENT // 2, DELAYED)
        await pull(connection, RETRY, 0, 0, 1)
        await commit(connection, 0, SENT // 2 + IN_BATCH - LEFT)
        await commit(connection, 1, SENT // 2 + DELAYED)


async def pull(
    connection: Connection, topic: str, queue_id: int, offset: int, count: int
) -> list[Record]:
    """The messages that there are, when there are some, and not more than expected."""
    header = PullMessageRequest(
        consumer_group=GROUP, topic=topic, queue_id=queue_id, queue_offset=offset, max_msg_nums=32,
        sys_flag=PULL_SUSPEND | PULL_SUBSCRIPTION, consume_offset=0, suspend_timeout_ms=10_000,
        subscription="*", sub_version=0,
    )  # fmt: skip
    answer = await ask(connection, Command(RequestCode.PULL_MESSAGE, encode_header(header)))
    assert answer.code == 0, answer.remark
    records = list(decode_records(memoryview(answer.body), strict=True))
    assert len(records) == count
    return records


async def commit(connection: Connection, queue_id: int, offset: int) -> None:
    header = UpdateConsumerOffsetRequest(
        consumer_group=GROUP, topic=TOPIC, queue_id=queue_id, consume_offset=offset
    )
    request = Command(RequestCode.UPDATE_CONSUMER_OFFSET, encode_header(header))
    answer = await ask(connection, request)
    assert answer.code == 0, answer.remark


async def give_back(connection: Connection, record: Record, delay_level: int) -> None:
    """Below 0 it is a dead letter at once."""
    header = ConsumerSendMsgBackRequest(
        log_offset=record.log_offset, group=GROUP, delay_level=delay_level,
        origin_msg_id=record.offset_id, origin_topic=TOPIC, max_reconsume_times=16,
    )  # fmt: skip
    request = Command(RequestCode.CONSUMER_SEND_MSG_BACK, encode_header(header))
    answer = await ask(connection, request)
    assert answer.code == 0, answer.remark


async def view(address: str, name: str, key: str) -> BrokerStatsData | str:
    """What a broker has counted under a name, or why it says nothing of it."""
    async with connected(address) as connection:
        header = ViewBrokerStatsDataRequest(stats_name=name, stats_key=key)
        request = Command(RequestCode.VIEW_BROKER_STATS_DATA, encode_header(header))
        answer = await ask(connection, request)
        if answer.code:
            assert answer.code == 1
            return answer.remark or ""
        return decode_body(BrokerStatsData, answer.body)


async def topic_rate(address: str) -> float:
    """What GET_TOPIC_STATS_INFO tells of the topic."""
    async with connected(address) as connection:
        header = GetTopicStatsInfoRequest(topic=TOPIC)
        request = Command(RequestCode.GET_TOPIC_STATS_INFO, encode_header(header))
        answer = await ask(connection, request)
        assert answer.code == 0, answer.remark
        return decode_body(TopicStatsTable, answer.body).topic_put_tps


def figures(cluster: Cluster, name: str, key: str) -> BrokerStatsData:
    found = asyncio.run(view(cluster.main.address, name, key))
    assert isinstance(found, BrokerStatsData), f"{name} {key}: {found}"
    return found


def test_broker_status_has_the_keys_of_java_in_its_format(status: Status) -> None:
    """No more and no less: monitoring reads them by their names.

    Ours has one in two spellings, and figures of its own where a topic takes each message once.
    """
    after = {
        key: value
        for key, value in status.after.items()
        if key != SPELLING_OF_49 and not key.startswith(("dedup", "transactions"))
    }
    assert after.keys() == FORMATS.keys()
    wrong = {
        key: value
        for key, value in after.items()
        if not re.fullmatch(FORMATS[key], value.rstrip("\r"))
    }
    assert wrong == {}


def test_totals_grow_by_what_was_sent_and_got(status: Status) -> None:
    """Not by what waits for its time, nor by dead letters; others may still do something, too."""
    grown = {
        key: int(status.after[key]) - int(status.before[key])
        for key in ("msgPutTotalTodayNow", "msgGetTotalTodayNow", "putMessageTimesTotal")
    }
    delivered = COUNT + 1
    assert grown["msgPutTotalTodayNow"] >= delivered
    assert grown["msgGetTotalTodayNow"] >= delivered
    waited, dead = 2, 1  # the message with a delay and the one that came again; the dead letter
    if int(status.before["putMessageSizeTotal"]) == 0 == int(status.before["commitLogMaxOffset"]):
        grown["putMessageTimesTotal"] = int(
            status.after["putMessageTimesTotal"]
        )  # Java begins at 1
    assert grown["putMessageTimesTotal"] >= delivered + waited + dead


@pytest.mark.usefixtures("status")
def test_statistics_that_nobody_has_are_refused_alike(cluster: Cluster) -> None:
    """With the code and the words of Java."""
    for name, key in NEVER:
        refused = asyncio.run(view(cluster.main.address, name, key))
        assert refused == f"The stats <{name}> <{key}> not exist"


@pytest.mark.usefixtures("status")
def test_statistics_of_all_kinds_are_there(cluster: Cluster) -> None:
    for name, key in EVER:
        found = figures(cluster, name, key)
        assert None not in (found.stats_minute, found.stats_hour, found.stats_day)


@pytest.mark.usefixtures("status")
def test_sums_of_the_last_minute_are_those_of_the_traffic(peer: Peer, cluster: Cluster) -> None:
    """By each name; statsAll shows the same of topic and group, and others their rates."""

    def sums() -> dict[tuple[str, str], int]:
        found = {item: figures(cluster, *item).stats_minute for item in SUMS}
        return {item: minute.sum for item, minute in found.items() if minute is not None}

    eventually_equal(sums, SUMS, "the sums")
    for item, average in AVERAGES.items():
        minute = figures(cluster, *item).stats_minute
        assert minute is not None
        assert minute.avgpt == average
        assert minute.sum / 60 - 0.1 < minute.tps < minute.sum / 9
    put = figures(cluster, "TOPIC_PUT_SIZE", TOPIC).stats_minute
    got = figures(cluster, "GROUP_GET_SIZE", f"{TOPIC}@{GROUP}").stats_minute
    assert put is not None
    assert got is not None
    assert put.sum == got.sum > COUNT * 100, "the same records, as large in the log as on the way"
    shown = peer.mqadmin("statsAll", "-t", TOPIC, name_server=cluster.name_server)
    (row,) = [line.split() for line in shown.splitlines() if line.startswith(f"{TOPIC} ")]
    del row[3:5]  # the rates of this second
    assert row == [TOPIC, GROUP, str(LEFT), str(COUNT), str(COUNT)]
    shown = peer.mqadmin("consumerProgress", "-g", GROUP, name_server=cluster.name_server)
    rate = re.search(r"^Consume TPS: ([\d.]+)$", shown, re.MULTILINE)
    assert rate is not None, shown
    assert COUNT / 90 < float(rate[1]) < (COUNT + 1) / 9
    # Java's topicStatus shows 0.0 whatever it is told, so it is not asked.
    assert COUNT / 90 < asyncio.run(topic_rate(cluster.main.address)) < COUNT / 9
