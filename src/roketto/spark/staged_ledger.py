"""Exactly once on our brokers: executors stage batches, the driver decides and publishes them.

A staged batch lies on its broker where nobody consumes it. When all tasks have ended the driver
records one decision, which names the pieces of all brokers, and then lets each broker publish its
own. Either can be repeated at any time: the first decision counts, and what is published is not
published again. So whoever finds a batch decided that it was about to write (after a crash, or
because the last commit of a checkpoint is gone) has only to see that it is published.

Here is what the driver does, in a process that Spark starts for each batch: nothing of it needs
what tasks stage rows with (staging.py).
"""

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from roketto.client.calls import expect_success, read_body, read_header
from roketto.client.client import Client
from roketto.client.routes import MASTER_ID
from roketto.protocol.bodies.route import ClusterInfo
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.staged import (
    DecideStagedRequest,
    DecideStagedResponse,
    PublishStagedRequest,
    SinkStateRequest,
    SinkStateResponse,
)
from roketto.spark.patience import Patience
from roketto.spark.sink_options import SinkError, SinkOptions
from roketto.spark.written import Piece

__all__ = ["Decision", "StagedLedger", "find_masters", "merge_pieces"]

log = logging.getLogger(__name__)

UNDECIDED: Final = -1

Pieces = Mapping[str, list[list[int]]]
"""Broker name -> log offset and size of each piece, in the order in which they are published."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The last batch of a sink that is to be published."""

    batch_id: int = UNDECIDED
    query_id: str | None = None
    pieces: Pieces = field(default_factory=dict)


def merge_pieces(tasks: Iterable[Iterable[Piece]]) -> Pieces:
    """The pieces of all tasks by broker: tasks in their order, and each task's in its."""
    found: dict[str, list[list[int]]] = {}
    for task in tasks:
        for piece in task:
            found.setdefault(piece.broker_name, []).append([piece.log_offset, piece.size])
    return {name: found[name] for name in sorted(found)}


class StagedLedger:
    """The decisions of one sink, on the brokers of its cluster.

    ledger = StagedLedger(client, options, masters, "orders-sink")
    decision = await ledger.read()
    decision, is_new = await ledger.decide(Decision(7, query_id, pieces))
    await ledger.publish(decision)

    The coordinator, whose decision counts, is the broker with the smallest name. All are asked, for
    it may have been another one before.
    """

    def __init__(
        self, client: Client, options: SinkOptions, masters: Mapping[str, str], sink_id: str
    ) -> None:
        self._client = client
        self._masters = masters
        self._sink_id = sink_id
        self._patience = Patience.of(options)
        self._limit_ms = options.connection.request_timeout_ms

    async def read(self) -> Decision:
        """The last decision; SinkError if one of the brokers does not answer."""
        found = await asyncio.gather(*(self._read_from(name) for name in self._masters))
        return max(found, key=lambda one: one.batch_id, default=Decision())

    async def _read_from(self, broker_name: str) -> Decision:
        async def attempt(left_ms: int) -> Decision:
            address = await self._address(broker_name)
            answer = await self._client.calls.ask(
                address,
                RequestCode.SINK_STATE,
                SinkStateRequest(sink_id=self._sink_id),
                timeout_ms=min(left_ms, self._limit_ms),
            )
            state = read_header(SinkStateResponse, address, answer)
            return Decision(state.batch_id, state.query_id, _pieces(address, answer))

        return await self._patience.keep_trying(
            f"ask {broker_name} for the state of sink {self._sink_id}", attempt
        )

    async def decide(self, decision: Decision) -> tuple[Decision, bool]:
        """Record a decision; the one that counts, and whether it is this one."""
        coordinator = min(self._masters)
        recorded, is_new = await self._decide_on(coordinator, decision)
        # Copies, so that a sink does not begin anew where its coordinator has left the cluster.
        others = [name for name in recorded.pieces if name != coordinator]
        await asyncio.gather(*(self._decide_on(name, recorded) for name in others))
        return recorded, is_new

    async def _decide_on(self, broker_name: str, decision: Decision) -> tuple[Decision, bool]:
        request = DecideStagedRequest(
            sink_id=self._sink_id, batch_id=decision.batch_id, query_id=decision.query_id or ""
        )
        body = json.dumps({"pieces": decision.pieces}, separators=(",", ":")).encode()

        async def attempt(left_ms: int) -> tuple[Decision, bool]:
            address = await self._address(broker_name)
            answer = await self._client.calls.ask(
                address, RequestCode.DECIDE_STAGED, request, body, min(left_ms, self._limit_ms)
            )
            found = read_header(DecideStagedResponse, address, answer)
            if found.is_new:
                return decision, True
            return Decision(found.batch_id, found.query_id, _pieces(address, answer)), False

        return await self._patience.keep_trying(
            f"decide batch {decision.batch_id} of sink {self._sink_id} on {broker_name}", attempt
        )

    async def publish(self, decision: Decision) -> None:
        """Let each broker publish its pieces; returns when all are published."""
        await asyncio.gather(
            *(
                self._publish_on(name, decision)
                for name, pieces in decision.pieces.items()
                if pieces
            )
        )

    async def _publish_on(self, broker_name: str, decision: Decision) -> None:
        request = PublishStagedRequest(
            sink_id=self._sink_id, batch_id=decision.batch_id, query_id=decision.query_id or ""
        )
        pieces = decision.pieces[broker_name]
        body = json.dumps({"pieces": pieces}, separators=(",", ":")).encode()

        async def attempt(left_ms: int) -> None:
            address = await self._address(broker_name)
            # It answers when all is published. A broker that dies lets the connection break.
            answer = await self._client.calls.ask(
                address, RequestCode.PUBLISH_STAGED, request, body, left_ms
            )
            expect_success(address, answer)

        await self._patience.keep_trying(
            f"publish batch {decision.batch_id} of sink {self._sink_id} on {broker_name}", attempt
        )

    async def _address(self, broker_name: str) -> str:
        """Where a broker is now: one that was started again may have another address."""
        known = self._client.routes.addresses_of(broker_name).get(MASTER_ID)
        return known or self._masters[broker_name]


def _pieces(address: str, answer: Command) -> Pieces:
    if not answer.body:
        return {}
    try:
        pieces = json.loads(bytes(answer.body))["pieces"]
        return {
            str(name): [[int(log_offset), int(size)] for log_offset, size in some]
            for name, some in pieces.items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SinkError(
            f"{address} has recorded a decision that cannot be read ({error!r}): use another sinkId"
        ) from error


async def find_masters(client: Client, topic: str | None) -> dict[str, str]:
    """Broker name -> address of the masters that know of a sink.

    Those of the clusters that ``topic`` is on, or of all that the name servers know: whoever writes
    to topics of a column knows them only when its rows come.
    """
    clusters: set[str] | None = None
    if topic is not None:
        clusters = set((await client.routes.get(client.wrap(topic))).clusters.values())

    def read(address: str, answer: Command) -> ClusterInfo:
        return read_body(ClusterInfo, address, answer)

    info = await client.calls.ask_names_for(read, RequestCode.GET_BROKER_CLUSTER_INFO)
    found = {
        data.broker_name: data.broker_addrs[MASTER_ID]
        for data in info.broker_addr_table.values()
        if MASTER_ID in data.broker_addrs and (clusters is None or data.cluster in clusters)
    }
    if not found:
        raise SinkError(
            f"name server {client.names.current} knows no master"
            f" of {'any cluster' if topic is None else f'the cluster of topic {topic}'}: is the"
            " broker up?"
        )
    return found
