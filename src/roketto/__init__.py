"""RocketMQ in Python: name server, broker, clients and a Spark pipeline."""

__version__ = "0.1.0.dev0"
