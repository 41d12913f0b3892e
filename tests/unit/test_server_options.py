"""A server's options become the settings of its transport, and bad TLS files are told."""

from pathlib import Path

import pytest

from roketto.options import ConfigError
from roketto.server_options import ServerConfig, server_settings


def test_options_become_settings() -> None:
    config = ServerConfig(
        bind_address="127.0.0.1",
        listen_port=1234,
        server_channel_max_idle_time_seconds=7,
        server_socket_backlog=5,
        connections_max=6,
        connections_per_address_max=3,
        busy_poll_micros=50,
    )
    settings = server_settings(config)
    assert (settings.host, settings.port, settings.backlog) == ("127.0.0.1", 1234, 5)
    assert (settings.connections_max, settings.connections_per_address_max) == (6, 3)
    assert settings.connection.idle_s == 7
    assert settings.spin_s == pytest.approx(50e-6)
    assert settings.tls is None
    assert not settings.tls_required


def test_tls_is_off_without_a_certificate_unless_it_is_enforced() -> None:
    assert server_settings(ServerConfig(tls_server_mode="disabled")).tls is None
    with pytest.raises(ConfigError, match=r"tls\.server\.certPath"):
        server_settings(ServerConfig(tls_server_mode="enforcing"))


def test_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    config = ServerConfig(
        tls_server_cert_path=str(tmp_path / "none.pem"), tls_server_key_path=str(tmp_path / "key")
    )
    with pytest.raises(ConfigError, match=r"none\.pem"):
        server_settings(config)
