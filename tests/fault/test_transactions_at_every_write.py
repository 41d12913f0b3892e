"""kill -9 between every pair of writes of a transaction (F28): each ends once, as it was told to.

A producer's transactions on a broker without sockets: half messages, commits, rollbacks, questions.
The disk is kept in front of each call that changes it and behind each record that comes to the log,
as a kill leaves it there; under SYNC_FLUSH as a power loss does, too. From each of these disks the
broker starts again, asks about what is open, and hears some ends a second time. No thread of the
store makes a call, so they are the same every time.
"""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from fault.test_power_loss_at_every_call import CHANGES, flush
from roketto.broker import transactions as app_transactions
from roketto.broker.context import Context
from roketto.broker.half_messages import as_committed
from roketto.broker.handlers import transactions as end_handlers
from roketto.broker.handlers.transactions import ROUTES
from roketto.broker.put import put
from roketto.broker.transactions import Transactions
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.store.commitlog import CommitLog
from sim.disk import CrashDisk
from sim.files import CrashFiles
from unit.broker.handlers.test_transactions import COMMIT, HALF, ROLLBACK
from unit.broker.send_rig import START_MS, SendRig

ROOT: Final = Path("/store")
LONG_MS: Final = 60_000
"""After this time producers are asked about whatever is open."""
RECORD: Final = "record"
"""What the moment behind a record that came to the log is called."""


class Told(NamedTuple):
    """One transaction at some moment: how it ends, and what its producer had been told by then."""

    value: str
    decision: str
    end: dict[str, str] | None
    """The request for its end; None until the half message is acknowledged."""
    is_ended: bool


class Kept(NamedTuple):
    """The disk as it would be found if everything ended now."""

    number: int
    name: str
    files: CrashFiles
    now_ms: int
    told: list[Told]


class WatchedDisk(CrashDisk):
    """Tells the life of each change before it is made."""

    life: "Life | None" = None

    def _called(self, name: str, path: Path, offset: int = 0, size: int = 0) -> int | None:
        if self.life is not None and name in CHANGES:
            self.life.keep(name)
        return super()._called(name, path, offset, size)


