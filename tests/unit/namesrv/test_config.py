"""Only fields declared changeable change at run time; every key has a type and a range."""

import dataclasses
from pathlib import Path

import pytest

from roketto.namesrv.config import FIELDS, NamesrvConfig
from roketto.options import ConfigError
from roketto.protocol.errors import RequestError
from unit.hostile import HOSTILE_VALUES

JAVA_KEYS = [
    "rocketmqHome", "kvConfigPath", "configStorePath", "productEnvName", "clusterTest",
    "orderMessageEnable", "returnOrderTopicConfigToBroker", "clientRequestThreadPoolNums",
    "defaultThreadPoolNums", "clientRequestThreadPoolQueueCapacity",
    "defaultThreadPoolQueueCapacity", "scanNotActiveBrokerInterval",
    "unRegisterBrokerQueueCapacity", "supportActingMaster", "enableAllTopicList",
    "enableTopicList", "notifyMinBrokerIdChanged", "enableControllerInNamesrv",
    "needWaitForService", "waitSecondsForService", "deleteTopicWithBrokerRegistration",
    "configBlackList", "bindAddress", "listenPort", "serverWorkerThreads",
    "serverCallbackExecutorThreads", "serverSelectorThreads", "serverOnewaySemaphoreValue",
    "serverAsyncSemaphoreValue", "serverChannelMaxIdleTimeSeconds", "serverSocketSndBufSize",
    "serverSocketRcvBufSize", "writeBufferHighWaterMark", "writeBufferLowWaterMark",
    "serverSocketBacklog", "serverNettyWorkerGroupEnable", "serverPooledByteBufAllocatorEnable",
    "enableShutdownGracefully", "shutdownWaitTimeSeconds", "useEpollNativeSelector",
]  # fmt: skip
"""What ``mqnamesrv -p`` of RocketMQ 5.5.0 prints of its server, in that order."""

CHANGEABLE_KEYS = {
    "orderMessageEnable", "returnOrderTopicConfigToBroker", "scanNotActiveBrokerInterval",
    "supportActingMaster", "enableAllTopicList", "enableTopicList", "notifyMinBrokerIdChanged",
    "needWaitForService", "waitSecondsForService", "deleteTopicWithBrokerRegistration",
}  # fmt: skip


def update(config: NamesrvConfig, properties: dict[str, str]) -> None:
    config.update(config.check_update(properties))


# --- what there is --------------------------------------------------------------------------------


def test_keys_and_their_order_are_those_of_java() -> None:
    assert [key for key, _ in NamesrvConfig().items(java_only=True)] == JAVA_KEYS


def test_defaults_are_those_of_java() -> None:
    items = dict(NamesrvConfig().items(java_only=True))
    assert items["listenPort"] == "9876"
    assert items["bindAddress"] == "0.0.0.0"
    assert items["scanNotActiveBrokerInterval"] == "5000"
    assert items["returnOrderTopicConfigToBroker"] == "true"
    assert items["configBlackList"] == "configBlackList;configStorePath;kvConfigPath"
    assert items["kvConfigPath"] == str(Path.home() / "namesrv" / "kvConfig.json")


def test_keys_of_tls_are_spelled_as_in_java() -> None:
    assert [key for key in FIELDS if key.startswith("tls.")] == [
        "tls.server.mode",
        "tls.server.certPath",
        "tls.server.keyPath",
        "tls.server.keyPassword",
        "tls.server.trustCertPath",
        "tls.server.need.client.auth",
    ]


def test_every_field_declares_itself() -> None:
    declared = {found.name for found in FIELDS.values()}
    assert declared == {field.name for field in dataclasses.fields(NamesrvConfig)} - {"given"}
    assert FIELDS.keys().isdisjoint(NamesrvConfig.keys_without_effect)


def test_changeable_keys_are_exactly_these() -> None:
    assert {key for key, found in FIELDS.items() if found.option.changeable} == CHANGEABLE_KEYS


def test_password_is_never_shown() -> None:
    config = NamesrvConfig()
    config.load({"tls.server.keyPassword": "hunter2"})
    assert config.tls_server_key_password == "hunter2"
    assert "hunter2" not in repr(config)
    assert "hunter2" not in str(dict(config.items()))


