"""From the broker's options to the settings of its server and its store."""

import os
from typing import Final

from roketto.broker.config import BrokerConfig
from roketto.broker.durability import NEVER_S
from roketto.server_options import server_settings
from roketto.store.flush import FlushSettings
from roketto.store.reading import TransferLimits
from roketto.store.retention import RetentionSettings
from roketto.store.settings import StoreSettings

__all__ = [
    "busy_after_s",
    "retention_settings",
    "server_settings",
    "store_settings",
    "transfer_limits",
]

_UNIT_BYTES: Final = 20
"""Of a consume queue; Java rounds the size of its files up to whole units."""

_STORE_PERCENT: Final = 40
"""How much of its ``memory_bytes`` a store takes to be in memory."""


def store_settings(config: BrokerConfig) -> StoreSettings:
    """What the store of a broker is made with."""
    # The store keeps Java's default ratio, so another one is told as a larger or smaller machine.
    memory_bytes = _memory_bytes() * config.access_message_in_memory_max_ratio // _STORE_PERCENT
    return StoreSettings(
        segment_bytes=config.mapped_file_size_commit_log,
        queue_file_bytes=-(-config.mapped_file_size_consume_queue // _UNIT_BYTES) * _UNIT_BYTES,
        index_enable=config.message_index_enable,
        index_slots=config.max_hash_slot_num,
        index_entries=config.max_index_num,
        is_flush_sync=config.flush_disk_type == "SYNC_FLUSH",
        flush=FlushSettings(
            interval_ms=config.flush_interval_commit_log,
            pages_least=config.flush_commit_log_least_pages,
            thorough_interval_ms=config.flush_commit_log_thorough_interval,
        ),
        message_bytes_max=config.max_message_size,
        append_crc=config.enabled_append_prop_crc,
        memory_bytes=memory_bytes,
        limits=transfer_limits(config),
        retention=retention_settings(config),
    )


def transfer_limits(config: BrokerConfig) -> TransferLimits:
    """How much one pull may return; may change at run time (``Store.limits``)."""
    return TransferLimits(
        memory_bytes=config.max_transfer_bytes_on_message_in_memory,
        memory_count=config.max_transfer_count_on_message_in_memory,
        disk_bytes=config.max_transfer_bytes_on_message_in_disk,
        disk_count=config.max_transfer_count_on_message_in_disk,
    )


def busy_after_s(config: BrokerConfig) -> float:
    """After which time without a sync the disk is taken for busy (``Durability.busy_after_s``)."""
    if not config.broker_fast_failure_enable:
        return NEVER_S
    return config.os_page_cache_busy_time_out_mills / 1000


def retention_settings(config: BrokerConfig) -> RetentionSettings:
    """What is kept how long; all of it may change at run time (``Retention.settings``)."""
    return RetentionSettings(
        file_reserved_hours=config.file_reserved_time,
        delete_when=config.delete_when,
        max_used_percent=config.disk_max_used_space_ratio,
        forced_percent=config.disk_space_clean_forcibly_ratio,
        warning_percent=config.disk_space_warning_level_ratio,
        is_forced_enabled=config.clean_file_forcibly_enable,
        interval_ms=config.clean_resource_interval,
        files_per_pass_max=config.delete_file_batch_max,
    )


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
