"""Blocking: the API of roketto.client for threads; ``./dev blocking`` writes it."""

from roketto.client.lazy import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from roketto.client.blocking.active_consumer import ActiveConsumer
    from roketto.client.blocking.client import Client
    from roketto.client.blocking.lite_pull import LitePullConsumer
    from roketto.client.blocking.outbox import Outbox
    from roketto.client.blocking.producer import Producer
    from roketto.client.blocking.pull import PullConsumer
    from roketto.client.blocking.push import PushConsumer
    from roketto.client.blocking.trace import tracing
    from roketto.client.blocking.transaction import Transaction, TransactionProducer
    from roketto.client.facade import OpenMessage

__all__ = [
    "ActiveConsumer",
    "Client",
    "LitePullConsumer",
    "OpenMessage",
    "Outbox",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "Transaction",
    "TransactionProducer",
    "tracing",
]

_WHERE = {
    "ActiveConsumer": "roketto.client.blocking.active_consumer",
    "Client": "roketto.client.blocking.client",
    "LitePullConsumer": "roketto.client.blocking.lite_pull",
    "OpenMessage": "roketto.client.facade",
    "Outbox": "roketto.client.blocking.outbox",
    "Producer": "roketto.client.blocking.producer",
    "PullConsumer": "roketto.client.blocking.pull",
    "PushConsumer": "roketto.client.blocking.push",
    "Transaction": "roketto.client.blocking.transaction",
    "TransactionProducer": "roketto.client.blocking.transaction",
    "tracing": "roketto.client.blocking.trace",
}
if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, _WHERE)
