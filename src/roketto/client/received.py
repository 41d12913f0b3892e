"""A message as a consumer gets it."""

from mypy_extensions import mypyc_attr

from roketto.protocol import property_names as names
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.hosts import decode_host
from roketto.protocol.record import Record

__all__ = ["ReceivedMessage"]


@mypyc_attr(allow_interpreted_subclasses=True)
class ReceivedMessage:
    """A message as it was stored; properties are taken apart when somebody asks for them."""

    __slots__ = ("_record", "broker_name", "max_offset", "reconsume_times", "topic")

    def __init__(
        self, record: Record, broker_name: str, topic: str | None = None, max_offset: int = 0
    ) -> None:
        self._record = record
        self.broker_name = broker_name
        self.topic = record.topic if topic is None else topic
        """That of its producer, also where it came by way of a retry topic."""
        self.max_offset = max_offset
        """Where its queue ended when it was pulled: how far behind its consumer is."""
        self.reconsume_times = record.reconsume_times
        """How often it was given back before."""

    @property
    def record(self) -> Record:
        """Everything that the log keeps of it."""
        return self._record

    @property
    def body(self) -> bytes:
        body = self._record.body
        return body if isinstance(body, bytes) else bytes(body)

    @property
    def properties(self) -> dict[str, str]:
        return self._record.properties

    @property
    def tags(self) -> str | None:
        return self._record.get_property(names.TAGS)

    @property
    def keys(self) -> list[str]:
        return (self._record.get_property(names.KEYS) or "").split()

    @property
    def sharding_key(self) -> str | None:
        return self._record.get_property(names.SHARDING_KEY)

    @property
    def message_id(self) -> str:
        return self._record.message_id

    @property
    def offset_id(self) -> str:
        return self._record.offset_id

    @property
    def transaction_id(self) -> str | None:
        """Of what was sent in a transaction its producer's id, unless it brings another one."""
        record = self._record
        found = record.get_property(names.TRANSACTION_ID)
        if found is None and record.get_property(names.TRANSACTION_PREPARED) == "true":
            return record.get_property(names.UNIQ_KEY)
        return found

    @property
    def flag(self) -> int:
        return self._record.flag

    @property
    def queue(self) -> MessageQueue:
        """Where it was read: of a retry, the queue of the retry topic."""
        return MessageQueue(self.broker_name, self._record.queue_id, self._record.topic)

    @property
    def queue_id(self) -> int:
        return self._record.queue_id

    @property
    def queue_offset(self) -> int:
        return self._record.queue_offset

    @property
    def log_offset(self) -> int:
        return self._record.log_offset

    @property
    def born_time_ms(self) -> int:
        return self._record.born_time_ms

    @property
    def born_host(self) -> str:
        return _host_text(self._record.born_host)

    @property
    def store_time_ms(self) -> int:
        return self._record.store_time_ms

    @property
    def store_host(self) -> str:
        return _host_text(self._record.store_host)

    def __reduce__(self) -> tuple[type["ReceivedMessage"], tuple[object, ...]]:
        """To copy a message, or hand it to another process, also where this module is compiled."""
        return ReceivedMessage, (self._record, self.broker_name, self.topic, self.max_offset)

    def __repr__(self) -> str:
        return (
            f"<ReceivedMessage {self.message_id} of {self.topic} queue {self.queue_id} offset"
            f" {self.queue_offset} on {self.broker_name}, {len(self._record.body)} bytes>"
        )


def _host_text(host: bytes) -> str:
    ip, port = decode_host(host)
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
