"""Lets Spark find the format ``rocketmq-store``: it looks for modules named pyspark_ and more."""

from roketto.spark.store_scan import StoreDataSource as DefaultSource

__all__ = ["DefaultSource"]
