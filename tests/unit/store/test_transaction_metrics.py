"""How many transactions are open for each topic is written to Java's file."""

from pathlib import Path

from roketto.store.files import Files
from roketto.store.transaction_metrics import TransactionMetricsTable

NOW_MS = 1_700_000_000_000
BY_JAVA = (
    b'{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":1700000000000},'
    b'"transactionCount":{"T":{"count":2,"timeStamp":1700000000000}}}'
)


def load(folder: Path) -> TransactionMetricsTable:
    table = TransactionMetricsTable(Files(), folder, clock_ms=lambda: NOW_MS)
    assert table.load() is None
    return table


def test_a_file_of_java_is_written_again_byte_for_byte(tmp_path: Path) -> None:
    """As 5.5.0 has it, on one line."""
    (tmp_path / "transactionMetrics").write_bytes(BY_JAVA)
    table = load(tmp_path)
    assert table.counts == {"T": 2}
    assert table.text() == BY_JAVA


def test_counts_are_noted_when_they_differ(tmp_path: Path) -> None:
    """With the time at which that was seen; a topic that has had some stays."""
    (tmp_path / "transactionMetrics").write_bytes(BY_JAVA.replace(b"1700", b"1600"))
    table = load(tmp_path)
    table.note({"T": 2})
    assert not table.is_changed
    table.note({"U": 1})
    assert table.save_if_changed()
    again = load(tmp_path)
    assert again.counts == {"T": 0, "U": 1}
    assert again.body.data_version.counter == 5
    assert again.text().count(b'"timeStamp":1700000000000') == 2
