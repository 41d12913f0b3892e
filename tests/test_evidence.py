"""Evidence outlives the process that wrote it, and a torn line counts for nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evidence import (
    Evidence,
    EvidenceWriter,
    Outcome,
    Place,
    fail_line,
    ok_line,
    send_line,
)

TESTS = Path(__file__).parent


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Every outcome, with and without a place, retries included."""
    path = tmp_path / "evidence"
    writer = EvidenceWriter(path)
    writer.write([send_line("a", "p", "T/0"), send_line("b", "p", "T/1")])
    writer.write([])
    writer.write([send_line("b", "p", "T/1"), send_line("c", "q", "half")])
    writer.write([ok_line("a", Place("T/0", 7, "ID")), fail_line("b")])
    writer.write([ok_line("c", Place("half", None, "ID2"))])
    writer.close()
    evidence = Evidence()
    evidence.add_lines(path.read_bytes())
    assert [(sent.number, sent.value, sent.outcome) for sent in evidence] == [
        (0, "a", Outcome.OK),
        (1, "b", Outcome.FAIL),
        (2, "b", Outcome.UNKNOWN),
        (3, "c", Outcome.OK),
    ]
    assert evidence.sends[0].place == Place("T/0", 7, "ID")
    assert evidence.sends[3].place == Place("half", None, "ID2")
    assert [sent.value for sent in evidence.part(2)] == ["b", "c"]
    assert len(evidence.part(2)) == 2


def test_a_torn_line_counts_for_nothing() -> None:
    """Whatever of it was written."""
    text = b"send a p T/0\nok a T/0 12 ID\n"
    for size in range(len(text)):
        evidence = Evidence()
        evidence.add_lines(text[:size])
        assert [sent.outcome for sent in evidence] == (
            [Outcome.UNKNOWN] if size >= len(b"send a p T/0\n") else []
        )


@pytest.mark.parametrize("text", [b"nonsense\n", b"ok never-sent T/0 1 ID\n", b"fail x\n"])
def test_evidence_that_makes_no_sense_is_refused(text: bytes) -> None:
    """A workload with a bug must not pass for one without loss."""
    with pytest.raises((ValueError, AssertionError)):
        Evidence().add_lines(text)


def test_evidence_survives_the_kill_of_its_writer(tmp_path: Path) -> None:
    """Each line is with the kernel when the write returns: nothing sits in the process."""
    program = (
        "import os, signal; from pathlib import Path; from evidence import EvidenceWriter\n"
        f"EvidenceWriter(Path({str(tmp_path / 'evidence')!r})).write(['send a p T/0'])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert (tmp_path / "evidence").read_bytes() == b"send a p T/0\n"
