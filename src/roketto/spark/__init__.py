"""RocketMQ on Spark: source, sink and store scan as Python data sources.

Spark finds the formats ``rocketmq`` and ``rocketmq-store`` by itself; what is here is for programs
that want more than ``spark.read.format("rocketmq")``.
"""

from roketto.client.lazy import lazily

TYPE_CHECKING = False  # typing alone would take longer than all the rest
if TYPE_CHECKING:
    from roketto.spark.foreach import rocketmq_batch_writer
    from roketto.spark.installation import install
    from roketto.spark.java import JavaNotFoundError, JavaRuntime, find_java
    from roketto.spark.listener import GroupOffsetListener
    from roketto.spark.sessions import environment, session

__all__ = [
    "GroupOffsetListener",
    "JavaNotFoundError",
    "JavaRuntime",
    "environment",
    "find_java",
    "install",
    "rocketmq_batch_writer",
    "session",
]

_WHERE: dict[str, str] = {
    "GroupOffsetListener": "roketto.spark.listener",
    "JavaNotFoundError": "roketto.spark.java",
    "JavaRuntime": "roketto.spark.java",
    "environment": "roketto.spark.sessions",
    "find_java": "roketto.spark.java",
    "install": "roketto.spark.installation",
    "rocketmq_batch_writer": "roketto.spark.foreach",
    "session": "roketto.spark.sessions",
}
"""Each is imported when somebody asks for it: Spark imports this package to find the formats."""

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, _WHERE)
