"""Every key of Java's brokers is known with its default, and few can change at run time."""

import dataclasses
from functools import cache
from pathlib import Path

import pytest

from roketto.broker.config import FIELDS, BrokerConfig
from roketto.broker.java_keys import KEYS_WITHOUT_EFFECT, OTHER_SPELLINGS
from roketto.broker.local_address import local_address
from roketto.options import ConfigError
from roketto.protocol.errors import RequestError
from unit.hostile import HOSTILE_VALUES

GOLDEN = Path(__file__).parents[2] / "golden" / "config"
CHANGEABLE_KEYS = sorted(key for key, found in FIELDS.items() if found.option.changeable)
FIXED_KEYS = sorted({*FIELDS, *KEYS_WITHOUT_EFFECT} - set(CHANGEABLE_KEYS))

OTHER_DEFAULTS = {
    "listenPort": ("10911", "6888"),  # what Java's program makes of it
    "haListenPort": ("10912", "10912"),
    "enabledAppendPropCRC": ("true", "false"),  # a damaged record is found whatever it is
    "maxTransferCountOnMessageInMemory": ("256", "32"),  # who asks for more than 32 gets them
    "brokerConfigPath": (str(Path.home() / "store/config/broker.properties"), "null"),
    "storePathCommitLog": (str(Path.home() / "store/commitlog"), "null"),
}
"""Ours and Java's in 5.5; each of ours is explained here or in docs/broker.md."""


@cache
def java_keys(version: str) -> dict[str, str]:
    """Every key of Java's broker and its default, as text."""
    rows = [line.split("\t") for line in (GOLDEN / f"{version}.tsv").read_text().splitlines()]
    keys: dict[str, str] = {}
    for row in rows:
        keys.setdefault(row[1], row[3] if len(row) > 3 else "?")
    return keys


def update(config: BrokerConfig, properties: dict[str, str]) -> None:
    config.update(config.check_update(properties))


# --- what there is --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_every_key_of_java_is_known(version: str) -> None:
    known = {*FIELDS, *KEYS_WITHOUT_EFFECT, *OTHER_SPELLINGS}
    assert len(java_keys(version)) > 180
    assert set(java_keys(version)) - known == set()


def test_defaults_are_those_of_java() -> None:
    ours = dict(BrokerConfig(namesrv_addr="").items())
    different = {
        key: (ours.get(key, ""), default)
        for key, default in java_keys("5.5.0").items()
        if default != "?" and ours.get(key, "") != ("" if default == "null" else default)
    }
    hidden = {"scanAvailableNameSrv", "inBrokerContainer"}
    expected = {key: pair for key, pair in OTHER_DEFAULTS.items() if pair[0] != pair[1]}
    assert {key: pair for key, pair in different.items() if key not in hidden} == expected


def test_every_field_declares_itself() -> None:
    declared = {found.name for found in FIELDS.values()}
    fields = {field.name for field in dataclasses.fields(BrokerConfig)}
    assert declared == fields - {"given", "derived"}
    assert FIELDS.keys().isdisjoint(KEYS_WITHOUT_EFFECT)
    assert FIELDS.keys().isdisjoint(OTHER_SPELLINGS)


def test_keys_of_ours_are_few_and_not_javas() -> None:
    own = {key for key, found in FIELDS.items() if not found.option.java}
    assert own == set(FIELDS) - set(java_keys("5.5.0"))


def test_older_spellings_lead_to_known_keys() -> None:
    assert set(OTHER_SPELLINGS.values()) <= {*FIELDS, *KEYS_WITHOUT_EFFECT}
    config = BrokerConfig()
    config.load({"mapedFileSizeCommitLog": "65536", "mapedFileSizeConsumeQueue": "400"})
    assert config.mapped_file_size_commit_log == 65_536
    assert config.mapped_file_size_consume_queue == 400


def test_printed_configuration_can_be_loaded_again() -> None:
    config = BrokerConfig()
    config.load({"listenPort": "1234", "autoCreateTopicEnable": "FALSE", "brokerIP1": "h.example"})
    copy = BrokerConfig()
    copy.load(dict(config.items()))
    assert copy == config


