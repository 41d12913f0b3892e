"""Bytes <-> values: RocketMQ's wire, with no IO, no clock and no logging."""
