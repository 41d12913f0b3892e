"""Either broker opens the other's store: every message, queue entry, key and consumer offset."""

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop.peer import Broker, NameServer, Peer
from interop.peer.ports import PortLease, lease_ports
from interop.peer.servers import BROKER_PORTS
from interop.stores import ours
from interop.stores.compare import (
    body_digest,
    check_keys,
    check_view,
    check_written,
    queue_files,
    read_all,
    read_queue,
    units_end,
)
from interop.stores.java_view import JavaView, Message, look
from interop.stores.killed import copy_as_killed
from interop.stores.ours import DELAYS_MS, GROUP, LATE, NEW, ONE, PRODUCER_GROUP, SURE, TWO, Written
from interop.stores.queried import Found, Sought, ask_mqadmin, check_found
from patience import in_time
from roketto.protocol.names import HALF_OP_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC
from roketto.protocol.record import decode_records
from roketto.protocol.record_layout import has_good_crc_property
from roketto.protocol.sysflags import COMPRESSED, TRANSACTION_COMMIT, TRANSACTION_TYPE
from roketto.protocol.tags import tag_code
from roketto.store.delay_table import DelayOffsetTable
from roketto.store.errors import CorruptStoreError
from roketto.store.offset_table import ConsumeOffsetTable
from roketto.store.store import Store

TESTS = Path(__file__).parents[1]
WAIT_S = 40.0

# The sizes of `ours.settings`. Nothing is made by accident, tables are written soon.
CONFIG = {
    "mappedFileSizeCommitLog": str(ours.SEGMENT_BYTES),
    "mappedFileSizeConsumeQueue": "1000",
    "maxHashSlotNum": "100",
    "maxIndexNum": "600",
    "messageDelayLevel": ours.LEVELS,
    "autoCreateTopicEnable": "false",
    "timerWheelEnable": "false",
    "flushConsumerOffsetInterval": "500",
    "flushDelayOffsetInterval": "500",
    "transactionCheckInterval": "1000",
}
JAVA_DELAYS = {1: 3, 2: 1}
"""By level, of what StoreClient sends: two and a retry, and one."""

ASK_NEVER = {"transactionTimeOut": "3600000"}
ASK_SOON = {"transactionTimeOut": "1000", "transactionCheckMax": "100000"}


def start(
    peer: Peer,
    name_server: NameServer,
    root: Path,
    config: dict[str, str],
    lease: PortLease | None = None,
) -> Broker:
    name = root.name
    paths = {"storePathRootDir": str(root), "storePathCommitLog": str(root / "commitlog")}
    names = {"brokerName": name, "brokerClusterName": name}
    return peer.broker([name_server.address], {**CONFIG, **names, **paths, **config}, lease=lease)


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        in_time(deadline_s, f"waited {WAIT_S} s in vain for {what}")
        time.sleep(0.05)


# --- what happens, once for all tests of a version ----------------------------------------------


@dataclass(frozen=True, slots=True)
class JavaStore:
    """A store that Java alone has written, and what its clients saw."""

    view: JavaView
    broker: Broker
    root: Path
    killed: Path
    """A copy as kill -9 leaves it."""


@pytest.fixture(scope="module")
def java_store(
    peer: Peer, java_name_server: NameServer, tmp_path_factory: pytest.TempPathFactory
) -> JavaStore:
    """Filled; its broker is stopping, which takes it many seconds."""
    folder = tmp_path_factory.mktemp("java")
    root = folder / "writer"
    broker = start(peer, java_name_server, root, ASK_NEVER)
    steps = ["fill:Java:150:2500", "consume:JavaGroup:JavaOne:20", "offsets:JavaGroup", "dump"]
    view = look(peer, java_name_server.address, broker, root, steps)
    eventually(lambda: consumer_offsets(root) >= view.offsets.items(), "offsets in their file")
    eventually(lambda: delivered_delays(root) == JAVA_DELAYS, "delays in their file")
    killed = folder / "killed"
    copy_as_killed(broker, root, killed)
    broker.process.terminate()
    return JavaStore(view, broker, root, killed)


