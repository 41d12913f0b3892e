"""Memory of a producer through very many sends: what it has after the first ones is what it needs.

Measured in a process of its own, after a warm-up, by blocks that Python has allocated (one object
that stays for each send would show) and by the resident memory that is the process's own.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from fault.client.cluster import Cluster

WARM: Final = 5_000
BLOCKS_MAX: Final = 2_000
"""More than before: buffers come and go. The bound is the same for any number of sends."""
KB_MAX: Final = 4_096

pytestmark = pytest.mark.xdist_group("client-memory")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


async def run_sends(cluster: Cluster, count: int, *bug: str) -> None:
    await cluster.ready()
    topic = await cluster.topic()
    names = ";".join(cluster.names.addresses)
    program = [
        sys.executable, "-m", "fault.client.sending_process", names, topic, str(WARM), str(count),
        *bug,
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("PYTHONASYNCIODEBUG", None)  # it keeps a trace of every task
    done = await asyncio.to_thread(
        subprocess.run, program, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    before, after = json.loads(done.stdout)
    stored = await cluster.count(topic)
    assert stored >= WARM + count, f"only {stored} are stored"
    blocks, kb = after["blocks"] - before["blocks"], after["kb"] - before["kb"]
    text = f"{count} sends: {blocks:+} blocks of {before['blocks']}, {kb:+} kB of {before['kb']}"
    assert blocks <= BLOCKS_MAX, text
    assert kb <= KB_MAX, text
    print(text)


async def test_memory_is_flat_over_many_sends(cluster: Cluster) -> None:
    """50,000 of them."""
    await run_sends(cluster, 50_000)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_memory_is_flat_over_a_million_sends(cluster: Cluster) -> None:
    """The long tier, with the same bounds."""
    await run_sends(cluster, 1_000_000)


async def test_results_that_are_kept_are_noticed(cluster: Cluster) -> None:
    """Planted: a few blocks for each send."""
    with pytest.raises(AssertionError, match=r"5000 sends: \+\d+ blocks"):
        await run_sends(cluster, 5_000, "leak")
