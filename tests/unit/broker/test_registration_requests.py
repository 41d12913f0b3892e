"""Requests to name servers say what Java's say, and every part of a table is taken."""

from pathlib import Path

import pytest

from roketto.broker import registration_requests
from roketto.broker.config import BrokerConfig
from roketto.broker.registration_requests import RegistrationRequests
from roketto.namesrv.config import NamesrvConfig
from roketto.namesrv.routes import Registration, RouteTable
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.registration import RegisterBrokerBody, decode_registration
from roketto.protocol.bodies.topics import DataVersion, TopicConfig
from roketto.protocol.command import Command
from roketto.protocol.crc import masked_crc32
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.namesrv import RegisterBrokerRequest
from unit.broker.topic_source import MemoryTopics

ADDRESS = "10.0.0.1:10911"


def config_of(folder: Path) -> BrokerConfig:
    return BrokerConfig(
        broker_name="a",
        broker_cluster_name="C",
        broker_ip1="10.0.0.1",
        broker_ip2="10.0.0.2",
        namesrv_addr="",
        store_path_root_dir=folder,
    )


def requests_of(folder: Path, topics: MemoryTopics) -> RegistrationRequests:
    return RegistrationRequests(config_of(folder), topics, ADDRESS)


def header_of(command: Command) -> RegisterBrokerRequest:
    return decode_header(RegisterBrokerRequest, command.ext)


def body_of(command: Command) -> RegisterBrokerBody:
    header = header_of(command)
    return decode_registration(command.body, version=command.version, compressed=header.compressed)


def topics_of(command: Command) -> dict[str, TopicConfig]:
    return body_of(command).topic_config_serialize_wrapper.topic_config_table


def version_of(command: Command) -> DataVersion:
    return body_of(command).topic_config_serialize_wrapper.data_version


def register(routes: RouteTable, commands: list[Command]) -> None:
    for command in commands:
        routes.register(Registration(header_of(command), body_of(command), "connection", 0))


def write_queues(routes: RouteTable, topic: str) -> int:
    route = routes.pick_route(topic)
    assert route is not None
    return route.queue_datas[0].write_queue_nums


def test_the_header_is_that_of_a_java_broker(tmp_path: Path) -> None:
    (command,) = requests_of(tmp_path, MemoryTopics("A", "B")).whole()
    assert command.code == 103
    assert command.ext == {
        "brokerName": "a",
        "brokerAddr": ADDRESS,
        "clusterName": "C",
        "haServerAddr": "10.0.0.2:10912",
        "brokerId": "0",
        "enableActingMaster": "false",
        "compressed": "false",
        "bodyCrc32": str(masked_crc32(command.body)),
    }


def test_all_topics_come_with_their_version(tmp_path: Path) -> None:
    topics = MemoryTopics("A", "B")
    (command,) = requests_of(tmp_path, topics).whole()
    assert topics_of(command) == topics.topics
    assert version_of(command) == topics.data_version


def test_a_compressed_body_is_announced_as_such(tmp_path: Path) -> None:
    requests = requests_of(tmp_path, MemoryTopics("A", "B"))
    (whole,) = requests.whole(is_compressed=True)
    (changed,) = requests.changed(["B"], is_compressed=True)
    for command, topics in ((whole, ["A", "B"]), (changed, ["B"])):
        assert header_of(command).compressed
        assert bytes(command.body[:2]) == b"\x78\xda"
        assert sorted(topics_of(command)) == topics


def test_the_broker_permission_limits_that_of_every_topic(tmp_path: Path) -> None:
    config, topics = config_of(tmp_path), MemoryTopics("A", "B")
    requests = RegistrationRequests(config, topics, ADDRESS)
    assert {topic.perm for topic in topics_of(requests.whole()[0]).values()} == {6}
    config.broker_permission = 4
    assert {topic.perm for topic in topics_of(requests.whole()[0]).values()} == {4}
    assert topics_of(requests.changed(["A"])[0])["A"].perm == 4
    assert {topic.perm for topic in topics.topics.values()} == {6}


