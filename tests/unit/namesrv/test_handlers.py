"""Every request of a name server is answered as by Java's, for handlers without sockets."""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from roketto.namesrv import handlers as handlers_module
from roketto.namesrv.config import NamesrvConfig
from roketto.namesrv.handlers import HANDLERS, SIMPLE_HANDLERS, Handlers
from roketto.namesrv.kvconfig import KvConfig
from roketto.namesrv.routes import Notice
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.registration import encode_registration
from roketto.protocol.bodies.route import QueueData, TopicList, TopicRouteData
from roketto.protocol.bodies.topics import DataVersion
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.errors import BodyError, HeaderFieldError, RequestError
from roketto.protocol.headers.base import encode_header
from roketto.protocol.properties_text import parse_properties
from roketto.remoting.connection import Connection
from unit.namesrv.brokers import Broker

HELP = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


class FakeConnection:
    """What handlers use of a connection."""

    def __init__(self) -> None:
        self.peer = "10.0.0.7:1234"
        self.callbacks: list[Callable[[Any], None]] = []
        self.closed_for: str | None = None

    def add_close_callback(self, callback: Callable[[Any], None]) -> None:
        self.callbacks.append(callback)

    def close(self, reason: str) -> None:
        self.closed_for = reason

    def lose(self) -> None:
        for callback in self.callbacks:
            callback(self)


