"""Blocking: ``roketto.client.trace`` for threads; ``./dev blocking`` writes it."""

from collections.abc import Iterator
from contextlib import contextmanager

from roketto.client.blocking.producer import Producer
from roketto.client.facade import inner_of
from roketto.client.trace import tracing as async_tracing
from roketto.protocol.names import TRACE_TOPIC

__all__ = ["tracing"]


@contextmanager
def tracing(
    producer: Producer, *, topic: str = TRACE_TOPIC, batch_max: int = 10, is_cloud: bool = False
) -> Iterator[None]:
    """Trace what a producer that is started sends, until the block ends.

    with Producer("orders") as producer, tracing(producer):
        producer.send(Message("Orders", b"..."))
    """
    with producer._entered(
        async_tracing(inner_of(producer), topic=topic, batch_max=batch_max, is_cloud=is_cloud)
    ):
        yield