def test_secrets_are_never_shown() -> None:
    config = BrokerConfig()
    secrets = ("tls.server.keyPassword", "initAuthenticationUser",
               "innerClientAuthenticationCredentials")  # fmt: skip
    config.load(dict.fromkeys(secrets, "hunter2"))
    assert "hunter2" not in f"{config} {dict(config.items())}"


# --- what follows from what -----------------------------------------------------------------------


def test_address_is_that_of_the_machine_unless_it_listens_on_another() -> None:
    assert BrokerConfig().broker_ip1 == local_address()
    assert BrokerConfig(bind_address="127.0.0.1").broker_ip1 == "127.0.0.1"
    config = BrokerConfig()
    config.load({"bindAddress": "127.0.0.1"})
    assert (config.broker_ip1, config.broker_ip2) == ("127.0.0.1", "127.0.0.1")


def test_address_that_was_given_stays() -> None:
    config = BrokerConfig()
    config.load({"brokerIP1": "broker.example", "bindAddress": "127.0.0.1", "listenPort": "7"})
    assert config.broker_ip1 == "broker.example"
    assert config.address == "broker.example:7"


def test_ha_port_follows_the_port_unless_it_was_given() -> None:
    config = BrokerConfig()
    config.load({"listenPort": "20911"})
    assert config.ha_listen_port == 20_912
    config.load({"haListenPort": "5", "listenPort": "7"})
    assert config.ha_listen_port == 5
    assert BrokerConfig(listen_port=0).ha_listen_port == 0


def test_paths_follow_the_root_of_the_store() -> None:
    config = BrokerConfig()
    config.load({"storePathRootDir": "/data/s"})
    assert config.store_path_commit_log == Path("/data/s/commitlog")
    assert config.broker_config_path == Path("/data/s/config/broker.properties")


def test_log_elsewhere_than_in_the_store_is_refused() -> None:
    config = BrokerConfig()
    config.load({"storePathRootDir": "/data/s", "storePathCommitLog": "/data/s/commitlog/"})
    with pytest.raises(ConfigError) as caught:
        config.load({"storePathCommitLog": "/fast/commitlog"})
    assert str(caught.value) == (
        "storePathCommitLog is /fast/commitlog; it can only be /data/s/commitlog, in"
        " storePathRootDir"
    )


def test_id_of_a_master_is_0_and_another_is_reported() -> None:
    config = BrokerConfig()
    assert config.load({"brokerId": "3"}) == ["brokerId"]
    assert config.broker_id == 0
    assert config.load({"brokerId": "0"}) == []


def test_name_servers_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    monkeypatch.setenv("ROCKETMQ_NAMESRV_ADDR", "a:1")
    assert BrokerConfig().namesrv_addr == "a:1"
    monkeypatch.setenv("NAMESRV_ADDR", "b:2;c:3")
    assert BrokerConfig().namesrv_addr == "b:2;c:3"


@pytest.mark.parametrize(
    ("period_ms", "taken_ms"), [(1, 10_000), (30_000, 30_000), (90_000, 60_000)]
)
def test_registration_keeps_within_the_bounds_of_java(period_ms: int, taken_ms: int) -> None:
    config = BrokerConfig(register_name_server_period=period_ms)
    assert config.register_period_ms == taken_ms


def test_host_name_that_cannot_be_a_broker_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "a b")
    assert BrokerConfig().broker_name == "DEFAULT_BROKER"


