"""The reports of the tool: what was checked, measured and rebuilt, as people read it."""

from dataclasses import asdict
from pathlib import Path

from roketto.storetool.check import Checked
from roketto.storetool.directory import State
from roketto.storetool.findings import Findings
from roketto.storetool.messages import iso, local_zone
from roketto.storetool.output import count_text, size_text, write_line, write_table
from roketto.storetool.rebuild import Part, Rebuilt
from roketto.storetool.stat import StoreStat


def checked_json(root: Path, checked: Checked, findings: Findings) -> dict[str, object]:
    return {
        "root": str(root),
        **asdict(checked),
        "state": checked.state.value,
        "is_clean": findings.is_clean,
        "damages": dict(findings.damages),
        "notes": findings.notes,
        "findings_left_out": findings.left_out,
        "findings": [{**asdict(finding), "path": str(finding.path)} for finding in findings.kept],
    }


def write_checked(checked: Checked, findings: Findings) -> None:
    if findings.left_out:
        write_line(f"and {count_text(findings.left_out, 'more finding')}")
    log_bytes = size_text(checked.log_end - checked.log_begin)
    write_line(
        f"{count_text(checked.records, 'record')} in {log_bytes} of log, "
        f"{count_text(checked.units, 'queue unit')}, "
        f"{count_text(checked.entries, 'index entry', 'index entries')} and "
        f"{count_text(checked.tables, 'table')} are right; "
        f"the store is {_state_text(checked.state)}"
    )
    for name in checked.unchecked:
        write_line(f"not checked: {name}")
    damages = findings.damages.total()
    write_line(f"{count_text(damages, 'damage')}, {count_text(findings.notes, 'note')}")


def _state_text(state: State) -> str:
    return {
        State.CLEAN: "cleanly stopped",
        State.CRASHED: "as a crash has left it",
        State.OPEN: "open in a running broker",
    }[state]


def write_stat(stat: StoreStat) -> None:
    process = f" (process {stat.process_id})" if stat.process_id else ""
    segments = f"{count_text(stat.segments, 'file')} of {size_text(stat.segment_bytes)}"
    lines = {
        "store": stat.root,
        "state": _state_text(State(stat.state)) + process,
        "log": f"{segments}, offsets {stat.log_begin} to {stat.log_end}",
        "stored": f"{_time_text(stat.first_time_ms)} to {_time_text(stat.last_time_ms)}",
        "messages": f"{stat.messages:,} in {count_text(len(stat.topics), 'topic')}",
        "queue files": size_text(stat.queue_file_bytes),
        "index": f"{count_text(stat.index_files, 'file')},"
        f" {count_text(stat.index_entries, 'entry', 'entries')}"
        + (f", {stat.index_slots:,} slots a file" if stat.index_slots else ""),
        "checkpoint": ", ".join(f"{name} {value}" for name, value in stat.checkpoint.items()),
        "on disk": ", ".join(f"{name} {size_text(size)}" for name, size in stat.disk_bytes.items()),
    }
    for name, text in lines.items():
        write_line(f"{name:<12} {text}")
    if stat.topics:
        write_line("")
        rows = [
            (topic.topic, f"{topic.queues:,}", f"{topic.messages:,}", f"{topic.next_offsets:,}")
            for topic in stat.topics
        ]
        numbers = ("queues", "messages", "ever")
        write_table(("topic", *numbers), rows, numbers)


def _time_text(time_ms: int | None) -> str:
    return "-" if time_ms is None else iso(time_ms, local_zone())


def write_rebuilt(part: Part, done: Rebuilt, elapsed_s: float) -> None:
    megabytes = done.log_bytes / 1e6
    write_line(
        f"read {count_text(done.messages, 'message')} in {megabytes:.1f} MB of log in"
        f" {elapsed_s:.2f} s: {megabytes / max(elapsed_s, 1e-9):.1f} MB/s"
    )
    if part is not Part.INDEX:
        kept = f", {done.queues_kept:,} kept that the log has no message of"
        write_line(f"queues: {done.queues:,} made anew" + (kept if done.queues_kept else ""))
    if part is not Part.QUEUES:
        write_line(
            f"index: {count_text(done.entries, 'entry', 'entries')} in"
            f" {count_text(done.index_files, 'file')}"
        )
    if done.left_out:
        write_line(f"left out: {count_text(done.left_out, 'message')} of deleted topics")
    if done.misplaced:
        write_line(f"left out: {count_text(done.misplaced, 'message')} with a number given twice")
    if done.torn_bytes:
        write_line(f"{done.torn_bytes} torn bytes at the end; the next start cuts them off")
