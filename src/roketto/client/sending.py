"""From a message to the request that sends it, and from the answer to where the message went.

A message is prepared once: checked, given an id, compressed. Each attempt then makes a request of
it for another queue.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from roketto.client.errors import IllegalMessageError, RefusedError, UnreachableError
from roketto.client.marked import REPLY
from roketto.client.message import Message, MessageQueue, SendResult, SendStatus
from roketto.client.send_settings import SendSettings
from roketto.clock import wall_ms
from roketto.protocol import property_names as names
from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.compression import compress
from roketto.protocol.errors import CompressionError, RecordError
from roketto.protocol.ids import UniqueIds
from roketto.protocol.limits import PROPERTIES_BYTES_MAX
from roketto.protocol.names import RETRY_PREFIX
from roketto.protocol.sysflags import COMPRESSED, TRANSACTION_PREPARED

__all__ = ["Item", "Outgoing", "Preparation", "read_result"]

_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
_SEND_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_SEND_REPLY: Final = int(RequestCode.SEND_REPLY_MESSAGE_V2)
_STATUSES: Final = {status.value: status for status in SendStatus}
_REGION: Final = "DefaultRegion"
# Names of this module are found quicker than those of another.
_UNIQ_KEY: Final = names.UNIQ_KEY
_MSG_REGION: Final = names.MSG_REGION
_TRACE_ON: Final = names.TRACE_ON


class Item:
    """One message of a batch, encoded."""

    __slots__ = ("encoded", "message", "message_id")

    def __init__(self, message: Message, message_id: str, encoded: BatchItem) -> None:
        self.message = message
        self.message_id = message_id
        self.encoded = encoded


class Outgoing:
    """A message, or a batch, on its way; ``command`` makes the request for one queue."""

    __slots__ = (
        "_fields", "body", "code", "message_id", "messages", "properties", "topic",
    )  # fmt: skip

    def __init__(
        self,
        code: int,
        topic: str,
        messages: Sequence[Message],
        message_id: str,
        properties: Mapping[str, str],
        body: bytes,
        header: dict[str, str],
    ) -> None:
        self.code = code
        self.topic = topic
        """As the user calls it."""
        self.messages = messages
        self.message_id = message_id
        """Of a batch, those of all messages with commas between them."""
        self.properties = properties
        self.body = body
        """As it is sent: compressed."""
        self._fields = header

    def command(self, queue: MessageQueue, broker_name: str = "") -> Command:
        """The request, not signed yet. ``broker_name`` has the queue, if that is named otherwise.

        Each one has the fields of the one before it, which must be over.
        """
        ext = self._fields
        ext["e"] = str(queue.queue_id)
        ext["g"] = str(wall_ms())
        ext["n"] = broker_name or queue.broker_name
        return Command(self.code, ext, self.body)


class Preparation:
    """Prepares the messages of one producer; ``topic`` is always as brokers know it.

    outgoing = preparation.prepare(message, client.wrap(message.topic))
    answer = await calls.send(address, calls.sign(outgoing.command(queue)), 3_000)
    result = read_result(outgoing, queue, address, answer)
    """

    def __init__(
        self, group: str, settings: SendSettings, unique_ids: UniqueIds, namespace: str = ""
    ) -> None:
        self._group = group
        self._namespace = namespace
        self._ids = unique_ids
        self._body_bytes_max = settings.body_bytes_max
        least = settings.compress_bytes_min
        self._compress_bytes_min = settings.body_bytes_max + 1 if least is None else least
        self._compression = settings.compression.value
        self._level = settings.compression_level
        self._template = settings.template_topic
        self._queues = str(settings.template_queues)

    def prepare(self, message: Message, topic: str) -> Outgoing:
        """Check one message and make it ready; IllegalMessageError if no broker would take it."""
        body = message.checked_body(self._body_bytes_max)
        properties = self._properties(message)
        sys_flag = 0
        if len(body) >= self._compress_bytes_min:
            body, sys_flag = self._compressed(body)
        if type(message) is not Message:
            return self._prepare_marked(message, topic, properties, body, sys_flag)
        header = self._header(topic, sys_flag, message.flag, _text(message.topic, properties))
        return Outgoing(
            _SEND, message.topic, (message,), properties[_UNIQ_KEY], properties, body, header
        )

    def _prepare_marked(
        self, message: Message, topic: str, properties: dict[str, str], body: bytes, sys_flag: int
    ) -> Outgoing:
        """The same for what may have properties that only clients themselves set."""
        if properties.get(names.TRANSACTION_PREPARED, "").lower() == "true":
            sys_flag |= TRANSACTION_PREPARED
        code = _SEND_REPLY if properties.get(names.MSG_TYPE) == REPLY else _SEND
        counters: dict[str, str] = {}
        if topic.startswith(RETRY_PREFIX):
            for field_name, name in (("j", names.RECONSUME_TIME), ("l", names.MAX_RECONSUME_TIMES)):
                if name in properties:
                    counters[field_name] = properties.pop(name)
        header = self._header(topic, sys_flag, message.flag, _text(message.topic, properties))
        header.update(counters)
        return Outgoing(
            code, message.topic, (message,), properties[_UNIQ_KEY], properties, body, header
        )

    def _properties(self, message: Message) -> dict[str, str]:
        """All that go with a message."""
        properties = message.to_properties()
        if _UNIQ_KEY not in properties:
            properties[_UNIQ_KEY] = self._ids.next_id(wall_ms())
        if self._namespace:
            properties[names.INSTANCE_ID] = self._namespace
        return properties

    def _header(
        self, topic: str, sys_flag: int, flag: int, properties: str, is_batch: str = "false"
    ) -> dict[str, str]:
        """SendMessageV2Request as ext fields; ``e``, ``g`` and ``n`` are of each attempt.

        Written out: the typed header takes as long as all the rest. In the order of Java's headers,
        which brokers of ours read quickest.
        """
        return {
            "a": self._group,
            "b": topic,
            "c": self._template,
            "d": self._queues,
            "e": "",
            "f": "0" if not sys_flag else str(sys_flag),
            "g": "",
            "h": "0" if not flag else str(flag),
            "i": properties,
            "j": "0",
            "k": "false",
            "m": is_batch,
            "n": "",
        }

    def _compressed(self, body: bytes) -> tuple[bytes, int]:
        """A body and its system flag; as it is where packing does not make it smaller."""
        try:
            packed = compress(body, self._compression, self._level)
        except CompressionError as error:
            raise IllegalMessageError(str(error)) from error
        if len(packed) >= len(body):
            return body, 0
        return packed, COMPRESSED | self._compression

    # --- batches ----------------------------------------------------------------------------------

    def item(self, message: Message) -> Item:
        """Check one message and make it ready to be part of a batch."""
        if message.is_delayed or message.topic.startswith(RETRY_PREFIX):
            raise IllegalMessageError(
                f"a message for {message.topic} is delayed, or a retry; send it on its own: brokers"
                " take none of these in a batch"
            )
        body = message.checked_body(self._body_bytes_max)
        properties = self._properties(message)
        raw = _text(message.topic, properties).encode()
        if len(raw) > PROPERTIES_BYTES_MAX:
            raise IllegalMessageError(
                f"a message for {message.topic} has {len(raw)} bytes of properties; it takes"
                f" {PROPERTIES_BYTES_MAX}"
            )
        return Item(message, properties[_UNIQ_KEY], BatchItem(body, raw, message.flag))

    def batch(self, items: Sequence[Item], topic: str) -> Outgoing:
        """Make a batch of messages that were made ready."""
        if not items:
            raise IllegalMessageError("a batch has no message; give it at least one")
        first = items[0].message
        for item in items:
            if item.message.topic != first.topic:
                raise IllegalMessageError(
                    f"a batch has messages for {first.topic} and {item.message.topic}; make one for"
                    " each topic"
                )
            if item.message.wait_for_store != first.wait_for_store:
                raise IllegalMessageError(
                    f"a batch for {first.topic} has messages that wait for the store and such that"
                    " do not; let all have the same wait_for_store"
                )
        try:
            body = encode_batch([item.encoded for item in items])
        except RecordError as error:
            raise IllegalMessageError(str(error)) from error
        if len(body) > self._body_bytes_max:
            raise IllegalMessageError(
                f"a batch of {len(items)} messages for {first.topic} has {len(body)} bytes; it"
                f" takes {self._body_bytes_max}: make several of it"
            )
        # Brokers up to 5.3 put these behind the properties of each message, where they win. Java's
        # clients of 5.x give the whole an id, which then is that of all its messages.
        properties: dict[str, str] = {names.WAIT: "true" if first.wait_for_store else "false"}
        if self._namespace:
            properties[names.INSTANCE_ID] = self._namespace
        header = self._header(topic, 0, 0, _text(first.topic, properties), is_batch="true")
        ids = ",".join([item.message_id for item in items])
        messages = [item.message for item in items]
        return Outgoing(_SEND_BATCH, first.topic, messages, ids, properties, body, header)


def _text(topic: str, properties: Mapping[str, str]) -> str:
    """The property string."""
    text = "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise IllegalMessageError(
                f"a property of a message for {topic} is not Unicode text: {error}"
            ) from error
    return text


def read_result(
    outgoing: Outgoing, queue: MessageQueue, address: str, answer: Command
) -> SendResult:
    """Where a message went; RefusedError if it went nowhere."""
    status = _STATUSES.get(answer.code)
    if status is None:
        raise RefusedError(address, answer.code, answer.remark or "without a reason")
    ext = answer.ext or {}
    try:
        queue_id = int(ext["queueId"])
        queue_offset = int(ext["queueOffset"])
        offset_id = ext["msgId"]
    except (KeyError, ValueError) as error:
        raise UnreachableError(
            address, f"{address} has answered a send without saying where it went: {error!r}",
            is_sent=True,
        ) from error  # fmt: skip
    if queue_id != queue.queue_id:
        queue = MessageQueue(queue.broker_name, queue_id, queue.topic)
    message_id = outgoing.message_id
    if outgoing.code == _SEND_BATCH:
        message_id = ext.get("batchUniqId") or message_id
    return SendResult(
        status, message_id, queue, queue_offset, offset_id, ext.get("transactionId"),
        ext.get("recallHandle"), ext.get(_MSG_REGION) or _REGION,
        ext.get(_TRACE_ON) != "false",
    )  # fmt: skip
