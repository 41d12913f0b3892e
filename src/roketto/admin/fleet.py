"""Who is asked: the brokers of a cluster or a topic, and all name servers; and what they answer.

A question to several servers goes to all of them, also when one fails. Each has its own result or
error, and no error is lost: ``Answers.checked`` raises if there is one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from roketto.admin.errors import ClusterNotFoundError, PartlyFailedError
from roketto.client.calls import Calls, expect_success
from roketto.client.errors import (
    BrokerNotFoundError,
    ClientError,
    RefusedError,
    TopicNotFoundError,
)
from roketto.client.name_servers import NameServers
from roketto.client.routes import MASTER_ID
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.route import BrokerData, ClusterInfo, TopicRouteData
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import ProtocolError, RequestError
from roketto.protocol.headers.base import Header
from roketto.protocol.headers.namesrv import GetRouteInfoRequest
from roketto.protocol.names import retry_topic

__all__ = ["Answers", "Broker", "Fleet", "ask_all", "brokers_of", "nearest"]

TIMEOUT_MS: Final = 5_000
"""What mqadmin gives one request."""
_ASKED_AT_ONCE: Final = 16

T = TypeVar("T")
R = TypeVar("R")
B = TypeVar("B")


@dataclass(frozen=True, slots=True, order=True)
class Broker:
    """One server of a cluster; those with the same name hold the same messages."""

    cluster: str
    name: str
    id: int
    """0 is the master."""
    address: str
    """Empty: nobody with this id is registered."""

    def __str__(self) -> str:
        if not self.name:
            return self.address
        role = "master" if self.id == MASTER_ID else f"slave {self.id}"
        return f"{self.name} ({role}) at {self.address or 'no address'}"


def brokers_of(data: BrokerData) -> list[Broker]:
    """The members of one broker name; a master that is missing has no address."""
    addresses = {MASTER_ID: "", **data.broker_addrs}
    return [
        Broker(data.cluster, data.broker_name, broker_id, address)
        for broker_id, address in sorted(addresses.items())
    ]


def nearest(data: BrokerData) -> Broker:
    """Who is asked for what every member knows: the master, or else the first slave."""
    members = brokers_of(data)
    return next((member for member in members if member.address), members[0])


K = TypeVar("K", Broker, str)


@dataclass(frozen=True, slots=True)
class Answers(Generic[K, T]):
    """What several servers have answered."""

    what: str
    """What they were asked for, in words."""
    results: dict[K, T]
    failures: dict[K, ClientError]

    def checked(self, value: R) -> R:
        """``value``, which was made of the results; with a failure, PartlyFailedError around it."""
        if self.failures:
            count = len(self.results) + len(self.failures)
            failures: dict[Broker | str, ClientError] = dict(self.failures.items())
            raise PartlyFailedError(self.what, failures, count, value)
        return value


class Fleet:
    """The servers of all clusters that the name servers know.

    fleet = Fleet(client.calls, client.names)
    answers = await fleet.ask_each("count", await fleet.masters("DefaultCluster"), count)
    return answers.checked(sum(answers.results.values()))

    Wherever a call takes ``cluster`` and ``broker``, it is for the masters of the cluster, or for
    one broker by its name or address. Where there is one cluster only, neither has to be given.
    """

    def __init__(self, calls: Calls, names: NameServers, timeout_ms: int = TIMEOUT_MS) -> None:
        self.calls = calls
        self.timeout_ms = timeout_ms
        self.long_timeout_ms = 3 * timeout_ms
        """For what a broker has to look at many files for."""
        self._names = names

    # --- who is there -----------------------------------------------------------------------------

    async def info(self) -> ClusterInfo:
        """All clusters and brokers, as a name server knows them."""
        answer = await self.ask_names(RequestCode.GET_BROKER_CLUSTER_INFO)
        return decode_body(ClusterInfo, answer.body)

    async def members(self, cluster: str | None = None, broker: str | None = None) -> list[Broker]:
        """Masters and slaves; of all clusters if nothing is said."""
        info = await self.info()
        everyone = [
            member for data in info.broker_addr_table.values() for member in brokers_of(data)
        ]
        if broker is not None:
            return _named(broker, everyone)
        if cluster is None:
            return sorted(everyone)
        names = _names_of(info, cluster)
        return sorted(member for member in everyone if member.name in names)

    async def masters(self, cluster: str | None = None, broker: str | None = None) -> list[Broker]:
        """Those who carry out what is asked; see the class for what the two words mean."""
        if cluster is not None and broker is not None:
            raise ValueError(f"cluster {cluster} and broker {broker} are given; give one of them")
        if broker is not None:
            members = await self.members(broker=broker)
            return members if ":" in broker else [m for m in members if m.id == MASTER_ID]
        members = await self.members(cluster)
        clusters = {member.cluster for member in members}
        if cluster is None and len(clusters) != 1:
            there = ", ".join(sorted(clusters)) or "none is registered"
            raise ClusterNotFoundError(f"there are several clusters or none ({there}): name one")
        return [member for member in members if member.id == MASTER_ID]

    async def at(self, address: str) -> Broker:
        """The broker at an address that came out of a message; nobody else is asked there."""
        for member in await self.members():
            if member.address == address:
                return member
        raise BrokerNotFoundError(
            f"no broker is registered at {address}: it is down, or has another address now"
        )

    async def route(self, topic: str) -> TopicRouteData:
        """The route of a topic as it is now; TopicNotFoundError if there is none."""
        request = GetRouteInfoRequest(topic=topic)
        try:
            answer = await self.ask_names(RequestCode.GET_ROUTEINFO_BY_TOPIC, request)
        except RefusedError as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            reason = f"{error.address} knows no route to it; create it, or check the name"
            raise TopicNotFoundError(topic, reason) from error
        return decode_body(TopicRouteData, answer.body)

    async def of_topic(self, topic: str) -> list[Broker]:
        """One broker of each name that has the topic."""
        return [nearest(data) for data in (await self.route(topic)).broker_datas]

    async def of_group(self, group: str, topic: str | None = None) -> list[Broker]:
        """One broker of each name that knows the group, or else that has the topic.

        A group is known where its retry topic is: the first heartbeat of a member makes it.
        """
        try:
            return await self.of_topic(retry_topic(group))
        except TopicNotFoundError as error:
            if topic is None:
                raise TopicNotFoundError(
                    error.topic, f"nobody of group {group} has ever been online; check the name"
                ) from error
            return await self.of_topic(topic)

    # --- what they answer -------------------------------------------------------------------------

    async def ask(
        self,
        address: str,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        timeout_ms: int | None = None,
    ) -> Command:
        """The successful answer of one server."""
        answer = await self.calls.ask(address, code, header, body, timeout_ms or self.timeout_ms)
        expect_success(address, answer)
        return answer

    async def ask_body(
        self,
        body_type: type[B],
        address: str,
        code: int,
        header: Header | None = None,
        timeout_ms: int | None = None,
    ) -> B:
        """The body of such an answer."""
        answer = await self.ask(address, code, header, b"", timeout_ms)
        return decode_body(body_type, answer.body)

    async def ask_names(self, code: int, header: Header | None = None) -> Command:
        """The successful answer of one name server, whichever answers."""
        answer = await self.calls.ask_names(code, header, self.timeout_ms)
        expect_success(self._names.current, answer)
        return answer

    async def ask_each(
        self, what: str, brokers: Sequence[Broker], ask: Callable[[Broker], Awaitable[T]]
    ) -> Answers[Broker, T]:
        """Ask all of them, some at a time."""

        async def work(broker: Broker) -> T:
            if not broker.address:
                raise BrokerNotFoundError(
                    f"broker {broker.name} has no master now: it is down, or has not registered"
                )
            return await ask(broker)

        return await ask_all(what, brokers, work)

    async def ask_all_names(
        self, what: str, code: int, header: Header | None = None, body: bytes = b""
    ) -> Answers[str, Command]:
        """Ask every name server: they do not tell each other."""
        return await ask_all(
            what, self._names.addresses, lambda address: self.ask(address, code, header, body)
        )


async def ask_all(
    what: str, servers: Sequence[K], work: Callable[[K], Awaitable[T]]
) -> Answers[K, T]:
    """Do something for all of them, some at a time, also when it fails for one."""
    gate = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def one(server: K) -> T | ClientError:
        async with gate:
            try:
                return await work(server)
            except ClientError as error:
                return error
            except (ProtocolError, RequestError) as error:  # of what it has answered
                return ClientError(f"its answer cannot be read: {error}")

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(server)) for server in servers]
    answers: Answers[K, T] = Answers(what, {}, {})
    for server, task in zip(servers, tasks, strict=True):
        result = task.result()
        if isinstance(result, ClientError):
            answers.failures[server] = result
        else:
            answers.results[server] = result
    return answers


def _names_of(info: ClusterInfo, cluster: str) -> Sequence[str]:
    names = info.cluster_addr_table.get(cluster)
    if names is None:
        there: Mapping[str, list[str]] = info.cluster_addr_table
        raise ClusterNotFoundError(
            f"cluster {cluster} is not there, but {', '.join(sorted(there)) or 'none'}; check the"
            " name and the name servers"
        )
    return names


def _named(broker: str, everyone: Sequence[Broker]) -> list[Broker]:
    """The broker with an address, known or not, or those with a name."""
    if ":" in broker:
        found = [member for member in everyone if member.address == broker]
        return found or [Broker("", "", MASTER_ID, broker)]
    found = sorted(member for member in everyone if member.name == broker)
    if not found:
        there = ", ".join(sorted({member.name for member in everyone}))
        raise ClusterNotFoundError(f"broker {broker} is not there, but {there or 'none'}")
    return found
