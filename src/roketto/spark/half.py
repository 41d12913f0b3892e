"""Exactly once on other brokers than ours: rows are half messages until the driver has decided.

Half messages go one by one, and so does their commit: this is slower than staging (staging.py), but
any broker of RocketMQ can do it. The decision, which names all half messages of a batch, is the
last message of a topic of its own. Brokers deliver a half message once more with each commit that
they are told, so where an earlier commit may have come through (the driver has died, or there was
no answer) the message is looked for by its id first.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from roketto.client.errors import UnreadableError
from roketto.protocol import property_names as names
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RecordError
from roketto.protocol.ids import decode_offset_id
from roketto.protocol.limits import MESSAGE_BYTES_MAX
from roketto.spark.rows import Single
from roketto.spark.sending import Load, check_stored, send_fields
from roketto.spark.sink_options import SinkError
from roketto.spark.staged_ledger import UNDECIDED
from roketto.spark.written import Half

__all__ = ["HalfDecision", "HalfOutlet", "half_marks", "merge_halves"]

_VERSION: Final = 1
_IMMUNE_S: Final = 86_400
"""How long brokers are not to ask what became of a half message: nobody would answer."""

Halves = Mapping[str, Mapping[str, Mapping[str, list[list[int | str]]]]]
"""Broker name -> topic -> queue id -> half queue offset, log offset and id of each message."""


@dataclass(frozen=True, slots=True)
class HalfDecision:
    """The last batch of a sink that is to be committed."""

    batch_id: int = UNDECIDED
    query_id: str | None = None
    halves: Halves = field(default_factory=dict)

    def encode(self) -> bytes:
        fields = {
            "v": _VERSION, "batch": self.batch_id, "query": self.query_id, "halves": self.halves,
        }  # fmt: skip
        body = zlib.compress(json.dumps(fields, separators=(",", ":")).encode())
        if len(body) > MESSAGE_BYTES_MAX:
            raise SinkError(
                f"batch {self.batch_id} has so many rows that their list takes {len(body)} bytes; a"
                f" message takes {MESSAGE_BYTES_MAX}: let batches be smaller (maxOffsetsPerTrigger)"
            )
        return body

    @classmethod
    def decode(cls, topic: str, body: bytes) -> "HalfDecision":
        try:
            fields = json.loads(zlib.decompress(body))
            if fields["v"] != _VERSION:
                raise ValueError(f"version {fields['v']}")
            return cls(int(fields["batch"]), str(fields["query"]), fields["halves"])
        except (KeyError, TypeError, ValueError, zlib.error) as error:
            raise SinkError(
                f"the last message of topic {topic} is no decision of a sink ({error!r}): nobody"
                " else may send to it; use another sinkId"
            ) from error


def merge_halves(tasks: Iterable[Iterable[Half]]) -> Halves:
    """The half messages of all tasks; of each queue in the order of tasks and rows."""
    found: dict[str, dict[str, dict[str, list[list[int | str]]]]] = {}
    for task in tasks:
        for half in task:
            topics = found.setdefault(half.broker_name, {})
            queues = topics.setdefault(half.topic, {})
            entry: list[int | str] = [half.half_queue_offset, half.log_offset, half.message_id]
            queues.setdefault(str(half.queue_id), []).append(entry)
    return found


def half_marks(group: str) -> str:
    """The properties that make a message half of one, as text."""
    return (
        f"{names.TRANSACTION_PREPARED}\x01true\x02{names.PRODUCER_GROUP}\x01{group}\x02"
        f"{names.CHECK_IMMUNITY_TIME_IN_SECONDS}\x01{_IMMUNE_S}\x02"
    )


class HalfOutlet:
    """Rows are half messages; what comes back is where."""

    verb: Final = "prepare"
    keeps_order: Final = False
    """They are committed in the order of the decision."""

    def __init__(self, group: str) -> None:
        self._group = group

    def command(self, load: Load, queue: MessageQueue, broker_name: str) -> Command:
        assert isinstance(load, Single), "half messages go one by one"
        fields = send_fields(
            self._group, queue, broker_name, flag=load.flag, properties=load.properties,
            is_half=True,
        )  # fmt: skip
        return Command(RequestCode.SEND_MESSAGE_V2, fields, load.body)

    def read(self, load: Load, queue: MessageQueue, address: str, answer: Command) -> Half:
        assert isinstance(load, Single)
        check_stored(queue, address, answer)
        ext = answer.ext or {}
        try:
            half_queue_offset = int(ext["queueOffset"])
            log_offset = decode_offset_id(ext["msgId"]).log_offset
        except (KeyError, ValueError, RecordError) as error:
            raise UnreadableError(address, f"where is the half message? {error!r}") from error
        return Half(
            queue.broker_name, queue.topic, queue.queue_id, half_queue_offset, log_offset,
            load.message_id,
        )  # fmt: skip
