"""Fixtures of the Spark tests: one session and one cluster of ours for all tests of a process.

Starting them takes some ten seconds, so they are shared: give topics, groups and views names of
their own (``topic_name`` makes one).
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.spark.leaks import no_leaks_but_the_jvms
from integration.spark.shared_session import end_session, start_session
from integration.spark.spark_rig import Rig
from roketto.spark.cluster import close_clusters
from servers import broker, name_server

__all__ = ["end_session", "start_session"]

_numbers = itertools.count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests that use a session run in one process: a second session would cost more."""
    folder = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(folder):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session; its first query has run, so that its sockets are no leak of a test."""
    session = start_session(tmp_path_factory.mktemp("spark"))
    try:
        yield session
    finally:
        end_session(session)


@pytest.fixture(scope="session")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A name server and a broker of ours, and what tests do with them."""
    folder = tmp_path_factory.mktemp("rocketmq")
    config = {"enablePropertyFilter": "true"}
    with name_server(folder) as names, broker(folder, [names.address], config) as server:
        yield Rig(names.address, server, folder)


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Fail a test that leaves threads or sockets behind, other than those of the JVM."""
    with no_leaks_but_the_jvms():
        yield


@pytest.fixture(autouse=True)
def no_clients_left(no_leaks: None) -> Iterator[None]:
    """The clients that the driver shares are nobody's leak: they end with the test."""
    yield
    close_clusters()


@pytest.fixture
def topic_name() -> Callable[[], str]:
    """A name that no other test has."""
    return lambda: f"SparkTopic{next(_numbers)}"
