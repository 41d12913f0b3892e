"""Fixtures of the Spark tests with Java's brokers."""

from collections.abc import Iterator

import pytest

from integration.spark.leaks import no_leaks_but_the_jvms


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Fail a test that leaves threads or sockets behind, other than those of the JVM."""
    with no_leaks_but_the_jvms():
        yield
