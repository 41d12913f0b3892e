"""Name servers and brokers without sockets: each answers as a test says, and notes who asked."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from roketto.admin.fleet import Fleet
from roketto.client.calls import Calls
from roketto.client.name_servers import NameServers
from roketto.client.settings import ClientSettings
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import Header, encode_header
from roketto.remoting.errors import ConnectError
from roketto.remoting.pool import Pool

NAMES = "10.0.0.1:9876"
A, B = "10.0.0.2:10911", "10.0.0.3:10911"

Answer = Command | Callable[[Command], Command]


def success(body: object = None, header: Header | None = None, *, version: int = 513) -> Command:
    """An answer with a body, a header or neither."""
    ext = None if header is None else encode_header(header)
    return Command(0, ext, b"" if body is None else encode_body(body), version=version)


def refusal(code: int = ResponseCode.SYSTEM_ERROR, remark: str = "no") -> Command:
    return Command(code, remark=remark)


class FakeServers:
    """What the transport is to ``Calls``; servers that nothing is said of cannot be reached.

    servers = FakeServers(T=[("a", A), ("b", B)])        # the topic T is on two brokers
    servers.on(A, RequestCode.GET_CONSUME_STATS, success(stats))
    """

    def __init__(self, names: str = NAMES, **topics: list[tuple[str, str]]) -> None:
        self.asked: list[tuple[str, int, Mapping[str, str]]] = []
        self._answers: dict[tuple[str, int], Answer] = {}
        self._topics = topics
        pool = cast("Pool", self)
        name_servers = NameServers(pool, names)
        self.fleet = Fleet(Calls(pool, name_servers, ClientSettings()), name_servers)
        for address in name_servers.addresses:
            self.on(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, self._route)
            self.on(address, RequestCode.GET_BROKER_CLUSTER_INFO, success(self._info()))

    def on(self, address: str, code: int, answer: Answer) -> None:
        """Let a server answer requests with a code."""
        self._answers[address, code] = answer

    def codes(self, address: str) -> list[int]:
        """What a server was asked, in order."""
        return [code for asked, code, _ in self.asked if asked == address]

    def fields(self, address: str, code: int) -> Mapping[str, str]:
        """The fields of the last request with a code that a server has got."""
        return [ext for *asked, ext in self.asked if asked == [address, code]][-1]

    async def request(self, address: str, command: Command, timeout_ms: int) -> Command:
        self.asked.append((address, command.code, dict(command.ext or {})))
        answer = self._answers.get((address, command.code))
        if answer is None:
            raise ConnectError(address, "refused")
        return answer(command) if callable(answer) else answer

    def _route(self, request: Command) -> Command:
        brokers = self._topics.get((request.ext or {})["topic"].replace("%", "_"))
        if brokers is None:
            return refusal(ResponseCode.TOPIC_NOT_EXIST)
        return success(
            TopicRouteData(
                broker_datas=[_data(name, address) for name, address in brokers],
                queue_datas=[
                    QueueData(broker_name=name, perm=6, read_queue_nums=1, write_queue_nums=1)
                    for name, _ in brokers
                ],
            )
        )

    def _info(self) -> ClusterInfo:
        brokers = {name: address for pairs in self._topics.values() for name, address in pairs}
        return ClusterInfo(
            broker_addr_table={name: _data(name, address) for name, address in brokers.items()},
            cluster_addr_table={"c": list(brokers)},
        )


def _data(name: str, address: str) -> BrokerData:
    """One broker; with an address that begins with a minus it has a slave only."""
    addresses: dict[int, Any] = {1: address[1:]} if address.startswith("-") else {0: address}
    return BrokerData(broker_addrs=addresses, broker_name=name, cluster="c")
