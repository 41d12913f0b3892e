"""What mqadmin clusterList and brokerStatus show of a broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.handlers import runtime as handlers
from roketto.protocol.bodies.route import KVTable
from unit.broker.clients_rig import ClientsRig, route
from unit.broker.pull_rig import START_MS

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
def rig(tmp_path: Path) -> Iterator[ClientsRig]:
    rig = ClientsRig(tmp_path)
    yield rig
    rig.close()


def test_everything_that_cluster_list_shows_is_there(rig: ClientsRig) -> None:
    """The tool ends with an error where one of them is missing or no number."""
    table = rig.read(KVTable, RUNTIME, {}).table
    assert set(SHOWN_BY_CLUSTER_LIST) <= table.keys()
    for name in ("putTps", "getTransferredTps", "getTotalTps"):
        assert [float(text) for text in table[name].split(" ")] == [0.0, 0.0, 0.0]
    assert 0.0 <= float(table["commitLogDiskRatio"]) <= 1.0
    assert table["brokerVersionDesc"].startswith("V5_")


def test_an_empty_log_has_no_earliest_message(rig: ClientsRig) -> None:
    """Java says -1; then the time of the first."""
    assert rig.read(KVTable, RUNTIME, {}).table["earliestMessageTimeStamp"] == "-1"
    rig.send()
    table = rig.read(KVTable, RUNTIME, {}).table
    assert table["earliestMessageTimeStamp"] == str(START_MS)
    assert table["commitLogMaxOffset"] == str(rig.store.log.max_offset)


def test_messages_are_counted(rig: ClientsRig) -> None:
    """Those of users; those of the system are left out."""
    rig.context.stats.note_put("T", 0, 2, 100)
    rig.context.stats.note_put("SCHEDULE_TOPIC_XXXX", 0, 5, 100)
    table = rig.read(KVTable, RUNTIME, {}).table
    assert table["msgPutTotalTodayNow"] == "2"
    assert table["putMessageTimesTotal"] == "7"


def test_waits_for_the_disk_are_shown_as_java_does(rig: ClientsRig) -> None:
    """Those of the last whole minute, and the longest of all."""
    latency = rig.context.stats.latency
    for taken_ms in (3, 7, 40):
        latency.note(taken_ms)
    latency.turn()
    table = rig.read(KVTable, RUNTIME, {}).table
    assert table["putMessageEntireTimeMax"] == "40"
    assert table["putMessageDistributeTime"].startswith("[<=0ms]:0 [0~10ms]:2 [10~50ms]:1 ")
    assert float(table["putLatency99"]) <= float(table["putLatency999"]) <= 50


def test_a_running_time_is_told_in_words() -> None:
    """As brokerStatus prints it."""
    text = handlers._describe_duration(((1 * 24 + 2) * 60 + 3) * 60 + 4)
    assert text == "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"