def test_printed_configuration_can_be_loaded_again() -> None:
    config = NamesrvConfig()
    config.load({"listenPort": "1234", "orderMessageEnable": "TRUE", "kvConfigPath": "/k"})
    copy = NamesrvConfig()
    copy.load(dict(config.items()))
    assert copy == config


# --- property files -------------------------------------------------------------------------------


def test_values_are_typed_and_stripped() -> None:
    config = NamesrvConfig()
    config.load({"listenPort": " 0 ", "clusterTest": "False", "kvConfigPath": "/tmp/kv "})
    assert config.listen_port == 0
    assert config.cluster_test is False
    assert config.kv_config_path == Path("/tmp/kv")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("listenPort", "listenPort is '65536'; write an integer of 0..65535"),
        ("orderMessageEnable", "orderMessageEnable is '65536'; it can only be true or false"),
        ("enableControllerInNamesrv", "enableControllerInNamesrv is '65536'; it can only be false"),
        ("tls.server.mode", "can only be disabled or permissive or enforcing"),
        ("listenPrt", "unknown key 'listenPrt'; did you mean listenPort?"),
        ("ListenPort", "unknown key 'ListenPort'; did you mean listenPort?"),
        ("zzzzzzzz", "unknown key 'zzzzzzzz'; mqnamesrv -p lists all keys"),
        ("z" * 1_000_000, "zzz...'; mqnamesrv -p lists all keys"),
    ],
)
def test_bad_key_or_value_is_one_line_that_says_what_would_do(key: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        NamesrvConfig().load({key: "65536"})
    assert text in str(caught.value)
    assert len(str(caught.value)) < 200


def test_empty_path_is_refused() -> None:
    with pytest.raises(ConfigError, match="kvConfigPath is empty"):
        NamesrvConfig().load({"kvConfigPath": " "})


def test_keys_without_effect_are_named() -> None:
    properties = {"clientRequestThreadPoolNums": "4", "listenPort": "1", "useTLS": "whatever"}
    assert NamesrvConfig().load(properties) == ["clientRequestThreadPoolNums", "useTLS"]


# --- run time -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE_VALUES)
@pytest.mark.parametrize("key", FIELDS)
def test_hostile_value_changes_nothing(key: str, text: str) -> None:
    config = NamesrvConfig()
    before = dataclasses.replace(config)
    option = FIELDS[key].option
    with pytest.raises(RequestError) as caught:
        update(config, {key: text})
    assert caught.value.code == (1 if option.changeable else 16)
    assert config == before
    assert len(caught.value.reason) < 200
    assert "\n" not in caught.value.reason


@pytest.mark.parametrize("key", sorted(set(FIELDS) - CHANGEABLE_KEYS))
def test_own_value_of_a_fixed_field_is_refused_too(key: str) -> None:
    config = NamesrvConfig()
    own = dict(config.items()).get(key, "")
    with pytest.raises(RequestError, match="may not change at run time") as caught:
        update(config, {key: own})
    assert caught.value.code == 16


@pytest.mark.parametrize("key", sorted(CHANGEABLE_KEYS))
def test_changeable_field_takes_a_good_value(key: str) -> None:
    config = NamesrvConfig()
    name, kind, _ = FIELDS[key]
    new: bool | int = not getattr(config, name) if kind is bool else getattr(config, name) + 1
    update(config, {key: str(new)})
    assert getattr(config, name) == new


def test_update_is_all_or_nothing() -> None:
    config = NamesrvConfig()
    for bad in ({"waitSecondsForService": "x"}, {"listenPort": "1"}, {"nonsense": "1"}):
        with pytest.raises(RequestError):
            update(config, {"orderMessageEnable": "true", **bad})
    assert config == NamesrvConfig()


def test_operator_may_forbid_more() -> None:
    config = NamesrvConfig()
    config.load({"configBlackList": "enableTopicList;kvConfigPath"})
    with pytest.raises(RequestError) as caught:
        update(config, {"enableTopicList": "false"})
    assert caught.value.code == 16


def test_unknown_key_is_named_with_its_neighbour() -> None:
    with pytest.raises(RequestError, match="did you mean orderMessageEnable") as caught:
        update(NamesrvConfig(), {"orderMessageEnabled": "true"})
    assert caught.value.code == 1
