"""The name server: tells clients which brokers hold their topics."""
