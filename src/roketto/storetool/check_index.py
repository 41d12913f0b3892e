"""Compare the index with the log: each key of each message is found, and nothing else is there.

Entries are made in the order of the log, so the two are read side by side. What must be remembered
is which entries of the current file the chains of its slots lead to: one byte an entry, 20 MB for a
file of Java's size.
"""

from pathlib import Path
from typing import Final

from roketto.store.errors import StoreError
from roketto.store.index import Index
from roketto.storetool.directory import State, StoreDirectory
from roketto.storetool.findings import Finding, Findings
from roketto.storetool.index_files import HEADER_BYTES, SLOT_BYTES, Entry, OpenIndexFile

_KIND: Final = "index"
_KEY_CHARS_SHOWN: Final = 40
_SECONDS_MAX: Final = 0x7FFF_FFFF


class _Missing:
    """Messages in a row that the index does not have at all."""

    __slots__ = ("count", "first", "key", "last")

    def __init__(self, log_offset: int, key: str) -> None:
        self.first = self.last = log_offset
        self.key = key
        self.count = 1


class IndexCheck:
    """Sees each message of the log, in order, and walks along the entries with it."""

    def __init__(
        self, store: StoreDirectory, index: Index, findings: Findings, trusted_until: int
    ) -> None:
        """``index`` is asked for hashes only."""
        self._store = store
        self._hash = index.key_hash
        self._findings = findings
        self._trusted_until = trusted_until
        self._paths = list(reversed(store.index.paths))
        self._file: OpenIndexFile | None = None
        self._reached = bytearray()
        self._number = 0
        self._entry: Entry | None = None
        self._missing: _Missing | None = None
        self._end_place: tuple[Path, int] = (store.index.directory, 0)
        self.entries = 0
        """How many entries were right."""
        self.is_absent = not self._paths
        if not self.is_absent:
            self._advance()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    # --- walking along the entries ------------------------------------------------------------

    def _advance(self) -> None:
        """Go to the next entry, or leave None if there is none."""
        self._number += 1
        while self._file is None or self._number >= self._file.count:
            if self._file is not None:
                self._end_place = (self._file.path, self._file.entry_at(self._file.count))
            self.close()
            if not self._paths:
                self._entry = None
                return
            self._open(self._paths.pop())
        self._entry = self._file.entry(self._number)

    def _open(self, path: Path) -> None:
        try:
            self._file = self._store.index.open(path)
        except FileNotFoundError:
            return  # its broker has deleted it meanwhile
        except StoreError as error:  # its length, or that nobody knows the layout
            self._findings.damage(_KIND, path, 0, str(error))
            return
        self._number = 1
        header = self._file.header
        if not header.is_plausible:
            self._findings.damage(
                _KIND, path, 0,
                f"a header that cannot be: {header.count} entries, {header.slots_used} slots in"
                f" use, log offsets {header.log_offset_begin} to {header.log_offset_end}",
            )  # fmt: skip
        self._follow_chains(self._file)

    def _follow_chains(self, file: OpenIndexFile) -> None:
        """Mark the entries that a query can reach."""
        count = file.count
        reached = self._reached = bytearray(count)
        # A broker that runs adds entries meanwhile: slots lead to them first, and then to ours.
        bound = count if self._store.state is State.CLEAN else file.layout.entries
        for slot, newest in file.slots():
            number, above = newest, bound
            while number:
                at = HEADER_BYTES + slot * SLOT_BYTES
                if not 0 < number < above:
                    self._chain_broken(file, at, slot, number, above)
                    break
                own_slot, previous = file.previous_of(number)
                if own_slot != slot:
                    break  # the entry is wrong, which is found when its turn comes
                if number < count:
                    reached[number] = 1
                above, number = number, previous

    def _chain_broken(
        self, file: OpenIndexFile, at: int, slot: int, number: int, above: int
    ) -> None:
        if self._store.state is not State.CLEAN:
            return  # entry and slot are written one after the other; if one is lacking, it is told
        self._findings.damage(
            _KIND, file.path, at,
            f"the chain of slot {slot} leads to entry {number}, where only 1 to {above - 1} can be",
        )  # fmt: skip

    # --- one message --------------------------------------------------------------------------

    def see(
        self, topic: str, keys: list[str], tag_key: str | None, log_offset: int, store_time_ms: int
    ) -> None:
        """Compare the entries of a message with its keys; one for its tag may be there, too."""
        if self.is_absent:
            return
        self._pass_strangers(log_offset)
        found: set[int] = set()
        wanted = {self._hash(topic, key): key for key in keys}
        while (entry := self._entry) is not None and entry.log_offset == log_offset:
            is_tag = tag_key is not None and entry.key_hash == self._hash(topic, tag_key)
            if not is_tag or entry.key_hash in wanted:
                self._compare(entry, wanted, store_time_ms, found)
            self._advance()
        lacking = [key for key_hash, key in wanted.items() if key_hash not in found]
        if lacking and not found:
            self._note_missing(log_offset, lacking[0])
            return
        if found:
            self._tell_missing(is_tail=False)
        for key in lacking:
            text = f"the message at log offset {log_offset} is not found by its key {_shown(key)}"
            self._not_found(log_offset, text, is_tail=False)

    def _pass_strangers(self, log_offset: int) -> None:
        """Go on to the entries of this message or a later one."""
        while (entry := self._entry) is not None:
            if entry.log_offset < log_offset:
                if entry.log_offset >= self._store.log.min_offset:
                    self._stranger(entry, "where no message with keys begins")
                elif entry.log_offset < 0:
                    self._stranger(entry, "which cannot be")
            elif entry.log_offset == log_offset or not self._is_out_of_order(entry):
                return
            else:
                self._stranger(entry, "but the next entry leads to an earlier message")
            self._advance()

    def _is_out_of_order(self, entry: Entry) -> bool:
        file = self._file
        assert file is not None
        if entry.number + 1 >= file.count:
            return False
        return entry.log_offset > file.entry(entry.number + 1).log_offset

    def _compare(
        self, entry: Entry, wanted: dict[int, str], store_time_ms: int, found: set[int]
    ) -> None:
        file = self._file
        assert file is not None
        if entry.key_hash not in wanted:
            self._stranger(entry, "which has no key with this hash")
            return
        if entry.key_hash in found:
            return  # filed again after a crash
        if not self._reached[entry.number]:
            # Killed between the entry and its slot; then the same message is filed again.
            return
        found.add(entry.key_hash)
        begin_ms = file.header.begin_time_ms
        seconds = (store_time_ms - begin_ms) // 1000 if begin_ms > 0 else 0
        is_first = entry.number == 1  # it counts its seconds from another time
        if not is_first and entry.seconds != min(max(seconds, 0), _SECONDS_MAX):
            self._findings.damage(
                _KIND, file.path, file.entry_at(entry.number),
                f"entry {entry.number} is {entry.seconds} s after the file's begin, its message at"
                f" log offset {entry.log_offset} is {seconds} s",
            )  # fmt: skip
        else:
            self.entries += 1

    # --- telling ------------------------------------------------------------------------------

    def _stranger(self, entry: Entry, why: str) -> None:
        file = self._file
        assert file is not None
        excuse = self._store.excuse(entry.log_offset, self._trusted_until, is_tail=False)
        text = (
            f"entry {entry.number} with hash {entry.key_hash} leads to log offset"
            f" {entry.log_offset}, {why}"
        )
        if excuse:
            text += f"; {excuse}"
        at = file.entry_at(entry.number)
        self._findings.add(Finding(_KIND, file.path, at, text, is_damage=not excuse))

    def _note_missing(self, log_offset: int, key: str) -> None:
        if self._missing is None:
            self._missing = _Missing(log_offset, key)
        else:
            self._missing.count += 1
            self._missing.last = log_offset

    def _tell_missing(self, *, is_tail: bool) -> None:
        missing, self._missing = self._missing, None
        if missing is None:
            return
        if missing.count == 1:
            what = f"the message at log offset {missing.first} is"
        else:
            what = f"{missing.count} messages from log offset {missing.first} to {missing.last} are"
        text = f"{what} not found by any key; the first is {_shown(missing.key)}"
        self._not_found(missing.first, text, is_tail=is_tail)

    def _not_found(self, log_offset: int, text: str, *, is_tail: bool) -> None:
        excuse = self._store.excuse(log_offset, self._trusted_until, is_tail=is_tail)
        if excuse:
            text += f"; {excuse}"
        path, at = self._end_place
        if self._file is not None:
            path, at = self._file.path, self._file.entry_at(self._number)
        self._findings.add(Finding(_KIND, path, at, text, is_damage=not excuse))

    def finish(self, log_end: int) -> None:
        """Look at the entries behind the last message; the records end at ``log_end``."""
        self._tell_missing(is_tail=True)
        while (entry := self._entry) is not None:
            if self._store.state is not State.OPEN or entry.log_offset < log_end:
                self._stranger(entry, f"but the records end at {log_end}")
            self._advance()


def _shown(key: str) -> str:
    return repr(key if len(key) <= _KEY_CHARS_SHOWN else key[:_KEY_CHARS_SHOWN] + "...")
