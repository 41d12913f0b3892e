"""A client whose servers are a function: what is sent can be looked at, and answered at will."""

from collections.abc import Callable

from roketto.client.client import Client
from roketto.client.settings import ClientSettings
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.remoting.errors import ConnectError
from roketto.remoting.pool import Pool

TOPIC = "Orders"
GROUP = "orders"
MASTER = "10.0.0.1:10911"
SLAVE = "10.0.0.2:10911"

Answer = Callable[[str, Command], Command]


class ScriptedPool(Pool):
    """Asks a function instead of the network."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self._answer = answer
        self.sent: list[tuple[str, Command]] = []

    async def request(self, address: str, command: Command, timeout_ms: int) -> Command:
        self.sent.append((address, command))
        return self._answer(address, command)


class Rig:
    """One unstarted client, with the routes that ``routes`` has and a script for brokers."""

    def __init__(self, answer: Answer, namespace: str = "") -> None:
        self.routes = {TOPIC: route_data({"broker-a": {0: MASTER, 1: SLAVE}})}
        self._brokers = answer
        settings = ClientSettings(client_ip="10.1.1.1", name_servers="names", namespace=namespace)
        self.client = Client(settings)
        self.pool = ScriptedPool(self._route_or_broker)
        self.client.calls.pool = self.pool
        self.client.names._pool = self.pool

    def _route_or_broker(self, address: str, command: Command) -> Command:
        if command.code != RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return self._brokers(address, command)
        route = self.routes.get((command.ext or {})["topic"])
        if route is None:
            return command.answer(ResponseCode.TOPIC_NOT_EXIST)
        return command.answer(body=encode_body(route))

    def sent(self, code: int) -> list[tuple[str, dict[str, str]]]:
        """The requests of a kind: address and fields."""
        return [
            (address, dict(command.ext or {}))
            for address, command in self.pool.sent
            if command.code == code
        ]


def route_data(
    brokers: dict[str, dict[int, str]], queues: int = 4, perm: int = 6
) -> TopicRouteData:
    """A topic with so many queues on each of the brokers."""
    return TopicRouteData(
        broker_datas=[
            BrokerData(broker_addrs=addresses, broker_name=name, cluster="c")
            for name, addresses in brokers.items()
        ],
        queue_datas=[
            QueueData(broker_name=name, perm=perm, read_queue_nums=queues, write_queue_nums=queues)
            for name in brokers
        ],
    )


def unreachable(address: str) -> ConnectError:
    return ConnectError(address, "connection refused")
