"""Fixtures of the tests that need a second master: one that may be stopped and is told more."""

from collections.abc import Iterator
from typing import Final

import pytest

from interop.broker.cluster import BrokerAddress, Cluster

SEGMENT_BYTES: Final = 262_144

_CONFIG: Final = {
    "flushDiskType": "SYNC_FLUSH",
    "mappedFileSizeCommitLog": str(SEGMENT_BYTES),
}
"""Every message on the disk before its producer is told; files that a few messages fill."""


@pytest.fixture(scope="package")
def second(cluster: Cluster) -> Iterator[BrokerAddress]:
    """Another master of the cluster; clients cannot create topics on it by sending."""
    yield cluster.start("broker-b", _CONFIG)
    cluster.kill("broker-b")
