"""The settings of a store: the defaults are Java's but for the checksum of each record."""

from roketto.store.settings import StoreSettings


def test_the_defaults_open_the_files_of_java() -> None:
    """Sizes of files must be equal, or neither opens the other's store."""
    settings = StoreSettings()
    assert settings.segment_bytes == 1 << 30
    assert settings.queue_file_bytes == 300_000 * 20
    assert (settings.index_slots, settings.index_entries) == (5_000_000, 20_000_000)
    assert settings.message_bytes_max == 4 << 20
    assert not settings.is_flush_sync


def test_units_of_many_queues_take_a_small_part_of_the_memory() -> None:
    assert StoreSettings(memory_bytes=8 << 30).recent_units_bytes == 128 << 20
