"""RocketMQ's store in RocketMQ's files: synchronous, one writer, no sockets."""