# --- property files -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("brokerRole", "SLAVE",
         "can only be ASYNC_MASTER or SYNC_MASTER: this broker does not replicate yet"),
        ("inSyncReplicas", "2", "it can only be 1: this broker does not replicate yet"),
        ("enableDLegerCommitLog", "true", "this broker does not replicate yet"),
        ("aclEnable", "true", "it can only be false: this broker does not check yet who asks"),
        ("authenticationEnabled", "true", "this broker does not check yet who asks"),
        ("storeType", "defaultRocksDB", "it can only be default: nothing is kept in RocksDB here"),
        ("readOnlyCommitLogStorePaths", "/a:/b", "leave it empty"),
        ("fetchNamesrvAddrByAddressServer", "true", "name the servers in namesrvAddr"),
        ("namesrvAddr", "localhost", "write host:port, several separated by ;"),
        ("namesrvAddr", "a:1,b:2", "write host:port, several separated by ;"),
        ("brokerName", "a b", "write 1 to 255 characters without blanks"),
        ("brokerIP1", "", "write 1 to 255 characters"),
        ("deleteWhen", "24", "write hours from 0 to 23, several separated by ;"),
        ("messageDelayLevel", " ", "write numbers with s, m, h or d behind them"),
        ("messageDelayLevel", "1s 5x", "write numbers with s, m, h or d behind them"),
        ("flushDiskType", "sync", "it can only be ASYNC_FLUSH or SYNC_FLUSH"),
        ("listenPort", "65536", "write an integer of 0..65535"),
        ("flushDiskTyp", "x", "unknown key 'flushDiskTyp'; did you mean flushDiskType?"),
        ("zzzzzzz", "x", "unknown key 'zzzzzzz'; mqbroker -p lists all keys"),
    ],
)  # fmt: skip
def test_bad_key_or_value_is_one_line_that_says_what_would_do(
    key: str, text: str, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig().load({key: text})
    assert said in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("namesrvAddr", "127.0.0.1:9876;names.example:9876;[::1]:9876"),
        ("namesrvAddr", ""),
        ("deleteWhen", "04;16"),
        ("messageDelayLevel", "1s 2d"),
        ("brokerName", "broker-a.example"),
        ("brokerRole", "SYNC_MASTER"),
    ],
)
def test_good_values_are_taken(key: str, text: str) -> None:
    config = BrokerConfig()
    assert config.load({key: text}) == []
    assert getattr(config, FIELDS[key].name) == text


def test_sample_file_of_java_loads_without_a_word() -> None:
    sample = {
        "brokerClusterName": "DefaultCluster", "brokerName": "broker-a", "brokerId": "0",
        "deleteWhen": "04", "fileReservedTime": "48", "brokerRole": "ASYNC_MASTER",
        "flushDiskType": "ASYNC_FLUSH",
    }  # fmt: skip
    assert BrokerConfig().load(sample) == []


def test_keys_without_effect_are_named() -> None:
    properties = {
        "sendMessageThreadPoolNums": "4",
        "listenPort": "1",
        "flushDelayOffsetInterval": "9",
    }
    assert BrokerConfig().load(properties) == [
        "sendMessageThreadPoolNums",
        "flushDelayOffsetInterval",
    ]


# --- run time -------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", CHANGEABLE_KEYS)
def test_hostile_value_changes_nothing(key: str) -> None:
    config = BrokerConfig()
    before = dataclasses.replace(config)
    for text in HOSTILE_VALUES:
        with pytest.raises(RequestError) as caught:
            update(config, {key: text})
        assert caught.value.code == 1
        assert len(caught.value.reason) < 200
        assert "\n" not in caught.value.reason
    assert config == before


@pytest.mark.parametrize("key", FIXED_KEYS)
def test_own_value_of_a_fixed_field_is_refused_too(key: str) -> None:
    config = BrokerConfig()
    own = dict(config.items()).get(key, "")
    with pytest.raises(RequestError, match="may not change at run time") as caught:
        update(config, {key: own})
    assert caught.value.code == 16


@pytest.mark.parametrize("key", CHANGEABLE_KEYS)
def test_changeable_field_takes_a_good_value(key: str) -> None:
    config = BrokerConfig()
    name, kind, option = FIELDS[key]
    old = getattr(config, name)
    others = {bool: (True, False), int: (option.low, option.high), str: ("05",)}
    new = next(value for value in others[kind] if value != old)
    update(config, {key: str(new)})
    assert getattr(config, name) == new


def test_nothing_about_paths_addresses_or_programs_changes_at_run_time() -> None:
    kinds = {FIELDS[key].kind for key in CHANGEABLE_KEYS}
    assert kinds == {bool, int, str}
    assert [key for key in CHANGEABLE_KEYS if FIELDS[key].kind is str] == ["deleteWhen"]
