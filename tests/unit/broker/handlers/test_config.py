"""The configuration of a broker is shown, and what may change at run time does at once."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from roketto.broker.config import FIELDS, BrokerConfig
from roketto.broker.durability import NEVER_S
from roketto.broker.handlers.config import get_config, update_config
from roketto.broker.settings import retention_settings, transfer_limits
from roketto.config_file import ConfigFile
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.protocol.properties_text import parse_properties
from unit.broker.send_rig import SendRig


class ConfigRig(SendRig):
    """A broker whose configuration has a file."""

    def open(self) -> None:
        super().open()
        self.context.config_file = ConfigFile(
            self.config, lambda: self.config.broker_config_path, self.config.given, self.clock_ms
        )

    async def update(self, **properties: str) -> None:
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        request = Command(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())
        answer = await update_config(self.context, self.connection.as_connection, request)
        assert answer.code == ResponseCode.SUCCESS


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[ConfigRig]:
    rig = ConfigRig(tmp_path)
    yield rig
    rig.close()


async def test_the_configuration_is_shown_with_its_version(rig: ConfigRig) -> None:
    """Keys are Java's; each change is a new version."""
    request = Command(RequestCode.GET_BROKER_CONFIG)
    await rig.update(traceOn="false")
    answer = get_config(rig.context, rig.connection.as_connection, request)
    assert answer.ext == {"version": f'{{"counter":1,"stateVersion":0,"timestamp":{rig.now_ms}}}'}
    properties = parse_properties(bytes(answer.body).decode())
    assert list(properties) == sorted(properties)
    assert properties["brokerName"] == rig.config.broker_name
    assert properties["traceOn"] == "false"
    assert not [key for key in properties if key.startswith("tls.")]


async def test_a_change_is_in_the_file_of_the_broker(rig: ConfigRig) -> None:
    """Where a restart with -c finds it."""
    await rig.update(fileReservedTime="48", deleteWhen="05")
    kept = parse_properties(rig.config.broker_config_path.read_text())
    assert kept == {"fileReservedTime": "48", "deleteWhen": "05"}


async def test_retention_transfer_and_deadlines_change_at_once(rig: ConfigRig) -> None:
    """Those who were made with an option get the new one."""
    context = rig.context
    await rig.update(
        fileReservedTime="7", maxTransferCountOnMessageInMemory="3", syncFlushTimeout="9000",
        osPageCacheBusyTimeOutMills="700",
    )  # fmt: skip
    assert context.store.retention.settings == retention_settings(rig.config)
    assert context.store.retention.settings.file_reserved_hours == 7
    assert context.store.limits == transfer_limits(rig.config)
    assert context.store.limits.memory_count == 3
    assert (context.durability.timeout_s, context.durability.busy_after_s) == (9.0, 0.7)
    await rig.update(brokerFastFailureEnable="false")
    assert context.durability.busy_after_s == NEVER_S


async def test_what_a_broker_adds_to_messages_changes_at_once(rig: ConfigRig) -> None:
    """The next message says so, and so does its answer."""
    await rig.update(traceOn="false")
    answer = rig.send()
    assert answer.ext is not None
    assert answer.ext["TRACE_ON"] == "false"
    assert rig.record().get_property("TRACE_ON") == "false"


async def test_a_new_permission_is_announced_with_a_new_version(rig: ConfigRig) -> None:
    """All topics at once, in the form in which a removed one is."""
    before = rig.context.topics.data_version.counter
    await rig.update(longPollingEnable="false")
    assert rig.changes == []
    await rig.update(brokerPermission="4")
    assert rig.changes == [None]
    assert rig.context.topics.data_version.counter == before + 1


async def test_topics_made_on_first_use_get_their_model(tmp_path: Path) -> None:
    """Also where the broker was started without: Java has none then until it is restarted."""
    rig = ConfigRig(tmp_path / "without")
    rig.context.topics.remove("TBW102")
    rig.changes.clear()
    rig.config.auto_create_topic_enable = False
    await rig.update(autoCreateTopicEnable="true")
    model = cast("TopicConfig", rig.context.topics.get("TBW102"))
    assert (model.write_queue_nums, model.perm) == (8, 7)
    assert rig.changes == [None]
    assert rig.send("New").code == 0
    rig.close()


async def test_one_key_that_may_not_change_refuses_all(rig: ConfigRig) -> None:
    """The file and the configuration stay what they were."""
    with pytest.raises(RequestError) as caught:
        await rig.update(fileReservedTime="7", brokerConfigPath="/tmp/x")
    assert caught.value.code == ResponseCode.NO_PERMISSION
    assert rig.config.file_reserved_time == 72
    assert not rig.config.broker_config_path.exists()


def test_a_changeable_option_is_one_that_has_an_effect() -> None:
    """What would be taken and do nothing is refused instead."""
    for key, (_, _, option) in FIELDS.items():
        assert option.effective or not option.changeable, key


def test_paths_names_and_addresses_never_change() -> None:
    """Of texts only the hours of retention may: none of them leads anywhere."""
    changeable = {
        key for key, (_, kind, option) in FIELDS.items() if option.changeable and kind is not bool
    }
    texts = {key for key in changeable if FIELDS[key].kind is not int}
    assert texts == {"deleteWhen"}
    assert FIELDS["brokerConfigPath"].name in BrokerConfig.__dataclass_fields__