def test_an_unchanged_table_is_written_once(tmp_path: Path) -> None:
    topics = MemoryTopics("A", "B")
    requests = requests_of(tmp_path, topics)
    first, again = requests.whole()[0], requests.whole()[0]
    assert first is not again
    assert first.body is again.body
    topics.put(TopicConfig(topic_name="C"))
    assert sorted(topics_of(requests.whole()[0])) == ["A", "B", "C"]


def test_a_change_is_told_with_the_new_version(tmp_path: Path) -> None:
    topics = MemoryTopics("A", "B")
    requests = requests_of(tmp_path, topics)
    topics.put(TopicConfig(topic_name="C"))
    (command,) = requests.changed(["C"])
    assert sorted(topics_of(command)) == ["C"]
    assert version_of(command).counter == 2


@pytest.mark.parametrize("names", [["A", "gone"], [], ["A"] * 4])
def test_changes_that_cannot_be_told_alone_tell_everything(
    tmp_path: Path, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration_requests, "PART_TOPICS_MAX", 3)
    (command,) = requests_of(tmp_path, MemoryTopics("A", "B")).changed(names)
    assert sorted(topics_of(command)) == ["A", "B"]


def test_a_broker_with_a_single_topic_is_taken(tmp_path: Path) -> None:
    routes = RouteTable(NamesrvConfig())
    register(routes, requests_of(tmp_path, MemoryTopics("Only")).whole())
    assert write_queues(routes, "Only") == 16


def test_a_broker_without_topics_makes_itself_known(tmp_path: Path) -> None:
    (command,) = requests_of(tmp_path, MemoryTopics()).whole()
    assert topics_of(command) == {}


def test_every_part_of_a_large_table_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration_requests, "PART_TOPICS_MAX", 2)
    topics = MemoryTopics("A", "B", "C", "D", "E")
    requests, routes = requests_of(tmp_path, topics), RouteTable(NamesrvConfig())
    register(routes, requests.whole())
    for name in topics.topics:
        topics.put(TopicConfig(topic_name=name, write_queue_nums=3))
    commands = requests.whole()
    assert [sorted(topics_of(command)) for command in commands] == [["A", "B"], ["C", "D"], ["E"]]
    assert version_of(commands[-1]) == topics.data_version
    register(routes, commands)
    assert {write_queues(routes, name) for name in topics.topics} == {3}


def test_a_repeated_table_undoes_nothing_at_the_name_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration_requests, "PART_TOPICS_MAX", 2)
    requests = requests_of(tmp_path, MemoryTopics("A", "B", "C"))
    routes = RouteTable(NamesrvConfig())
    register(routes, requests.whole())
    routes.topics.clear_write("a")
    register(routes, requests.whole(is_repeated=True))
    route = routes.pick_route("A")
    assert route is not None
    assert route.queue_datas[0].perm == 4


def test_the_question_carries_our_version(tmp_path: Path) -> None:
    topics = MemoryTopics("A", "B")
    requests = requests_of(tmp_path, topics)
    command = requests.question()
    assert command.code == 322
    assert command.ext == {
        "brokerName": "a", "brokerAddr": ADDRESS, "clusterName": "C", "brokerId": "0",
    }  # fmt: skip
    assert decode_body(DataVersion, command.body) == topics.data_version
    assert requests.is_current(DataVersion(counter=1, timestamp=1_000))
    assert not requests.is_current(DataVersion(counter=2, timestamp=1_000))


def test_the_farewell_names_the_broker(tmp_path: Path) -> None:
    command = requests_of(tmp_path, MemoryTopics()).farewell()
    assert (command.code, command.body) == (104, b"")
    assert command.ext == {
        "brokerName": "a", "brokerAddr": ADDRESS, "clusterName": "C", "brokerId": "0",
    }  # fmt: skip