def consumer_offsets(root: Path) -> set[tuple[tuple[str, int], int]]:
    """Of all groups but the broker's own: (topic, queue) and offset, as the file has them.

    Nothing if the broker is just writing it.
    """
    try:
        table = ours.load_table(ConsumeOffsetTable, root)
    except CorruptStoreError:
        return set()
    return {
        ((topic, queue_id), offset)
        for topic, group in table.pairs()
        if group != "CID_RMQ_SYS_TRANS"
        for queue_id, offset in table.offsets(topic, group).items()
    }


def delivered_delays(root: Path) -> dict[int, int]:
    """How many messages of each level were delivered, without those of which none was."""
    try:
        table = ours.load_table(DelayOffsetTable, root)
    except CorruptStoreError:
        return {}
    return {level: offset for level, offset in table.offsets.items() if offset}


@dataclass(frozen=True, slots=True)
class SharedStore:
    """A store that was written here, then by Java, then here again."""

    root: Path
    lease: PortLease
    consumed: tuple[int, ...]
    written: list[Written]
    view: JavaView
    admin: Found
    killed: Path
    """A copy of what kill -9 of Java's broker left."""

    def wrote(self, kind: str) -> list[Written]:
        return [one for one in self.written if one.kind == kind]


REWOUND = 3
"""So many messages the group is to consume once more when the store comes back to Java."""

QUERIED = 50
"""One of the messages of ours that mqadmin is asked for: somewhere in the middle."""


