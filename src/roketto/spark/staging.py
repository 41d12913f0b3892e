"""The requests of a task that stages its rows, see staged_ledger.py for what becomes of them."""

from typing import Final

from roketto.client.calls import read_header
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import encode_header
from roketto.protocol.headers.staged import StageBatchRequest, StageBatchResponse
from roketto.spark.packing import Parcel
from roketto.spark.sending import Load, check_stored
from roketto.spark.sink_options import SinkError
from roketto.spark.written import Piece

__all__ = ["StageOutlet"]


class StageOutlet:
    """Rows are staged; what comes back is where."""

    verb: Final = "stage"
    keeps_order: Final = False
    """Pieces are published in the order of the decision, whenever they were staged."""

    def __init__(self, sink_id: str, batch_id: int) -> None:
        self._sink_id = sink_id
        self._batch_id = batch_id

    def command(self, load: Load, queue: MessageQueue, broker_name: str) -> Command:
        request = StageBatchRequest(
            sink_id=self._sink_id,
            batch_id=self._batch_id,
            topic=queue.topic,
            queue_id=queue.queue_id,
            target_broker_name=broker_name,
        )
        return Command(RequestCode.STAGE_BATCH, encode_header(request), load.body)

    def read(self, load: Load, queue: MessageQueue, address: str, answer: Command) -> Piece:
        check_stored(queue, address, answer)
        answer.code = ResponseCode.SUCCESS
        found = read_header(StageBatchResponse, address, answer)
        if isinstance(load, Parcel) and found.message_count != load.count:
            raise SinkError(
                f"{address} has staged {found.message_count} messages of {load.count} for"
                f" {queue.topic}"
            )
        return Piece(queue.broker_name, found.log_offset, found.size)
