"""A broker without sockets whose clients, groups and topics a test asks about."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from roketto.broker.context import Handler
from roketto.broker.locks import QueueLocks
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.protocol.fastjson_write import write
from unit.broker.peers import Consumer, Peer
from unit.broker.pull_rig import PullRig

T = TypeVar("T")


class ClientsRig(PullRig):
    """Topic T with four queues, and whoever asks."""

    def __init__(self, root: Path, *, index_enable: bool = False) -> None:
        super().__init__(root, index_enable=index_enable)
        self.context.locks = QueueLocks(lambda: self.now_s)

    def ask(
        self,
        handler: Handler,
        ext: Mapping[str, object] | None = None,
        body: object = None,
        peer: Peer | None = None,
    ) -> Command:
        """Let a handler answer; header fields and body are written as a client writes them."""
        fields = None if ext is None else {name: str(value) for name, value in ext.items()}
        raw = body if isinstance(body, bytes) else b"" if body is None else write(body)
        request = Command(0, fields, raw, opaque=7, language=0, version=479)
        answer = handler(self.context, peer or Peer(), request)
        assert isinstance(answer, Command)
        assert answer.opaque == 7
        return answer

    def read(self, cls: type[T], handler: Handler, ext: Mapping[str, object], **more: Any) -> T:
        """The body of an answer without fault."""
        answer = self.ask(handler, ext, **more)
        assert answer.code == 0
        return decode_body(cls, answer.body)

    def refuse(
        self,
        handler: Handler,
        ext: Mapping[str, object] | None = None,
        body: object = None,
    ) -> tuple[int, str]:
        """The code and the reason of a refusal."""
        with pytest.raises(RequestError) as caught:
            self.ask(handler, ext, body)
        return caught.value.code, caught.value.reason


def route(routes: Mapping[RequestCode, Handler], code: int) -> Handler:
    return routes[RequestCode(code)]


def heartbeat_of(
    client_id: str,
    *consumers: Consumer,
    producers: tuple[str, ...] = (),
    fingerprint: int = 0,
    without_sub: bool = False,
) -> HeartbeatData:
    return HeartbeatData(
        client_id=client_id,
        consumer_data_set=[consumer.data() for consumer in consumers],
        heartbeat_fingerprint=fingerprint,
        producer_data_set=[ProducerData(name) for name in producers],
        without_sub=without_sub,
    )
