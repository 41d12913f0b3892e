"""Lets Spark find the format ``rocketmq``: it looks for modules whose names begin with pyspark_."""

from roketto.spark.source import RocketMQDataSource as DefaultSource

__all__ = ["DefaultSource"]