class Life:
    """See the module; ``kept`` are the disks."""

    def __init__(self, *, is_sync: bool) -> None:
        self.kept: list[Kept] = []
        self._is_sync = is_sync
        self._told: list[Told] = []
        self._now_ms = START_MS
        self._disk = WatchedDisk()
        self._files = CrashFiles(self._disk)
        self._keeps = (1.0, 0.0) if is_sync else (1.0,)
        """How much of what was not synced is left: all by a kill, nothing by a power loss."""

    def live(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write = CommitLog.write_fields

        def write_and_keep(log: CommitLog, *fields: object) -> int:
            size = write(log, *fields)  # type: ignore[arg-type]  # just what it was given
            if self._disk.life is not None:
                self.keep(RECORD)
            return size

        with monkeypatch.context() as patched:
            patched.setattr(CommitLog, "write_fields", write_and_keep)
            rig = make_rig(self._files, START_MS, is_sync=self._is_sync)
            self._disk.life = self
            asyncio.run(self._transact(rig))
            self.keep("nothing")
            self._disk.life = None
            close(rig)

    async def _transact(self, rig: SendRig) -> None:
        """Half, commit; half, rollback; two that are open together; two that are asked about."""
        rig.context.durability.attach(asyncio.get_running_loop())
        for decision in (COMMIT, ROLLBACK):
            self._end(rig, self._begin(rig, decision))
        for number in reversed([self._begin(rig, decision) for decision in (ROLLBACK, COMMIT)]):
            self._end(rig, number)
        asked = [self._begin(rig, decision) for decision in (COMMIT, ROLLBACK)]
        for _ in range(2):
            rig.pass_ms(LONG_MS)
            self._now_ms = rig.now_ms
            await rig.transactions.check()
            flush(rig.store)
        for number in asked:
            self._end(rig, number)
        rig.context.durability.detach()

    def _begin(self, rig: SendRig, decision: str) -> int:
        """Send a half message; the number of its transaction."""
        number = len(self._told)
        value = f"v{number}"
        self._told.append(Told(value, decision, None, is_ended=False))
        say(rig, half_request(rig, value))
        (opened,) = list(rig.transactions._open.values())[-1:]
        places = {
            "producerGroup": "PG", "commitOrRollback": decision, "msgId": value,
            "tranStateTableOffset": str(opened.offset), "commitLogOffset": str(opened.log_offset),
            "fromTransactionCheck": "false",
        }  # fmt: skip
        self._told[number] = self._told[number]._replace(end=places)
        self._rest(rig)
        return number

    def _end(self, rig: SendRig, number: int) -> None:
        places = self._told[number].end
        assert places is not None
        say_end(rig, places)
        self._told[number] = self._told[number]._replace(is_ended=True)
        self._rest(rig)

    def _rest(self, rig: SendRig) -> None:
        """What the broker does now and then: sync, tick, and note how far all is decided."""
        flush(rig.store)
        rig.store.tick()
        rig.transactions.settle()
        rig.offset_table.save_if_changed()

    def keep(self, name: str) -> None:
        number = len(self._disk.calls) + 1
        for keep in self._keeps:
            after = self._files.crash(number, keep=keep)
            self.kept.append(Kept(number, name, after, self._now_ms, list(self._told)))

    def check(self) -> Counter[str]:
        """Start from each disk; what the transactions were found to be like."""
        found: Counter[str] = Counter()
        for kept in self.kept:
            try:
                found += asyncio.run(go_on(kept, is_sync=self._is_sync))
            except BaseException as error:
                error.add_note(f"ended at call {kept.number}, {kept.name}: {kept.told}")
                raise
        return found


# --- the broker -----------------------------------------------------------------------------------


def make_rig(files: CrashFiles, now_ms: int, *, is_sync: bool) -> SendRig:
    """A broker on this disk. Its log is synced when a test says so."""
    rig = SendRig(ROOT, is_sync=is_sync, has_index=True, make_files=lambda: files)
    rig.now_ms = now_ms
    flusher = rig.store._flusher
    assert flusher is not None
    flusher.request = lambda: None  # type: ignore[method-assign]
    rig.transactions.start()
    return rig


def close(rig: SendRig) -> None:
    flush(rig.store)  # so that the thread finds nothing to do when it ends
    rig.close()


def half_request(rig: SendRig, value: str) -> Command:
    properties = HALF | {"UNIQ_KEY": f"U{value}"}
    return rig.request(body=value.encode(), properties=properties, f="4", g=str(rig.now_ms))


def say(rig: SendRig, request: Command) -> None:
    """Return when it is answered, under SYNC_FLUSH behind a sync; it must be taken."""
    is_end = request.code == RequestCode.END_TRANSACTION
    reply = rig.handle(request, ROUTES[RequestCode.END_TRANSACTION] if is_end else None)
    if reply is None:
        flush(rig.store)
        rig.context.durability._settle()
        ((_, reply),) = rig.connection.replies
        rig.connection.replies.clear()
    assert isinstance(reply, Command)
    assert reply.code == ResponseCode.SUCCESS, reply.remark


def say_end(rig: SendRig, places: dict[str, str]) -> None:
    say(rig, Command(RequestCode.END_TRANSACTION, dict(places), opaque=9))


def bodies(rig: SendRig) -> Counter[str]:
    """What consumers see, and how often."""
    return Counter(bytes(record.body).decode() for record in rig.records())


async def go_on(kept: Kept, *, is_sync: bool) -> Counter[str]:
    """Start from what is left, let everything end, and compare it with what was told."""
    rig = make_rig(kept.files, kept.now_ms, is_sync=is_sync)
    rig.context.durability.attach(asyncio.get_running_loop())
    found: Counter[str] = Counter()
    for told in kept.told:
        if told.is_ended and told.decision == COMMIT:
            assert bodies(rig)[told.value] == 1, f"{told.value} was committed, and is not there"
    rig.pass_ms(LONG_MS)
    await rig.transactions.check()
    flush(rig.store)
    decisions = {told.value: told.decision for told in kept.told}
    for link in list(rig.asked):
        value = bytes(link.body).decode()
        found[f"asked {decisions[value]}"] += 1
        say_end(
            rig,
            {
                "producerGroup": "PG", "tranStateTableOffset": str(link.queue_offset),
                "commitLogOffset": str(link.log_offset), "commitOrRollback": decisions[value],
                "fromTransactionCheck": "true", "msgId": value,
            },
        )  # fmt: skip
    for told in kept.told:
        if told.end is not None:
            say_end(rig, told.end)  # whoever has not heard of the first one says it again
    flush(rig.store)
    check_ends(rig, kept.told)
    rig.context.durability.detach()
    close(rig)
    again = make_rig(kept.files, rig.now_ms, is_sync=is_sync)
    check_ends(again, kept.told)
    close(again)
    return found


def check_ends(rig: SendRig, told: list[Told]) -> None:
    """Nothing is open; what was to be committed is there once, what was rolled back never."""
    assert len(rig.transactions) == 0, "a transaction is still open"
    seen = bodies(rig)
    for one in told:
        is_there = one.end is not None and one.decision == COMMIT
        may_be_there = one.decision == COMMIT
        assert is_there <= seen[one.value] <= may_be_there, f"{one.value} is there {seen}"
    assert seen.keys() <= {one.value for one in told}


@pytest.mark.parametrize("is_sync", [True, False], ids=["sync", "async"])
def test_a_transaction_ends_once_whatever_write_was_the_last(
    monkeypatch: pytest.MonkeyPatch, is_sync: bool
) -> None:
    """Six transactions; some are found open, of which producers are asked, and some ended."""
    life = Life(is_sync=is_sync)
    life.live(monkeypatch)
    found = life.check()
    names = Counter(kept.name for kept in life.kept)
    lost = sum(kept.files.loss.total > 0 for kept in life.kept)
    print(f"{len(life.kept)} ends, {lost} of which have lost something: {names}; {found}")
    # Six half messages, four questions, three messages that were committed, six ends in the log.
    assert names[RECORD] == (6 + 4 + 3 + 6) * (1 + is_sync)
    assert {"write", "sync_mapped", "rename", RECORD} <= names.keys()
    assert found[f"asked {COMMIT}"] > 10
    assert found[f"asked {ROLLBACK}"] > 10
    assert (lost > 0) == is_sync


# --- planted bugs ---------------------------------------------------------------------------------


def test_a_second_commit_after_an_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks for a message whose commit was stored, and the word of it not yet."""
    monkeypatch.setattr(app_transactions, "find_committed", lambda *_: [])
    life = Life(is_sync=False)
    life.live(monkeypatch)
    with pytest.raises(AssertionError, match=r"v\d is there .*: 2"):
        life.check()


def test_a_word_of_the_end_that_comes_first_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that a transaction was committed whose message never came: the second word of it
    is told that nothing is there.
    """

    def decide_first(context: Context, offset: int, log_offset: int, group: str) -> int:
        if context.transactions.find_plain(offset, log_offset, group) is None:
            return -1
        context.transactions.commit(offset, offset, 0)
        committed = as_committed(context.store.record_at(log_offset))
        assert committed is not None
        return put(context, committed).end

    monkeypatch.setattr(end_handlers, "commit_plain", decide_first)
    life = Life(is_sync=False)
    life.live(monkeypatch)
    with pytest.raises(RequestError, match="was rolled back before"):
        life.check()


def test_a_rollback_that_is_only_remembered_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a kill it is open again, whatever its producer was told."""

    def forget(transactions: Transactions, first: int, offset: int) -> int:
        del transactions._open[first]
        return 0

    monkeypatch.setattr(Transactions, "roll_back", forget)
    life = Life(is_sync=False)
    life.live(monkeypatch)
    with pytest.raises(AssertionError, match="a transaction is still open"):
        life.check()
