"""Which queues of a topic each member of a group gets; pure, and the same as in Java's clients.

Every member computes the shares of all from the same two lists and takes its own. That only works
if all of them compute alike, whatever they are written in.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Protocol

from roketto.protocol.bodies.route import MessageQueue

__all__ = [
    "Averagely", "AveragelyByCircle", "ConsistentHash", "Fixed", "MachineRoom", "MachineRoomNearby",
    "Strategy", "sorted_ids", "sorted_queues",
]  # fmt: skip

VIRTUAL_NODES: Final = 10
"""Points of each member on the ring of ConsistentHash; all members need the same number."""


class Strategy(Protocol):
    """A way to share queues; a member that is not among the ids gets none."""

    @property
    def name(self) -> str:
        """What Java calls it, and brokers that share queues themselves."""

    def allocate(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
    ) -> list[MessageQueue]:
        """The share of ``client_id``; both lists are sorted, and the same for all members."""


class Averagely:
    """Neighbouring queues for each, the first members one more if it does not come out even."""

    name: Final = "AVG"

    def allocate(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
    ) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        index = client_ids.index(client_id)
        share, more = divmod(len(queues), len(client_ids))
        begin = index * share + min(index, more)
        return list(queues[begin : begin + share + (index < more)])


class AveragelyByCircle:
    """One queue for each in turn, until all are given."""

    name: Final = "AVG_BY_CIRCLE"

    def allocate(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
    ) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        return list(queues[client_ids.index(client_id) :: len(client_ids)])


class Fixed:
    """The queues it was made with, whoever else is there."""

    name: Final = "CONFIG"

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        self._queues = list(queues)

    def allocate(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
    ) -> list[MessageQueue]:
        return list(self._queues)


class MachineRoom:
    """Only queues of brokers in certain rooms: those whose name is ``room@name``."""

    name: Final = "MACHINE_ROOM"

    def __init__(self, rooms: Collection[str]) -> None:
        self._rooms = frozenset(rooms)

    def allocate(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
    ) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        near = [queue for queue in queues if _room_of(queue.broker_name) in self._rooms]
        index = client_ids.index(client_id)
        share, more = divmod(len(near), len(client_ids))
        found = near[index * share : (index + 1) * share]
        if index < more:
            found.append(near[len(client_ids) * share + index])
        return found


class MachineRoomNearby:
    """Queues for the members in the room of their broker, or for all if there is none.

    ``inner`` shares the queues of each room. ``room_of_queue`` and ``room_of_client`` tell where a
    broker and a member are.
    """

    def __init__(
        self,
        inner: Strategy,
        room_of_queue: Callable[[MessageQueue], str],
        room_of_client: Callable[[str], str],
    ) -> None:
        self._inner = inner
        self._room_of_queue = room_of_queue
        self._room_of_client = room_of_client

    @property
    def name(self) -> str:
        return f"MACHINE_ROOM_NEARBY-{self._inner.name}"

    def allocate(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
    ) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        queues_of: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_of.setdefault(_known(self._room_of_queue(queue), queue), []).append(queue)
        members_of: dict[str, list[str]] = {}
        for member in client_ids:
            members_of.setdefault(_known(self._room_of_client(member), member), []).append(member)
        mine = self._room_of_client(client_id)
        found: list[MessageQueue] = []
        if near := queues_of.pop(mine, None):
            found += self._inner.allocate(group, client_id, near, members_of[mine])
        for room in sorted(queues_of, key=_java_order):
            if room not in members_of:
                found += self._inner.allocate(group, client_id, queues_of[room], client_ids)
        return found


class ConsistentHash:
    """A place on a ring for each: when a member comes or goes, few queues move."""

    name: Final = "CONSISTENT_HASH"

    def __init__(self, virtual_nodes: int = VIRTUAL_NODES) -> None:
        if virtual_nodes < 0:
            raise ValueError(f"virtual_nodes is {virtual_nodes}; it takes 0 or more")
        self._virtual_nodes = virtual_nodes

    def allocate(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
    ) -> list[MessageQueue]:
        if client_id not in client_ids or not self._virtual_nodes:
            return []
        ring = self._ring(client_ids)
        places = sorted(ring)
        found: list[MessageQueue] = []
        for queue in queues:
            at = bisect_left(places, _hash(_java_text(queue)))
            if ring[places[at % len(places)]] == client_id:
                found.append(queue)
        return found

    def _ring(self, client_ids: Sequence[str]) -> dict[int, str]:
        ring: dict[int, str] = {}
        for member in dict.fromkeys(client_ids):
            for number in range(self._virtual_nodes * client_ids.count(member)):
                ring[_hash(f"{member}-{number}")] = member
        return ring


def sorted_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Queues in the order in which all members share them."""
    return sorted(
        queues,
        key=lambda queue: (
            _java_order(queue.topic), _java_order(queue.broker_name), queue.queue_id
        ),
    )  # fmt: skip


def sorted_ids(client_ids: Iterable[str]) -> list[str]:
    """Members in that order."""
    return sorted(client_ids, key=_java_order)


def _java_order(text: str) -> bytes:
    """Java compares units of UTF-16, which differs from Python beyond U+FFFF."""
    return text.encode("utf-16-be", "surrogatepass")


def _room_of(broker_name: str) -> str | None:
    """The room of ``room@name``; empty parts at the end do not count, as in Java's split."""
    parts = broker_name.rstrip("@").split("@")
    return parts[0] if len(parts) == 2 else None


def _known(room: str, of: MessageQueue | str) -> str:
    if not room:
        raise ValueError(
            f"no room is known of {of}; the functions of MachineRoomNearby must name one"
        )
    return room


def _java_text(queue: MessageQueue) -> str:
    where = f"topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}"
    return f"MessageQueue [{where}]"


def _hash(text: str) -> int:
    digest = hashlib.md5(text.encode("utf-8", "replace"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4])
