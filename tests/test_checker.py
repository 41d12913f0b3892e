"""The checker finds each kind of fault where just that was planted, and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from checker import (
    Committed,
    Found,
    GroupHistory,
    LogCopy,
    QueueRead,
    Report,
    Saw,
    check,
)
from evidence import Evidence, Place

QUEUES = ("T/0", "T/1")
PER_QUEUE = 6


@dataclass
class World:
    """Two producers, two queues, two replicas, one group; all is well until a test changes it."""

    evidence: Evidence = field(default_factory=Evidence)
    reads: dict[tuple[str, str], list[Found]] = field(default_factory=dict)
    first_offset: int = 0
    logs: list[LogCopy] = field(default_factory=list)
    events: list[Saw | Committed] = field(default_factory=list)
    starts: dict[str, int] = field(default_factory=dict)

    def check(self) -> Report:
        reads = [
            QueueRead(reader, queue, found, self.first_offset)
            for (reader, queue), found in self.reads.items()
        ]
        groups = [GroupHistory("group", QUEUES, self.events, self.starts)]
        return check(self.evidence, reads, logs=self.logs, groups=groups, faults={"kill -9": 3})

    def found(self, queue: str = "T/0", reader: str = "master") -> list[Found]:
        return self.reads[reader, queue]

    def everywhere(self, change: Callable[[list[Found]], object], queue: str = "T/0") -> None:
        for (_, name), found in self.reads.items():
            if name == queue:
                change(found)


def good_world() -> World:
    world = World()
    for queue in QUEUES:
        for offset in range(PER_QUEUE):
            value = f"{queue}:{offset}"
            world.evidence.send(value, f"producer{offset % 2}", queue)
            world.evidence.ok(value, Place(queue, offset, f"ID{value}"))
            for reader in ("master", "slave"):
                found = world.reads.setdefault((reader, queue), [])
                found.append(Found(offset, value, f"ID{value}"))
            world.events += (Saw(queue, offset, value), Committed(queue, offset + 1))
    world.evidence.send("failed", "producer0", "T/0")
    world.evidence.fail("failed")
    world.evidence.send("unknown and not there", "producer1", "T/0")
    world.evidence.send("unknown and there", "producer1", "T/1")
    for reader in ("master", "slave"):
        world.reads[reader, "T/1"].append(Found(PER_QUEUE, "unknown and there"))
    world.events.append(Saw("T/1", PER_QUEUE, "unknown and there"))
    world.logs = [LogCopy("master", 0, b"0123456789"), LogCopy("slave", 4, b"456789")]
    return world


def problems(world: World) -> dict[str, int]:
    return dict(world.check().counts)


def test_a_sound_world_is_called_sound() -> None:
    """And its counts are those of the evidence."""
    report = good_world().check()
    report.raise_if_bad()
    assert report.is_good
    assert (report.sent, report.ok, report.fail, report.unknown) == (15, 12, 1, 2)
    assert report.read == 2 * (2 * PER_QUEUE + 1)
    assert report.worst_gap == report.lost == 0
    assert str(report).splitlines()[0] == "sent 15: ok 12, fail 1, unknown 2"
    assert "read 26; worst gap 0; faults: 3 x kill -9" in str(report)


def test_reading_nothing_proves_nothing() -> None:
    """A test that forgot to read its queues must not pass."""
    with pytest.raises(AssertionError, match="nobody has read"):
        check(good_world().evidence, [])


# --- rule 1: ok values are where they were acknowledged -------------------------------------------


def test_an_acknowledged_value_that_is_gone_is_lost() -> None:
    """From the end of a queue, where no gap tells of it; for each reader that lacks it."""
    world = good_world()
    world.everywhere(lambda found: found.pop())
    assert problems(world) == {"lost": 2}
    world.found(reader="slave").append(Found(5, "T/0:5"))
    assert problems(world) == {"lost": 1}


def test_a_queue_that_nobody_read_is_lost() -> None:
    """All of it."""
    world = good_world()
    del world.reads["slave", "T/1"]
    assert problems(world) == {"lost": PER_QUEUE}


def test_an_acknowledged_value_elsewhere_has_moved() -> None:
    """At another offset, in another queue, or under another id."""
    world = good_world()
    world.evidence.sends[5].place = Place("T/0", 4)
    assert problems(world) == {"moved": 2}
    world.evidence.sends[5].place = Place("T/1", 5)
    assert problems(world) == {"moved": 2}
    world.evidence.sends[5].place = Place("T/0", 5, "another id")
    assert problems(world) == {"moved": 2}


def test_what_was_removed_on_purpose_is_not_lost() -> None:
    """Retention: the queue begins later, and what it still has must be there."""
    world = good_world()
    world.first_offset = 2
    for found in world.reads.values():
        del found[:2]
    assert problems(world) == {}
    world.everywhere(lambda found: found.pop())
    assert problems(world) == {"lost": 2}


def test_a_value_without_a_place_is_found_by_its_id() -> None:
    """Half messages are in no queue: their order is all there is."""
    world = good_world()
    for name in ("half1", "half2"):
        world.evidence.send(name, "producer0", "half")
        world.evidence.ok(name, Place("half", None, f"ID{name}"))
    halves = [Found(None, "half1", "IDhalf1"), Found(None, "half2", "IDhalf2")]
    for reader in ("master", "slave"):
        world.reads[reader, "half"] = list(halves)
    assert problems(world) == {}
    world.reads["master", "half"].pop()
    assert problems(world) == {"lost": 1}
    world.reads["master", "half"].append(Found(None, "half2", "another id"))
    assert problems(world) == {"moved": 1}


# --- rule 2: nothing is made up -------------------------------------------------------------------


@pytest.mark.parametrize("value", ["never sent", "failed"])
def test_a_value_that_should_not_be_there_is_a_phantom(value: str) -> None:
    """Nobody sent it, or its producer was told that it was not stored."""
    world = good_world()
    world.everywhere(lambda found: found.append(Found(PER_QUEUE, value)))
    world.events.append(Saw("T/0", PER_QUEUE, value))
    assert problems(world) == {"phantom": 2}


# --- rule 3: offsets are contiguous and the same for all ------------------------------------------


def test_a_missing_offset_is_a_gap() -> None:
    """Even where all values are there; the worst one is reported."""
    world = good_world()
    world.everywhere(lambda found: found.append(Found(PER_QUEUE + 7, "unknown and not there")))
    world.events.append(Saw("T/0", PER_QUEUE + 7, "unknown and not there"))
    report = world.check()
    assert dict(report.counts) == {"gap": 2}
    assert report.worst_gap == 7


def test_readers_that_see_different_values_are_noticed() -> None:
    """The same offset means the same message everywhere."""
    world = good_world()
    for value in ("one", "two"):
        world.evidence.send(value, "producer0", "T/0")
    world.found().append(Found(PER_QUEUE, "one"))
    world.found(reader="slave").append(Found(PER_QUEUE, "two"))
    world.events += (Saw("T/0", PER_QUEUE, "one"), Saw("T/0", PER_QUEUE, "two"))
    assert problems(world) == {"differing": 1}


# --- rule 4: no duplicates ------------------------------------------------------------------------


def test_a_value_that_was_sent_once_is_there_once() -> None:
    """Twice is right only after a second send."""
    world = good_world()
    world.everywhere(lambda found: found.append(Found(PER_QUEUE, "T/0:5")))
    assert problems(world) == {"duplicate": 2}
    world.evidence.send("T/0:5", "producer1", "T/0")
    assert problems(world) == {}


def test_a_retry_that_failed_gives_no_right_to_a_second_copy() -> None:
    """Only sends that may have been stored count."""
    world = good_world()
    world.everywhere(lambda found: found.append(Found(PER_QUEUE, "T/0:5")))
    world.evidence.send("T/0:5", "producer1", "T/0")
    world.evidence.fail("T/0:5")
    assert problems(world) == {"duplicate": 2}


# --- rule 5: order --------------------------------------------------------------------------------


def test_values_of_one_producer_keep_their_order() -> None:
    """Two of one producer have changed places; those of two producers may."""
    world = good_world()
    world.evidence.sends[0], world.evidence.sends[2] = (
        world.evidence.sends[2],
        world.evidence.sends[0],
    )
    assert problems(world) == {}, "the order of the list is not that of the sends"
    world.evidence.sends[0].number, world.evidence.sends[2].number = 0, 2
    assert problems(world) == {"out of order": 2}
    for sent in world.evidence:
        sent.producer = sent.value
    assert problems(world) == {}


# --- rule 6: replicas -----------------------------------------------------------------------------


def test_replicas_must_have_the_same_bytes() -> None:
    """One differs, or is shorter than what was committed; beyond that, anything may be."""
    world = good_world()
    world.logs[1] = LogCopy("slave", 4, b"45x789")
    report = world.check()
    assert dict(report.counts) == {"diverged": 1}
    assert "master and slave differ at byte 6" in str(report)
    world.logs[1] = LogCopy("slave", 4, b"4567")
    report = world.check()
    assert dict(report.counts) == {"diverged": 1}
    assert "the log of slave ends at 8, not at 10" in str(report)
    reads = [QueueRead("master", "T/0", [])]
    assert check(Evidence(), reads, logs=world.logs, commit=8).is_good
    assert not check(Evidence(), reads, logs=world.logs, commit=9).is_good


# --- rule 7: groups -------------------------------------------------------------------------------


def test_a_group_must_see_every_value() -> None:
    """Once is enough, and what lies before its start is not its concern."""
    world = good_world()
    world.events.remove(Saw("T/0", 5, "T/0:5"))
    world.events.remove(Committed("T/0", 6))
    assert problems(world) == {"unseen": 1}
    world.events.append(Saw("T/0", 5, "T/0:5"))
    world.events.append(Saw("T/0", 5, "T/0:5"))
    assert problems(world) == {}
    world.events.remove(Saw("T/0", 0, "T/0:0"))
    world.events.remove(Committed("T/0", 1))
    world.starts = {"T/0": 1}
    assert problems(world) == {}


def test_a_consume_offset_must_not_pass_what_was_not_seen() -> None:
    """Not even if the message is seen later: a crash in between would have skipped it."""
    world = good_world()
    world.events.insert(0, Committed("T/0", 2))
    report = world.check()
    assert dict(report.counts) == {"skipped": 1}
    assert "committed 2 of T/0 before it had seen 0 and 1 more" in str(report)


def test_a_consume_offset_beyond_the_end_has_passed_something() -> None:
    """New messages would be skipped once they come."""
    world = good_world()
    world.events.append(Committed("T/0", PER_QUEUE + 1))
    assert problems(world) == {"skipped": 1}


# --- the report -----------------------------------------------------------------------------------


def test_a_bad_report_fails_with_its_whole_text() -> None:
    """The seed first, then all counts, and some examples of each kind."""
    world = good_world()
    for found in world.reads.values():
        found.clear()
    with pytest.raises(AssertionError) as caught:
        world.check().raise_if_bad("seed 7")
    text = str(caught.value)
    assert text.startswith("seed 7\nsent 15: ok 12, fail 1, unknown 2\nread 0;")
    assert "lost 24, moved 0, phantom 0" in text
    assert "lost: T/0:0, acknowledged at T/0@0 IDT/0:0, by master" in text
    assert "lost: and 14 more" in text
