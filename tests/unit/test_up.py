"""What is for development listens on loopback only, keeps its files in one place and is small."""

from pathlib import Path

from roketto.broker.settings import store_settings
from roketto.up import broker_config, names_config


def test_both_listen_on_loopback_only(tmp_path: Path) -> None:
    broker = broker_config(tmp_path, 0)
    assert names_config(tmp_path, 0).bind_address == "127.0.0.1"
    assert (broker.bind_address, broker.broker_ip1) == ("127.0.0.1", "127.0.0.1")


def test_all_files_are_in_the_data_directory(tmp_path: Path) -> None:
    names, broker = names_config(tmp_path, 0), broker_config(tmp_path, 0)
    for path in (
        names.kv_config_path,
        names.config_store_path,
        broker.store_path_root_dir,
        broker.store_path_commit_log,
        broker.broker_config_path,
    ):
        assert path.is_relative_to(tmp_path)


def test_files_are_small_and_topics_are_made_when_used(tmp_path: Path) -> None:
    config = broker_config(tmp_path, 1)
    settings = store_settings(config)
    assert config.listen_port == 1
    assert config.auto_create_topic_enable
    assert settings.segment_bytes == 64 * 1024 * 1024
    assert settings.queue_file_bytes < 100_000
    assert settings.index_slots * 4 + settings.index_entries * 20 < 8 * 1024 * 1024
