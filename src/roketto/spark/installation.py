"""The formats for a session whose cluster has nothing of ours installed."""

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Final

from pyspark import cloudpickle

from roketto.spark import carrier
from roketto.spark.luggage import pack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["install"]

FORMATS: Final = {"rocketmq": "pyspark_rocketmq", "rocketmq-store": "pyspark_rocketmq_store"}
"""Name of the format -> the module in which Spark finds it."""


def install(spark: "SparkSession") -> None:
    """Give a session the formats ``rocketmq`` and ``rocketmq-store``, and its workers their code.

    Where ``roketto[spark]`` is installed on every node there is no need for it: Spark finds the
    formats by itself. Where nothing can be installed, this is enough, for batches and for streams:

        spark = SparkSession.builder.master("spark://host:7077").getOrCreate()
        roketto.spark.install(spark)

    The package and the libraries that it needs travel with each query, a few megabytes, and are
    unpacked once on each machine. Workers need pyspark, pyarrow and numpy, and the Python and
    platform of the driver. It holds for this session and those cloned from it, as streams do;
    another ``newSession()`` wants another call.
    """
    # Functions of an importable module are pickled by their names, unless somebody says otherwise.
    by_value: Callable[[ModuleType], None] = cloudpickle.register_pickle_by_value
    by_value(carrier)
    luggage = pack()
    for name, module in FORMATS.items():
        spark.dataSource.register(carrier.carried(luggage, module, name))
