"""Each option of the store reaches the store."""

from dataclasses import asdict, fields

import pytest

from roketto.broker.config import BrokerConfig
from roketto.broker.settings import retention_settings, server_settings, store_settings
from roketto.store.flush import FlushSettings
from roketto.store.reading import TransferLimits
from roketto.store.retention import RetentionSettings
from roketto.store.settings import StoreSettings


def test_defaults_are_those_of_the_store() -> None:
    ours, store = asdict(store_settings(BrokerConfig())), asdict(StoreSettings())
    del ours["memory_bytes"], store["memory_bytes"]
    assert ours == store


@pytest.mark.parametrize(
    ("key", "text", "name", "value"),
    [
        ("mappedFileSizeCommitLog", "65536", "segment_bytes", 65_536),
        ("mappedFileSizeConsumeQueue", "400", "queue_file_bytes", 400),
        ("mappedFileSizeConsumeQueue", "401", "queue_file_bytes", 420),
        ("messageIndexEnable", "false", "index_enable", False),
        ("maxHashSlotNum", "10", "index_slots", 10),
        ("maxIndexNum", "20", "index_entries", 20),
        ("flushDiskType", "SYNC_FLUSH", "is_flush_sync", True),
        ("maxMessageSize", "65536", "message_bytes_max", 65_536),
        ("enabledAppendPropCRC", "false", "append_crc", False),
        ("accessMessageInMemoryMaxRatio", "0", "memory_bytes", 0),
    ],
)
def test_option_becomes_a_setting(key: str, text: str, name: str, value: object) -> None:
    config = BrokerConfig()
    config.load({key: text})
    assert getattr(store_settings(config), name) == value


def test_ratio_of_memory_is_told_as_more_or_less_memory() -> None:
    whole, half = BrokerConfig(), BrokerConfig(access_message_in_memory_max_ratio=20)
    assert store_settings(whole).memory_bytes == 2 * store_settings(half).memory_bytes


def test_groups_of_settings_are_filled_from_their_own_options() -> None:
    config = BrokerConfig(
        flush_interval_commit_log=1,
        flush_commit_log_least_pages=2,
        flush_commit_log_thorough_interval=3,
        max_transfer_bytes_on_message_in_memory=4,
        max_transfer_count_on_message_in_memory=5,
        max_transfer_bytes_on_message_in_disk=6,
        max_transfer_count_on_message_in_disk=7,
        file_reserved_time=8,
        delete_when="09",
        disk_max_used_space_ratio=10,
        disk_space_clean_forcibly_ratio=11,
        disk_space_warning_level_ratio=12,
        clean_file_forcibly_enable=False,
        clean_resource_interval=13,
        delete_file_batch_max=14,
    )
    settings = store_settings(config)
    assert settings.flush == FlushSettings(interval_ms=1, pages_least=2, thorough_interval_ms=3)
    assert settings.limits == TransferLimits(
        memory_bytes=4, memory_count=5, disk_bytes=6, disk_count=7
    )
    assert settings.retention == RetentionSettings(
        file_reserved_hours=8,
        delete_when="09",
        max_used_percent=10,
        forced_percent=11,
        warning_percent=12,
        is_forced_enabled=False,
        interval_ms=13,
        files_per_pass_max=14,
    )


def test_everything_about_retention_may_change_at_run_time() -> None:
    config = BrokerConfig()
    changed = config.check_update({
        "fileReservedTime": "1", "deleteWhen": "05", "diskMaxUsedSpaceRatio": "11",
        "diskSpaceCleanForciblyRatio": "31", "diskSpaceWarningLevelRatio": "36",
        "cleanFileForciblyEnable": "false", "cleanResourceInterval": "1",
        "deleteFileBatchMax": "1",
    })  # fmt: skip
    before = retention_settings(config)
    config.update(changed)
    after = retention_settings(config)
    for field in fields(RetentionSettings):
        assert getattr(before, field.name) != getattr(after, field.name), field.name


def test_broker_listens_where_its_options_say() -> None:
    config = BrokerConfig(bind_address="127.0.0.1", listen_port=1)
    settings = server_settings(config)
    assert (settings.host, settings.port) == ("127.0.0.1", 1)
