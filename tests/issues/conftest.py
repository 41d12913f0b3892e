"""What several of these tests begin with: a broker without sockets whose clocks are set by hand."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from unit.broker.send_rig import SendRig


@pytest.fixture
def timed(tmp_path: Path) -> Iterator[SendRig]:
    """One whose timers run."""
    rig = SendRig(tmp_path / "store")
    rig.timers.start()
    yield rig
    rig.close()
