"""What a broker sends to name servers, made from its configuration and its topics; pure.

A name server compares the data version of a registration with the one it has. If they differ it
takes the queues of every topic in the body; if not, only those of topics that it did not have.
So a part of the table must never be the first to come with a version: a name server that has
missed another part would believe that it is up to date. ``whole`` and ``changed`` keep to that, and
whoever sends them begins with ``whole`` again after anything that failed.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final, Protocol

from msgspec.structs import replace

from roketto.broker.config import BrokerConfig
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.registration import RegisterBrokerBody, encode_registration
from roketto.protocol.bodies.topics import (
    DataVersion,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
)
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.crc import masked_crc32
from roketto.protocol.headers.base import encode_header
from roketto.protocol.headers.namesrv import (
    QueryDataVersionRequest,
    RegisterBrokerRequest,
    UnregisterBrokerRequest,
)

__all__ = ["RegistrationRequests", "TopicSource"]

PART_TOPICS_MAX: Final = 10_000
"""Some 3 MB of JSON; a frame has 16 MiB at most, and a name server reads it in one go."""

_PERM_READ_WRITE: Final = 6


class TopicSource(Protocol):
    """The topics of a broker and their version, which changes whenever one of them does."""

    @property
    def topics(self) -> Mapping[str, TopicConfig]: ...

    @property
    def data_version(self) -> DataVersion: ...

    def put(self, topic: TopicConfig) -> None: ...


class RegistrationRequests:
    """Makes the requests of one broker. The bodies of the last whole table are kept for the next.

    ``address`` is where clients reach the broker.
    """

    def __init__(self, config: BrokerConfig, topics: TopicSource, address: str) -> None:
        self._config = config
        self._topics = topics
        self._address = address
        self._key: object = None
        self._bodies: list[bytes] = []

    @property
    def rank(self) -> tuple[int, int, int]:
        """The version of the topics as they are now."""
        return self._topics.data_version.rank

    def whole(self, *, is_repeated: bool = False, is_compressed: bool = False) -> list[Command]:
        """Registrations that have all topics together; to be sent one after the other.

        Each has a version that the one before it had not, and the last one the true one, so that
        every part is taken. ``is_repeated``: the name server has this version, and what operators
        changed there since (wipeWritePerm) is not undone by the same version.
        """
        version = self._topics.data_version
        key = (version.rank, is_repeated, is_compressed, self._config.broker_permission)
        if key != self._key:
            parts = _split(self._topics.topics.values())
            self._bodies = [
                self._body(
                    part, version if is_repeated else _earlier(version, ahead), is_compressed
                )
                for part, ahead in zip(parts, reversed(range(len(parts))), strict=True)
            ]
            self._key = key
        return [self._registration(body, is_compressed) for body in self._bodies]

    def changed(self, names: Iterable[str], *, is_compressed: bool = False) -> list[Command]:
        """A registration with these topics only, for a name server that has the others.

        It is the whole table if one of them is gone, or if there are too many.
        """
        table = self._topics.topics
        found = [table.get(name) for name in islice(names, PART_TOPICS_MAX + 1)]
        there = [topic for topic in found if topic is not None]
        if len(there) < len(found) or not 0 < len(found) <= PART_TOPICS_MAX:
            return self.whole(is_compressed=is_compressed)
        body = self._body(there, self._topics.data_version, is_compressed)
        return [self._registration(body, is_compressed)]

    def question(self) -> Command:
        """Whether the name server has another version than ours."""
        header = QueryDataVersionRequest(
            broker_name=self._config.broker_name,
            broker_addr=self._address,
            cluster_name=self._config.broker_cluster_name,
            broker_id=self._config.broker_id,
        )
        body = encode_body(self._topics.data_version)
        return Command(RequestCode.QUERY_DATA_VERSION, encode_header(header), body)

    def is_current(self, version: DataVersion) -> bool:
        """Whether a name server that has this version has ours."""
        return version == self._topics.data_version

    def farewell(self) -> Command:
        """The broker stops."""
        header = UnregisterBrokerRequest(
            broker_name=self._config.broker_name,
            broker_addr=self._address,
            cluster_name=self._config.broker_cluster_name,
            broker_id=self._config.broker_id,
        )
        return Command(RequestCode.UNREGISTER_BROKER, encode_header(header))

    def _registration(self, body: bytes, is_compressed: bool) -> Command:
        config = self._config
        header = RegisterBrokerRequest(
            broker_name=config.broker_name,
            broker_addr=self._address,
            cluster_name=config.broker_cluster_name,
            ha_server_addr=f"{config.broker_ip2}:{config.ha_listen_port}",
            broker_id=config.broker_id,
            enable_acting_master=False,
            # Java's 5.x brokers say false here whatever the body is, and are not understood then.
            compressed=is_compressed,
            body_crc32=masked_crc32(body),
        )
        return Command(RequestCode.REGISTER_BROKER, encode_header(header), body)

    def _body(
        self, topics: Iterable[TopicConfig], version: DataVersion, is_compressed: bool
    ) -> bytes:
        permission = self._config.broker_permission
        if permission & _PERM_READ_WRITE != _PERM_READ_WRITE:
            topics = [replace(topic, perm=topic.perm & permission) for topic in topics]
        wrapper = TopicConfigAndMappingSerializeWrapper(
            data_version=version, topic_config_table={topic.topic_name: topic for topic in topics}
        )
        body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)
        return encode_registration(body, compressed=is_compressed)


def _earlier(version: DataVersion, steps: int) -> DataVersion:
    return replace(version, timestamp=version.timestamp - steps)


def _split(topics: Iterable[TopicConfig]) -> list[list[TopicConfig]]:
    """Parts that fit a frame; at least one, and never a single topic in the first.

    A name server refuses a broker that is new to it and has one topic: so it takes it for one
    that it has forgotten, telling a change. An empty part before it makes the broker known.
    """
    every = list(topics)
    if len(every) == 1:
        return [[], every]
    return [
        every[begin : begin + PART_TOPICS_MAX]
        for begin in range(0, len(every) or 1, PART_TOPICS_MAX)
    ]
