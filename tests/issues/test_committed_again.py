"""Seen on 5.5.0: a transaction that was committed is committed again, after a kill and without one.

Its message was stored with every END_TRANSACTION that came; after a kill the broker had forgotten
the ends of the last seconds, asked, and stored what its producer committed once more. Here what the
log says of a transaction decides, before and after a restart.
"""

from pathlib import Path

import pytest

from unit.broker.handlers.test_transactions import end, prepare
from unit.broker.send_rig import SendRig


@pytest.mark.parametrize("is_op_written", [True, False])
def test_a_transaction_is_committed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_op_written: bool
) -> None:
    """Whether the kill comes before or after the record of the end."""
    rig = SendRig(tmp_path / "store", has_index=True)
    rig.transactions.start()
    request = prepare(rig)
    if not is_op_written:
        monkeypatch.setattr(rig.transactions, "write_decided", lambda: None)
    for _ in range(2):
        end(rig, request)
    rig.kill()
    rig.transactions.start()
    end(rig, request, fromTransactionCheck="true")
    assert len(rig.records()) == 1
    assert len(rig.transactions) == 0
    rig.close()
