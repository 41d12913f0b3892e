"""What operators and clients ask of a broker with many topics and groups, against Java's."""

import statistics
import time
from collections.abc import Callable
from typing import Final

from broker_requests import ASYNC
from broker_rig import QUEUES, Rig
from broker_servers import JAVA, ROKETTO, BrokerFailedError, Server
from interop.peer.remote import Remote
from report import Report
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList
from roketto.protocol.bodies.heartbeat import (
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    SubscriptionData,
)
from roketto.protocol.bodies.topics import CreateTopicListRequestBody, TopicConfig
from roketto.protocol.codes import RequestCode as Code

ANSWER_MS_MOST: Final = 100.0

_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.001


class Asker:
    """Asks one broker with ``count`` topics of eight queues and as many groups."""

    def __init__(self, server: Server, count: int) -> None:
        self._remote = Remote(server.address, _TIMEOUT_S)
        self._names = Remote(server.name_server, _TIMEOUT_S)
        self._topics = [f"BenchAdmin{number}" for number in range(count)]
        self._groups = [f"benchAdmin{number}" for number in range(count)]
        self._made = 0

    def make(self) -> None:
        """All topics, all groups, and a first heartbeat, which makes their retry topics."""
        topics = [
            TopicConfig(topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
            for name in self._topics
        ]
        self._ask(
            Code.UPDATE_AND_CREATE_TOPIC_LIST, encode_body(CreateTopicListRequestBody(topics))
        )
        groups = [SubscriptionGroupConfig(group_name=name) for name in self._groups]
        self._ask(
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
            encode_body(SubscriptionGroupList(groups)),
        )
        self.beat()
        for group, topic in zip(self._groups, self._topics, strict=True):
            self._ask(
                Code.UPDATE_CONSUMER_OFFSET,
                consumerGroup=group, topic=topic, queueId="0", commitOffset="0",
            )  # fmt: skip

    def beat(self) -> None:
        consumers = [
            ConsumerData(
                consume_type=ConsumeType.CONSUME_PASSIVELY,
                group_name=group,
                message_model=MessageModel.CLUSTERING,
                subscription_data_set=[SubscriptionData(topic=topic, sub_string="*")],
            )
            for group, topic in zip(self._groups, self._topics, strict=True)
        ]
        said = HeartbeatData(client_id="bench", consumer_data_set=consumers)
        self._ask(Code.HEART_BEAT, encode_body(said))

    def register(self) -> None:
        """Make one more topic, and return when its name server has its route."""
        self._made += 1
        topic = f"BenchAdminNew{self._made}"
        self._ask(
            Code.UPDATE_AND_CREATE_TOPIC,
            topic=topic, defaultTopic="TBW102", readQueueNums="8", writeQueueNums="8", perm="6",
            topicFilterType="SINGLE_TAG", topicSysFlag="0", order="false",
        )  # fmt: skip
        deadline_s = time.monotonic() + _TIMEOUT_S
        while self._names.ask(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}).code:
            assert time.monotonic() < deadline_s, f"{topic} has no route after {_TIMEOUT_S:.0f} s"
            time.sleep(_POLL_S)

    def requests(self) -> dict[str, Callable[[], None]]:
        """What is measured, by name."""
        topic, group = self._topics[-1], self._groups[-1]
        return {
            "a new topic is in its route": self.register,
            "heartbeat of all groups": self.beat,
            "all topics (21)": lambda: self._ask(Code.GET_ALL_TOPIC_CONFIG),
            "all groups (201)": lambda: self._ask(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
            "one topic (202)": lambda: self._ask(Code.GET_TOPIC_STATS_INFO, topic=topic),
            "who consumes (300)": lambda: self._ask(Code.QUERY_TOPIC_CONSUME_BY_WHO, topic=topic),
            "progress of a group (208)": lambda: self._ask(
                Code.GET_CONSUME_STATS, consumerGroup=group, topic=topic
            ),
            "progress of all groups (317)": lambda: self._ask(
                Code.GET_BROKER_CONSUME_STATS, isOrder="false"
            ),
            "runtime (28)": lambda: self._ask(Code.GET_BROKER_RUNTIME_INFO),
        }

    def close(self) -> None:
        self._remote.__exit__(None, None, None)
        self._names.__exit__(None, None, None)

    def _ask(self, code: Code, body: bytes = b"", **fields: str) -> None:
        answer = self._remote.ask(code, fields, body)
        if answer.code:
            raise BrokerFailedError(f"{code.name} is refused with code {answer.code}")


def measure_admin(report: Report, rig: Rig) -> None:
    """Both brokers one after the other, each with the other one standing still."""
    pair, sizes = rig.pair(ASYNC), rig.sizes
    title = f"{sizes.admin_topics:,} topics of {QUEUES} queues, as many groups: median, longest"
    report.begin("admin", title)
    for name, server in ((JAVA, pair.java), (ROKETTO, pair.ours)):
        most = ANSWER_MS_MOST if name == ROKETTO else None
        asker = Asker(server, sizes.admin_topics)
        try:
            with pair.alone(server):
                asker.make()
                for what, ask in asker.requests().items():
                    taken_ms = [_milliseconds(ask) for _ in range(sizes.admin_times)]
                    report.add(f"{name}: {what}", statistics.median(taken_ms), "ms", most=most)
                    report.add(f"{name}: {what}, longest", max(taken_ms), "ms")
        finally:
            asker.close()


def _milliseconds(ask: Callable[[], None]) -> float:
    started_s = time.perf_counter()
    ask()
    return (time.perf_counter() - started_s) * 1000