@pytest.fixture(scope="module")
def shared_store(
    peer: Peer,
    java_store: JavaStore,
    java_name_server: NameServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> SharedStore:
    """Written here, stopped in order; opened by Java, read, added to, killed."""
    folder = tmp_path_factory.mktemp("shared")
    root = folder / "keeper"
    lease = lease_ports(BROKER_PORTS)
    store = ours.open_store(root, append_crc=True)
    written = ours.write_everything(store, lease.first, 200)
    store.close()
    counts = [sum(one.topic == ONE and one.queue_id == n for one in written) for n in range(2)]
    consumed = (counts[0] - 12, counts[1] - 9)
    ours.write_tables(root, consumed)
    leave_empty_files(root, 7)
    # Every record of the log has its property so far: 5.5 checks it when it opens the store.
    broker = start(peer, java_name_server, root, {**ASK_SOON, "forceVerifyPropCRC": "true"}, lease)
    steps = [
        f"check:{PRODUCER_GROUP}:{TWO}:1", f"await:{LATE}:3", f"consume:{GROUP}:{ONE}:21",
        "fill:Added:60:2500", f"offsets:{GROUP}", "dump",
    ]  # fmt: skip
    view = look(peer, java_name_server.address, broker, root, steps)
    sought = sought_in_shared(written, view, broker)
    admin = ask_mqadmin(peer, java_name_server.address, broker, sought)
    eventually(lambda: consumer_offsets(root) >= view.offsets.items(), "offsets in their file")
    broker.process.kill()
    killed = folder / "killed"
    shutil.copytree(root, killed)
    return SharedStore(root, lease, consumed, written, view, admin, killed)


def leave_empty_files(root: Path, queue_id: int) -> None:
    """What a process of ours may leave: a segment made ahead, a queue without a file."""
    newest = max((root / "commitlog").iterdir())
    if newest.read_bytes().strip(b"\0"):
        following = newest.with_name(f"{int(newest.name) + ours.SEGMENT_BYTES:020d}")
        with following.open("wb") as file:
            file.truncate(ours.SEGMENT_BYTES)
    (root / "consumequeue" / ONE / str(queue_id)).mkdir()


def is_v5(peer: Peer) -> bool:
    return peer.version.startswith("5.")


def sought_in_shared(written: list[Written], view: JavaView, broker: Broker) -> list[Sought]:
    """One of each kind of ours, and of what Java has made of it and has added to it."""
    kinds = {one.kind: Sought.written(one.kind, one) for one in written}
    batch = next(n for n, one in enumerate(written) if one.kind == "batch")
    newest = max(view.topic("AddedOne"), key=lambda message: message.log_offset)
    assert newest.log_offset // ours.SEGMENT_BYTES > written[-1].log_offset // ours.SEGMENT_BYTES
    return [
        Sought.written("first segment", written[0]),
        Sought.written("plain", written[QUERIED]),
        Sought.written("in a batch", written[batch + 1]),
        kinds["delivered"],
        kinds["committed"],
        Sought.seen("delivered by Java", view.topic(LATE)[-1], broker),
        Sought.seen("last segment", newest, broker),
    ]


@dataclass(frozen=True, slots=True)
class ReturnedStore:
    """The shared store after a process of ours has added to it and was killed, back at Java's."""

    root: Path
    written: list[Written]
    view: JavaView
    admin: Found


@pytest.fixture(scope="module")
def returned_store(
    peer: Peer, shared_store: SharedStore, java_name_server: NameServer
) -> ReturnedStore:
    root = shared_store.root
    written = write_and_die(root, shared_store.lease.first)
    leave_empty_files(root, 8)
    ours.add_topic(root, NEW)
    ours.rewind(root, REWOUND)
    # From here on 5.5 writes the property of ours as well.
    config = {**ASK_NEVER, "enabledAppendPropCRC": "true"}
    broker = start(peer, java_name_server, root, config, shared_store.lease)
    count = sum(one.topic == ONE for one in written) + REWOUND
    steps = [f"consume:{GROUP}:{ONE}:{count}", f"await:{LATE}:4", "half:Added", "dump"]
    view = look(peer, java_name_server.address, broker, root, steps)
    sought = sought_in_returned(shared_store.written, written, view, broker)
    admin = ask_mqadmin(peer, java_name_server.address, broker, sought)
    if is_v5(peer):  # its clean stop takes 15 s, that of 4.9 only four
        broker.process.kill()
    else:
        broker.process.stop()
    return ReturnedStore(root, written, view, admin)


def sought_in_returned(
    old: list[Written], new: list[Written], view: JavaView, broker: Broker
) -> list[Sought]:
    """Of what was there before it came back, and of what the process added that was killed."""
    kinds = {one.kind: n for n, one in enumerate(new)}
    assert new[-1].topic == NEW
    return [
        Sought.written("first segment", old[0]),
        Sought.written("plain", old[QUERIED]),
        Sought.written("in a batch", new[kinds["batch"] - 1]),
        Sought.written("committed", new[kinds["committed"]]),
        Sought.written("last written", new[-1]),
        Sought.seen("delivered by Java", view.topic(LATE)[-1], broker),
    ]


def write_and_die(root: Path, port: int) -> list[Written]:
    """Let a process of ours add messages and be killed; give what it wrote."""
    process = subprocess.run(
        [sys.executable, "-m", "interop.stores.ours", str(root), str(port), "150"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        stdout=subprocess.PIPE, text=True, timeout=WAIT_S,
    )  # fmt: skip
    assert process.returncode == -signal.SIGKILL, "it was not the kill that ended it"
    assert (root / "abort").exists()
    return [Written(**one) for one in json.loads(process.stdout)]


# --- what was written here ----------------------------------------------------------------------


def test_java_reads_every_message_that_was_written_here(shared_store: SharedStore) -> None:
    """Two topics, tags, keys, batches, delays, transactions, the properties of the system."""
    assert len(list((shared_store.killed / "commitlog").iterdir())) > 3
    assert check_seen(shared_store.view, shared_store.written) > 240


def check_seen(view: JavaView, written: list[Written]) -> int:
    """Whether Java's client saw what was written here, where it was written; how much of it."""
    seen = {(m.topic, m.queue_id, m.queue_offset): m for m in view.all_messages()}
    shown = [one for one in written if (one.topic, one.queue_id) not in view.refused]
    for one in shown:
        message = seen[one.topic, one.queue_id, one.queue_offset]
        assert message.log_offset == one.log_offset
        assert message.body_digest == body_digest(one.body.encode())
        crc = message.properties["__CRC32#"]  # it was written with its checksum
        assert message.properties == {**one.properties, "__CRC32#": crc}
    return len(shown)


def test_mqadmin_finds_what_was_written_here(shared_store: SharedStore) -> None:
    """By key, by the broker's id, by the unique key and by offset: its place and its body."""
    assert len(check_found(shared_store.admin)) == 7
    answers = [answers for _, answers in shared_store.admin]
    mistaken = zip((one for one, _ in shared_store.admin), answers[1:] + answers[:1], strict=True)
    for one, answer in mistaken:
        for command, printed in answer.items():
            with pytest.raises(AssertionError):
                check_found([(one, {command: printed})])


def test_java_delivers_delays_of_ours_at_their_time(shared_store: SharedStore) -> None:
    """Each once and not before; what was delivered here not again, what is due later not yet."""
    view = shared_store.view
    waiting = {m.properties["UNIQ_KEY"]: m for m in view.topic(SCHEDULE_TOPIC)}
    delivered = view.topic(LATE)
    keys = [message.properties["UNIQ_KEY"] for message in delivered]
    due = [one.unique_key for kind in ("delivered", "delay 1", "delay 3") for one in
           shared_store.wrote(kind)]  # fmt: skip
    assert sorted(keys) == sorted(set(due))
    for message in delivered[1:]:  # the first one is ours
        before = waiting[message.properties["UNIQ_KEY"]]
        delay_ms = DELAYS_MS[int(message.properties["DELAY"]) - 1]
        assert message.store_time_ms - before.store_time_ms >= delay_ms


def test_java_asks_the_producer_of_an_undecided_half_message(shared_store: SharedStore) -> None:
    """Once it is committed it can be consumed; for what was decided here nobody is asked."""
    view = shared_store.view
    (half,) = shared_store.wrote("half nothing")
    (committed,) = shared_store.wrote("committed")
    assert set(view.checked) == {half.unique_key}
    sure = [message.properties["UNIQ_KEY"] for message in view.topic(SURE)]
    assert sure[0] == committed.unique_key
    assert set(sure[1:]) == {half.unique_key}
    rolled_back = {one.unique_key for one in shared_store.wrote("half rollback")}
    assert rolled_back.isdisjoint(sure)


def test_java_consumes_from_the_offsets_that_were_written_here(shared_store: SharedStore) -> None:
    """The rest, each message once, but the one that was sent back: it comes again, as it was."""
    first, *_ = shared_store.view.consumed
    again = [one for one in shared_store.view.consumed if one.reconsume_times]
    once = [one for one in shared_store.view.consumed if not one.reconsume_times]
    assert [one.unique_key for one in again] == [first.unique_key]
    rest = [
        (one.queue_id, one.queue_offset)
        for one in shared_store.written
        if one.topic == ONE and one.queue_offset >= shared_store.consumed[one.queue_id]
    ]
    assert sorted((one.queue_id, one.queue_offset) for one in once) == sorted(rest)
    assert len(rest) == 21


# --- and back again -----------------------------------------------------------------------------


def test_what_java_added_is_here_beside_ours_after_its_kill(shared_store: SharedStore) -> None:
    """Every message, queue entry and key of both, with checksums of ours demanded and without."""
    for append_crc in (True, False):
        root = shared_store.killed.with_name(f"opened{append_crc}")
        shutil.copytree(shared_store.killed, root)
        assert (root / "abort").exists()
        store = ours.open_store(root, append_crc=append_crc)
        try:
            assert check_written(store, shared_store.written) > 250
            assert check_view(store, shared_store.view) > 350
            assert check_keys(store, read_all(store)) > 1_000
        finally:
            store.close()
        assert consumer_offsets(root) >= shared_store.view.offsets.items()


def test_java_reads_all_after_a_process_of_ours_was_killed(
    shared_store: SharedStore, returned_store: ReturnedStore
) -> None:
    """What was written before, what Java added, and what the process wrote, queued or not."""
    view = returned_store.view
    assert check_seen(view, [*shared_store.written, *returned_store.written]) > 400
    before = set(map(place_of, shared_store.view.all_messages()))
    assert before <= set(map(place_of, view.all_messages()))
    consumed = [
        (one.queue_id, one.queue_offset) for one in view.consumed if not one.reconsume_times
    ]
    new = [(one.queue_id, one.queue_offset) for one in returned_store.written if one.topic == ONE]
    first = min(queue_offset for queue_id, queue_offset in new if queue_id == 0)
    again = [(0, queue_offset) for queue_offset in range(first - REWOUND, first)]
    assert sorted(consumed) == sorted(again + new)
    assert len(check_found(returned_store.admin)) == 6


def place_of(message: Message) -> tuple[str, int, int, int, str]:
    return (*message[:4], message.body_digest)


def test_a_store_that_passed_through_many_hands_opens_here_whole(
    peer: Peer, shared_store: SharedStore, returned_store: ReturnedStore
) -> None:
    """Ours, Java's, ours killed, Java's again: all of it, and the queues as the log tells them.

    Not every key: when Java recovers it drops the newest file of the index and fills a new one from
    a later place in the log. Only an index made anew has them all. Nor every time of a delay: 4.9
    recovers before it knows its levels, and gives waiting messages the hash of their tag instead.
    """
    root = returned_store.root
    store = ours.open_store(root, append_crc=True)
    try:
        check_written(store, [*shared_store.written, *returned_store.written])
        check_view(store, shared_store.view)
        assert check_view(store, returned_store.view) > 500
        newest = [store.record_by_id(one.message_id) for one in returned_store.written[-20:]]
        assert check_keys(store, newest) > 50
    finally:
        store.close()
    assert check_rebuilt(root, are_delays_right=is_v5(peer)) > 1_500


def test_java_adds_checksums_over_whole_records_where_it_is_told_to(
    peer: Peer, shared_store: SharedStore, returned_store: ReturnedStore
) -> None:
    """5.5 replaces ours in what it sends back or delivers; others copy it, wrong and useless."""
    assert sums_of(shared_store.killed, shared_store.view, shared_store.written[-1]) == {False}
    told = sums_of(returned_store.root, returned_store.view, returned_store.written[-1])
    assert told == {is_v5(peer)}


def sums_of(root: Path, view: JavaView, newest: Written) -> set[bool]:
    """Whether the records that Java wrote behind ``newest`` have a checksum that is true."""
    store = ours.open_store(shutil.copytree(root, root.with_name(f"sums-{root.name}")))
    try:
        java = [
            message for message in view.all_messages() if message.log_offset > newest.log_offset
        ]
        assert any("__CRC32#" in message.properties for message in java)
        return {has_good_crc_property(store.get(*message[:3], 1).views[0]) for message in java}
    finally:
        store.close()


# --- what Java wrote ----------------------------------------------------------------------------


def test_a_store_that_java_left_when_killed_opens_here_whole(java_store: JavaStore) -> None:
    """Messages, queue entries, keys, ids, consumer and delay offsets, as its clients saw them."""
    assert (java_store.killed / "abort").exists()
    check_java_store(java_store.killed, java_store.view)


def test_a_store_that_java_closed_opens_here_whole(java_store: JavaStore) -> None:
    """The same after a clean stop, and here the queues' files do not change by a byte."""
    java_store.broker.stop()
    assert not (java_store.root / "abort").exists()
    before = queue_files(java_store.root)
    assert len(before) >= 14
    check_java_store(java_store.root, java_store.view)
    assert queue_files(java_store.root) == before
    assert check_rebuilt(java_store.root) > 500


def check_java_store(root: Path, view: JavaView) -> None:
    before = queue_files(root)
    assert len(list((root / "commitlog").iterdir())) > 2
    assert len(list((root / "index").iterdir())) > 1
    assert max(len(list(queue.iterdir())) for queue in (root / "consumequeue").glob("*/*")) > 1
    store = ours.open_store(root)
    try:
        assert check_view(store, view) > 200
        assert check_keys(store, read_all(store)) > 500
        check_kinds(store, view)
    finally:
        store.close()
    for name, data in queue_files(root).items():
        end = units_end(before[name])
        assert data[:end] == before[name][:end], name
    assert consumer_offsets(root) >= view.offsets.items()
    assert view.offsets["%RETRY%JavaGroup", 0] == 1
    assert delivered_delays(root) == JAVA_DELAYS


def check_kinds(store: Store, view: JavaView) -> None:
    """That there was one of everything."""
    late = read_queue(store, "JavaLate", 0) + read_queue(store, "JavaLate", 1)
    assert [record.get_property("DELAY") for record in late].count("1") == 2
    assert [record.get_property("DELAY") for record in late].count("2") == 1
    assert [len(read_queue(store, SCHEDULE_TOPIC, level)) for level in range(5)] == [3, 1, 0, 1, 1]
    sure = read_queue(store, "JavaSure", 0) + read_queue(store, "JavaSure", 1)
    halves = {record.log_offset: record for record in read_queue(store, HALF_TOPIC, 0)}
    assert len(halves) == 7
    assert len(sure) == 3
    for record in sure:
        assert record.sys_flag & TRANSACTION_TYPE == TRANSACTION_COMMIT
        assert halves[record.prepared_log_offset].body == record.body
    assert read_queue(store, HALF_OP_TOPIC, 0)
    assert any(record.sys_flag & COMPRESSED for record in read_all(store))
    (retried,) = read_queue(store, "%RETRY%JavaGroup", 0)
    assert retried.reconsume_times == 1
    tagged = store.get("JavaOne", 0, 0, 32, codes=frozenset({tag_code("Tag1")}))
    texts = [record for part in tagged.views for record in decode_records(part)]
    assert {record.get_property("TAGS") for record in texts} == {"Tag1"}
    first = read_queue(store, "JavaOne", 0)[0]
    assert store.offset_by_time("JavaOne", 0, first.store_time_ms) == 0
    assert view.consumed


def check_rebuilt(root: Path, *, are_delays_right: bool = True) -> int:
    """Whether queues made anew from the log are, byte for byte, those that were there.

    The result is how many keys the new index has.
    """
    before = queue_files(root)
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "index")
    store = ours.open_store(root)
    try:
        keys = check_keys(store, read_all(store))
    finally:
        store.close()
    after = queue_files(root)
    if not are_delays_right:
        forget_times(before)
        forget_times(after)
    assert after == before
    return keys


def forget_times(queues: dict[str, bytes]) -> None:
    """Leave only place and size in the units of messages that wait for their time."""
    for name in queues:
        if name.startswith(SCHEDULE_TOPIC):
            units = struct.iter_unpack(">12s8s", queues[name])
            queues[name] = b"".join(place for place, _ in units)


def test_the_checks_of_this_file_can_fail(java_store: JavaStore) -> None:
    """A broker that forgets what delay levels mean, and a client that saw one property more."""
    root = java_store.killed.with_name("forgetful")
    shutil.copytree(java_store.killed, root)
    before = queue_files(root)
    shutil.rmtree(root / "consumequeue")
    store = Store(root, ours.settings())
    store.open(1)
    seen = java_store.view.topic("JavaTwo")[5].properties
    try:
        check_view(store, java_store.view)
        seen["more"] = "than was sent"
        with pytest.raises(AssertionError):
            check_view(store, java_store.view)
    finally:
        seen.pop("more", None)
        store.close()
    after = queue_files(root)
    changed = {name for name in before if after[name] != before[name]}
    assert changed == {f"{SCHEDULE_TOPIC}/{queue_id}" for queue_id in (1, 3, 4)}