class Names:
    """Handlers with a clock that only the test moves."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms = 0
        monkeypatch.setattr(handlers_module, "now_ms", lambda: self.now_ms)
        self.config = NamesrvConfig(
            kv_config_path=tmp_path / "kv.json", config_store_path=tmp_path / "ns.properties"
        )
        self.notices: list[Notice] = []
        self.connection = FakeConnection()
        kv = KvConfig(self.config.kv_config_path)
        self.handlers = Handlers(self.config, kv, {"listenPort": "1"}, self.notices.extend)

    async def ask(
        self,
        code: int,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        version: int = 513,
        connection: FakeConnection | None = None,
    ) -> Command:
        peer = cast("Connection", connection or self.connection)
        reply = self.handlers.handle(peer, Command(code, ext, body, version=version))
        assert reply is not None
        answer = reply if isinstance(reply, Command) else await reply
        assert answer is not None
        return answer

    async def topics(self, code: int, ext: dict[str, str] | None = None) -> list[str]:
        return decode_body(TopicList, bytes((await self.ask(code, ext)).body)).topic_list

    async def register(self, broker: Broker | None = None, **said: Any) -> Command:
        registration = (broker or Broker()).said(**said)
        body = encode_registration(registration.body)
        ext = encode_header(registration.header) | {"bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF)}
        return await self.ask(103, ext, body)

    async def route(self, topic: str, *, version: int = 513, **ext: str) -> bytes:
        return bytes((await self.ask(105, {"topic": topic} | ext, version=version)).body)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(tmp_path, monkeypatch)


def test_every_code_has_one_handler_and_a_permission() -> None:
    assert HANDLERS.keys().isdisjoint(SIMPLE_HANDLERS)
    served = {RequestCode(code) for code in (*HANDLERS, *SIMPLE_HANDLERS)}
    assert served == {
        100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318,
        319, 322, 327, 901, 904,
    }  # fmt: skip
    assert all(code.permission for code in served)


async def test_unknown_code_is_not_supported(names: Names) -> None:
    with pytest.raises(RequestError) as caught:
        await names.ask(999)
    assert (caught.value.code, caught.value.reason) == (3, " request type 999 not supported")


# --- routes ---------------------------------------------------------------------------------------


async def test_unknown_topic_is_answered_with_17_and_help(names: Names) -> None:
    with pytest.raises(RequestError) as caught:
        await names.route("T1")
    assert caught.value.code == 17
    assert caught.value.reason == f"No topic route info in name server for the topic: T1{HELP}"


async def test_route_without_a_topic_is_refused(names: Names) -> None:
    with pytest.raises(HeaderFieldError, match="lacks topic"):
        await names.ask(105)


STANDARD = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911"},"brokerName":"a","cluster":"C",'
    b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"a","perm":6,'
    b'"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
)


async def test_route_is_standard_json_for_clients_since_4_9_4(names: Names) -> None:
    await names.register()
    assert await names.route("T1", version=401) == STANDARD
    assert await names.route("T1", version=0, acceptStandardJsonOnly="true") == STANDARD


async def test_route_has_bare_keys_for_older_clients(names: Names) -> None:
    await names.register()
    assert await names.route("T1", version=400) == STANDARD.replace(b'"0":', b"0:")


async def test_route_answer_is_encoded_once_and_again_after_a_change(names: Names) -> None:
    await names.register()
    first = (await names.ask(105, {"topic": "T1"})).body
    assert (await names.ask(105, {"topic": "T1"})).body is first
    await names.register()
    assert (await names.ask(105, {"topic": "T1"})).body is first
    await names.register(Broker(address="10.0.0.2:10911", broker_id=1))
    assert b"10.0.0.2" in await names.route("T1")


async def test_wiped_permission_is_seen_at_once(names: Names) -> None:
    await names.register()
    assert b'"perm":6' in await names.route("T1")
    await names.ask(205, {"brokerName": "a"})
    assert b'"perm":4' in await names.route("T1")


@pytest.mark.parametrize("code", [104, 216])
async def test_lost_topic_is_seen_at_once(names: Names, code: int) -> None:
    await names.register()
    assert await names.route("T1") == STANDARD
    await names.ask(code, BROKER | {"topic": "T1"})
    with pytest.raises(RequestError) as caught:
        await names.route("T1")
    assert caught.value.code == 17


async def test_young_name_server_can_be_told_to_wait(names: Names) -> None:
    await names.register()
    names.config.need_wait_for_service = True
    names.now_ms = 44_999
    with pytest.raises(RequestError, match="name server not ready"):
        await names.route("T1")
    names.now_ms = 45_000
    assert await names.route("T1") == STANDARD


async def test_order_configuration_is_shown_where_enabled(names: Names) -> None:
    await names.register()
    kv = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T1"}
    await names.ask(100, kv | {"value": "a:4"})
    assert b"orderTopicConf" not in await names.route("T1")
    await names.ask(318, body=b"orderMessageEnable=true")
    assert b'"orderTopicConf":"a:4"' in await names.route("T1")
    await names.ask(100, kv | {"value": "a:8"})
    assert b'"orderTopicConf":"a:8"' in await names.route("T1")
    await names.ask(102, kv)
    assert b"orderTopicConf" not in await names.route("T1")


async def test_zone_filter_keeps_the_zone_and_masterless_brokers(names: Names) -> None:
    await names.register(Broker("a", "10.0.0.1:1", zone="Z1"), filters=("f1",))
    await names.register(Broker("b", "10.0.0.2:1", zone="Z2"), filters=("f2",))
    await names.register(Broker("c", "10.0.0.3:1", zone="Z2", broker_id=1, acting_master=False))
    body = await names.route("T1", __ZONE_MODE="True", __ZONE_NAME="z1")
    assert b'{0:"10.0.0.1:1"}' in body, "the old form, whatever the client's version"
    route = decode_body(TopicRouteData, body)
    assert [b.broker_name for b in route.broker_datas] == ["a", "c"]
    assert [q.broker_name for q in route.queue_datas] == ["a", "c"]
    assert route.filter_server_table == {"10.0.0.1:1": ["f1"]}


@pytest.mark.parametrize(("mode", "zone"), [("false", "z9"), ("true", " "), ("true", "")])
async def test_zone_filter_is_off_without_mode_or_name(names: Names, mode: str, zone: str) -> None:
    await names.register()
    assert await names.route("T1", __ZONE_MODE=mode, __ZONE_NAME=zone) == STANDARD


async def test_zone_name_alone_filters_nothing(names: Names) -> None:
    await names.register()
    assert await names.route("T1", __ZONE_NAME="z9") == STANDARD


# --- brokers --------------------------------------------------------------------------------------


async def test_registration_with_a_wrong_checksum_is_refused(names: Names) -> None:
    said = Broker().said()
    ext = encode_header(said.header) | {"bodyCrc32": "5"}
    with pytest.raises(RequestError, match="crc32 not match") as caught:
        await names.ask(103, ext, encode_registration(said.body))
    assert caught.value.code == 1


@pytest.mark.parametrize("checked", [True, False])
async def test_compressed_registration_is_taken(names: Names, checked: bool) -> None:
    said = Broker().said()
    body = encode_registration(said.body, compressed=True)
    crc = zlib.crc32(body) & 0x7FFFFFFF if checked else 0
    ext = encode_header(said.header) | {"bodyCrc32": str(crc), "compressed": "true"}
    await names.ask(103, ext, body)
    assert await names.route("T1") == STANDARD


async def test_registration_without_a_body_has_no_topics(names: Names) -> None:
    await names.ask(103, encode_header(Broker().said().header))
    assert await names.topics(206) == []
    assert names.handlers.routes.data_version("C", "10.0.0.1:10911") == DataVersion()


async def test_registration_with_a_bad_body_changes_nothing(names: Names) -> None:
    with pytest.raises(BodyError):
        await names.ask(103, encode_header(Broker().said().header), b"{{{")
    assert await names.topics(304) == []


async def test_slave_is_answered_with_its_master(names: Names) -> None:
    assert (await names.register()).ext == {}
    answer = await names.register(Broker(address="10.0.0.2:10911", broker_id=1))
    assert answer.ext == {
        "masterAddr": "10.0.0.1:10911",
        "haServerAddr": "ha of 10.0.0.1:10911",
    }


async def test_registration_is_answered_with_the_order_configuration(names: Names) -> None:
    assert not (await names.register()).body
    kv = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T1"}
    await names.ask(100, kv | {"value": "a:4"})
    assert (await names.register()).body == b'{"table":{"T1":"a:4"}}'
    names.config.return_order_topic_config_to_broker = False
    assert not (await names.register()).body


async def test_lost_connection_unregisters_its_broker(names: Names) -> None:
    await names.register()
    await names.register()
    assert len(names.connection.callbacks) == 1
    names.connection.lose()
    assert await names.topics(206) == []


async def test_silent_broker_is_dropped_with_its_connection(names: Names) -> None:
    await names.register()
    names.now_ms = 120_000
    names.handlers.expire_brokers()
    assert names.connection.closed_for is None
    names.now_ms = 120_001
    names.handlers.expire_brokers()
    assert names.connection.closed_for is not None
    assert await names.topics(206) == []


BROKER = {"brokerName": "a", "brokerAddr": "10.0.0.1:10911", "clusterName": "C", "brokerId": "0"}


@pytest.mark.parametrize("code", [322, 904])
async def test_heartbeat_and_data_version_probe_keep_a_broker(names: Names, code: int) -> None:
    await names.register()
    names.now_ms = 100_000
    await names.ask(code, BROKER)
    names.now_ms = 200_000
    names.handlers.expire_brokers()
    assert await names.topics(206) == ["T1", "T2"]


async def test_data_version_probe_tells_whether_it_changed(names: Names) -> None:
    answer = await names.ask(322, BROKER, encode_body(DataVersion(1, 0, 1)))
    assert (answer.ext, bytes(answer.body)) == ({"changed": "true"}, b"")
    await names.register()
    answer = await names.ask(322, BROKER, encode_body(DataVersion(1, 0, 1)))
    assert answer.ext == {"changed": "false"}
    assert answer.body == b'{"counter":1,"stateVersion":0,"timestamp":1}'
    answer = await names.ask(322, BROKER, encode_body(DataVersion(2, 0, 1)))
    assert answer.ext == {"changed": "true"}


async def test_lost_smallest_id_sends_notices(names: Names) -> None:
    names.config.notify_min_broker_id_changed = True
    await names.register(Broker(acting_master=True))
    slave = Broker(address="10.0.0.2:10911", broker_id=1, acting_master=True)
    await names.register(slave)
    await names.ask(104, BROKER)
    assert [notice.addresses for notice in names.notices] == [["10.0.0.2:10911"]]


async def test_members_of_a_group(names: Names) -> None:
    await names.register()
    answer = await names.ask(901, {"clusterName": "X", "brokerName": "a"})
    assert answer.body == (
        b'{"brokerMemberGroup":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"a","cluster":"X"}}'
    )
    answer = await names.ask(901, {"clusterName": "X", "brokerName": "none"})
    assert b'"brokerAddrs":{}' in bytes(answer.body)


async def test_cluster_information_shows_brokers_under_bare_ids(names: Names) -> None:
    await names.register()
    assert (await names.ask(106)).body == (
        b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"a",'
        b'"cluster":"C","enableActingMaster":false}},"clusterAddrTable":{"C":["a"]}}'
    )


async def test_write_permission_is_wiped_and_added(names: Names) -> None:
    await names.register()
    assert (await names.ask(205, {"brokerName": "a"})).ext == {"wipeTopicCount": "2"}
    assert b'"perm":4' in await names.route("T1")
    assert (await names.ask(327, {"brokerName": "a"})).ext == {"addTopicCount": "2"}
    assert b'"perm":6' in await names.route("T1")
    assert (await names.ask(327, {"brokerName": "none"})).ext == {"addTopicCount": "0"}


# --- topics ---------------------------------------------------------------------------------------


async def test_topic_lists_select_by_cluster_and_flags(names: Names) -> None:
    await names.register(topics=("plain", "plain2"))
    await names.register(topics=("unit", "unit2"), flags=1, counter=2)
    await names.register(topics=("sub", "sub2"), flags=2, counter=3)
    await names.register(topics=("both", "both2"), flags=3, counter=4)
    assert len(await names.topics(206)) == len(await names.topics(224, {"cluster": "C"})) == 8
    assert await names.topics(224, {"cluster": "unknown"}) == []
    assert await names.topics(304) == ["C", "a"]
    assert await names.topics(311) == ["unit", "unit2", "both", "both2"]
    assert await names.topics(312) == ["sub", "sub2", "both", "both2"]
    assert await names.topics(313) == ["sub", "sub2"]


@pytest.mark.parametrize("code", [206, 224, 311, 312, 313])
async def test_topic_lists_can_be_disabled(names: Names, code: int) -> None:
    await names.ask(318, body=b"enableAllTopicList=false\nenableTopicList=false\n")
    with pytest.raises(RequestError, match="disable") as caught:
        await names.ask(code, {"cluster": "C"})
    assert caught.value.code == 1


async def test_topic_is_registered_and_deleted(names: Names) -> None:
    await names.register()
    route = TopicRouteData(queue_datas=[QueueData("a", 6, 1, 0, 1)])
    await names.ask(217, {"topic": "N"}, encode_body(route))
    assert b'"readQueueNums":1' in await names.route("N")
    await names.ask(217, {"topic": "M"})
    assert "M" not in await names.topics(206)
    await names.ask(216, {"topic": "N", "clusterName": "C"})
    assert "N" not in await names.topics(206)


# --- configuration --------------------------------------------------------------------------------


async def test_kv_is_put_found_and_deleted(names: Names) -> None:
    await names.ask(100, {"namespace": "n", "key": "k", "value": "v"})
    assert (await names.ask(101, {"namespace": "n", "key": "k"})).ext == {"value": "v"}
    assert (await names.ask(219, {"namespace": "n"})).body == b'{"table":{"k":"v"}}'
    await names.ask(102, {"namespace": "n", "key": "k"})
    with pytest.raises(RequestError, match="No config item, Namespace: n Key: k") as caught:
        await names.ask(101, {"namespace": "n", "key": "k"})
    assert caught.value.code == 22
    assert (await names.ask(219, {"namespace": "n"})).body == b'{"table":{}}'


async def test_unknown_namespace_is_not_found(names: Names) -> None:
    with pytest.raises(RequestError, match="No config item, Namespace: n") as caught:
        await names.ask(219, {"namespace": "n"})
    assert caught.value.code == 22


async def test_configuration_is_shown_sorted_and_without_our_own_keys(names: Names) -> None:
    shown = parse_properties(bytes((await names.ask(319)).body).decode())
    assert list(shown) == sorted(shown)
    assert len(shown) == 40
    assert not [key for key in shown if key.startswith("tls.")]


async def test_change_is_kept_in_the_file_beside_what_was_there(names: Names) -> None:
    await names.ask(318, body=b"orderMessageEnable=true\nwaitSecondsForService=7\n")
    assert names.config.order_message_enable is True
    assert read(names.config.config_store_path) == {
        "listenPort": "1",
        "orderMessageEnable": "true",
        "waitSecondsForService": "7",
    }
    await names.ask(318, body=b"waitSecondsForService=8\n")
    assert read(names.config.config_store_path)["waitSecondsForService"] == "8"
    backup = names.config.config_store_path.with_name("ns.properties.bak")
    assert read(backup)["waitSecondsForService"] == "7"


async def test_refused_change_writes_nothing(names: Names) -> None:
    with pytest.raises(RequestError) as caught:
        await names.ask(318, body=b"orderMessageEnable=true\nkvConfigPath=/tmp/x\n")
    assert caught.value.code == 16
    assert names.config.order_message_enable is False
    assert read(names.config.config_store_path) == {}


async def test_change_that_cannot_be_written_is_refused(names: Names, tmp_path: Path) -> None:
    names.config.config_store_path = tmp_path
    with pytest.raises(RequestError, match="cannot be written"):
        await names.ask(318, body=b"orderMessageEnable=true")
    assert names.config.order_message_enable is False


async def test_empty_change_succeeds(names: Names) -> None:
    assert (await names.ask(318)).code == 0


async def test_huge_change_is_refused_unread(names: Names) -> None:
    with pytest.raises(RequestError, match="65536 are taken"):
        await names.ask(318, body=b"a=b\n" * 100_000)


def read(path: Path) -> dict[str, str]:
    return parse_properties(path.read_text()) if path.exists() else {}
