"""What mqadmin clusterList and brokerStatus show of a broker."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.handlers import runtime as handlers
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.route import KVTable
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from unit.broker.clients_rig import route
from unit.broker.send_rig import PLAIN, START_MS, SendRig

RUNTIME = route(handlers.ROUTES, 28)

SHOWN_BY_CLUSTER_LIST = (
    "brokerActive", "putTps", "getTransferredTps", "sendThreadPoolQueueSize",
    "pullThreadPoolQueueSize", "ackThreadPoolQueueSize", "sendThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueHeadWaitTimeMills", "ackThreadPoolQueueHeadWaitTimeMills",
    "pageCacheLockTimeMills", "earliestMessageTimeStamp", "commitLogDiskRatio", "timerReadBehind",
    "timerOffsetBehind", "timerCongestNum", "timerEnqueueTps", "timerDequeueTps",
    "brokerVersionDesc", "msgPutTotalYesterdayMorning", "msgPutTotalTodayMorning",
    "msgPutTotalTodayNow", "msgGetTotalYesterdayMorning", "msgGetTotalTodayMorning",
    "msgGetTotalTodayNow",
)  # fmt: skip


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path)
    rig.delays.start()
    yield rig
    rig.close()


def table_of(rig: SendRig) -> dict[str, str]:
    answer = rig.handle(Command(RequestCode.GET_BROKER_RUNTIME_INFO), RUNTIME)
    assert isinstance(answer, Command)
    assert answer.code == 0
    return decode_body(KVTable, answer.body).table


def test_everything_that_cluster_list_shows_is_there(rig: SendRig) -> None:
    """The tool ends with an error where one of them is missing or no number."""
    table = table_of(rig)
    assert set(SHOWN_BY_CLUSTER_LIST) <= table.keys()
    assert 0.0 <= float(table["commitLogDiskRatio"]) <= 1.0
    assert table[f"commitLogDiskRatio_{rig.root}/commitlog"] == table["commitLogDiskRatio"]
    assert table["brokerVersionDesc"].startswith("V5_")


def test_rates_have_three_places_and_tell_nothing_of_spans_that_are_not_full(rig: SendRig) -> None:
    """As Java writes them; the sum of two it writes as 0.0 until then."""
    assert table_of(rig)["putTps"] == "  "
    assert table_of(rig)["getTotalTps"] == "0.0 0.0 0.0"
    for second in range(1, 62):
        rig.context.stats.note_put("T", 0, 4, 100)
        rig.context.stats.note_get("T", "G", 0, 3, 100)
        rig.context.stats.note_get("T", "G", 0, 0, 0)
        rig.context.stats.tick(rig.now_s + second)
    table = table_of(rig)
    assert table["putTps"] == "4.0 4.0 "
    assert table["getFoundTps"] == table["getMissTps"] == "1.0 1.0 "
    assert table["getTotalTps"] == "2.0 2.0 0.0"
    assert table["getTransferredTps"] == table["getTransferedTps"] == "3.0 3.0 "


def test_an_empty_log_has_no_earliest_message(rig: SendRig) -> None:
    """Java says -1; then the time of the first."""
    assert table_of(rig)["earliestMessageTimeStamp"] == "-1"
    rig.send()
    table = table_of(rig)
    assert table["earliestMessageTimeStamp"] == str(START_MS)
    assert table["commitLogMaxOffset"] == str(rig.store.log.max_offset)
    assert table["remainHowManyDataToFlush"] == f"{rig.store.log.max_offset} B"


def test_messages_are_counted(rig: SendRig) -> None:
    """Those of users by day, those of the system only for the store."""
    rig.send()
    rig.send()
    rig.send(properties=PLAIN | {"DELAY": "2"})
    rig.context.stats.note_get("T", "G", 0, 5, 100, 12)
    size = rig.store.log.max_offset
    table = table_of(rig)
    assert (table["msgPutTotalTodayNow"], table["msgGetTotalTodayNow"]) == ("2", "5")
    assert (table["putMessageTimesTotal"], table["putMessageSizeTotal"]) == ("3", str(size))
    assert table["putMessageAverageSize"] == str(size / 3)
    assert table["getMessageEntireTimeMax"] == "12"
    assert table["scheduleMessageOffset_2"] == "0,1"
    assert "scheduleMessageOffset_1" not in table


def test_the_days_before_are_told(rig: SendRig) -> None:
    mornings = rig.context.stats.mornings
    mornings.put_yesterday, mornings.put_today = 10, 30
    mornings.get_yesterday, mornings.get_today = 5, 25
    table = table_of(rig)
    assert [
        table[f"msg{way}Total{day}Morning"]
        for way in ("Put", "Get")
        for day in ("Yesterday", "Today")
    ] == ["10", "30", "5", "25"]


def test_failed_puts_are_counted(rig: SendRig) -> None:
    assert table_of(rig)["putMessageFailedTimes"] == "0"
    rig.context.stats.put_failed += 2
    assert table_of(rig)["putMessageFailedTimes"] == "2"


def test_latencies_of_puts_are_shown_as_java_does(rig: SendRig) -> None:
    """Those of the last whole minute, and the longest of all."""
    latency = rig.context.stats.latency
    for taken_ms in (3, 7, 40):
        latency.note(taken_ms)
    latency.turn(10)
    table = table_of(rig)
    assert table["putMessageEntireTimeMax"] == "40"
    assert table["putMessageDistributeTime"].startswith("[<=0ms]:7 [0~10ms]:2 [10~50ms]:1 ")
    assert float(table["putLatency99"]) <= float(table["putLatency999"]) <= 50


def test_what_waits_for_the_disk_is_told(tmp_path: Path) -> None:
    """Sends without an answer, for how long, and messages that nobody can consume yet."""
    rig = SendRig(tmp_path, is_sync=True)
    rig.delays.start()
    try:
        assert table_of(rig)["dispatchBehindBytes"] == "0"
        assert rig.handle(rig.request()) is None
        rig.pass_ms(30)
        assert rig.handle(rig.request()) is None
        table = table_of(rig)
        assert table["sendThreadPoolQueueSize"] == "2"
        assert table["sendThreadPoolQueueHeadWaitTimeMills"] == "30"
        assert int(table["sendThreadPoolQueueCapacity"]) > 2
        assert table["dispatchBehindBytes"] == str(rig.store.log.max_offset)
    finally:
        rig.close()


def test_the_start_of_the_broker_stays(rig: SendRig) -> None:
    first = table_of(rig)["bootTimestamp"]
    rig.pass_ms(1_500)
    assert table_of(rig)["bootTimestamp"] == first == str(START_MS)


def test_a_running_time_is_told_in_words() -> None:
    """As brokerStatus prints it."""
    text = handlers._describe_duration(((1 * 24 + 2) * 60 + 3) * 60 + 4)
    assert text == "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1_023, "1023 B"), (1_024, "1.0 KiB"), (1_536, "1.5 KiB"),
     (1_048_575, "1024.0 KiB"), (1_048_576, "1.0 MiB"), (5 << 30, "5.0 GiB"),
     (3 << 40, "3.0 TiB"), (1 << 60, "1.0 EiB")],
)  # fmt: skip
def test_bytes_are_told_as_java_does(count: int, text: str) -> None:
    assert handlers.describe_bytes(count) == text


def test_the_room_on_the_disk_is_told(rig: SendRig) -> None:
    text = table_of(rig)["commitLogDirCapacity"]
    size = r"\d+(\.\d [KMGTPE]i| )B"
    assert re.fullmatch(f"Total : {size}, Free : {size}\\.", text)


def test_dedup_windows_are_shown_where_there_are_any(rig: SendRig) -> None:
    """How many ids they hold, and how many were forgotten too early."""
    assert not any(name.startswith("dedup") for name in table_of(rig))
    topic = TopicConfig(topic_name="Once", attributes={"dedup.window.seconds": "60"})
    rig.context.topics.put(topic)
    rig.context.topics.target("Once", "TBW102", 4)
    table = table_of(rig)
    shown = [table[f"dedup{name}"] for name in ("Topics", "Ids", "ForgottenEarly")]
    assert shown == ["1", "0", "0"]


def test_open_transactions_are_shown(rig: SendRig) -> None:
    """A half message whose producer never comes back is seen, and so is the bound."""
    assert table_of(rig)["transactionsOpen"] == "0"
    rig.send(properties=PLAIN | {"TRAN_MSG": "true", "PGROUP": "G"}, f="4")
    table = table_of(rig)
    assert (table["transactionsOpen"], table["transactionsOpenMax"]) == ("1", "1000000")
