"""Spark sessions for tools: Java is found, workers run this Python, defaults fit one machine."""

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from roketto.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["environment", "session"]

STATE_STORE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""Holds more state than memory, and is what transformWithState asks for."""

_PARTITIONS_PER_CORE: Final = 2
_PARTITIONS_MAX: Final = 200
"""Spark's own default, which is meant for clusters."""


def environment(*, provide_java: bool = True) -> dict[str, str]:
    """The variables that Spark's programs need: JAVA_HOME, and PYSPARK_PYTHON if it is not set.

    Without the second one, workers run whatever ``python3`` is on the PATH, and do not find what
    is installed for the Python that runs now.

    Example: ``subprocess.run(["spark-submit", ...], env=os.environ | environment())``
    """
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    home = find_java(provide=provide_java).home
    return {"JAVA_HOME": str(home), "PYSPARK_PYTHON": python}


def session(
    name: str = "roketto",
    master: str = "local[*]",
    config: Mapping[str, str] | None = None,
    *,
    provide_java: bool = True,
) -> "SparkSession":
    """Start a classic session, or give the one that runs in this process.

    ``config`` goes over the defaults below. Stop it with ``stop()``.

    Example::

        with session("orders", "local[2]") as spark:
            spark.read.format("rocketmq").option("topic", "Orders").load().show()
    """
    os.environ.update(environment(provide_java=provide_java))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**defaults(master), **(config or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def defaults(master: str) -> dict[str, str]:
    """What differs from Spark's own defaults."""
    made = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
    }
    if master.startswith("local"):
        partitions = min(_PARTITIONS_PER_CORE * (os.cpu_count() or 1), _PARTITIONS_MAX)
        made["spark.sql.shuffle.partitions"] = str(partitions)
        # A machine whose name leads nowhere, such as a laptop on the way, can still run it.
        made["spark.driver.host"] = "127.0.0.1"
        made["spark.driver.bindAddress"] = "127.0.0.1"
    return made
