"""The options that every server has: where it listens, whom it takes, TLS."""

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from roketto.options import FIXED, UNUSED, Config, ConfigError, Option
from roketto.remoting.settings import ConnectionSettings, ServerSettings
from roketto.remoting.tls import TlsError, TlsFiles, server_context

__all__ = [
    "LISTEN_PORT",
    "NETTY_CLIENT_KEYS",
    "NETTY_CLIENT_SPELLINGS",
    "ServerConfig",
    "server_settings",
]

LISTEN_PORT: Final = Option(high=65_535, important=True)
_COUNT: Final = Option(low=1, java=False)
_TLS_MODES: Final = ("disabled", "permissive", "enforcing")
_CLIENT_CERTIFICATES: Final = ("none", "optional", "require")

NETTY_CLIENT_KEYS: Final = {
    "clientWorkerThreads": "4",
    "clientCallbackExecutorThreads": str(os.cpu_count()),  # tools take it for the CPUs of a broker
    "clientOnewaySemaphoreValue": "65535",
    "clientAsyncSemaphoreValue": "65535",
    "connectTimeoutMillis": "3000",
    "channelNotActiveInterval": "60000",
    "isScanAvailableNameSrv": "true",
    "clientChannelMaxIdleTimeSeconds": "120",
    "clientSocketSndBufSize": "0",
    "clientSocketRcvBufSize": "0",
    "clientPooledByteBufAllocatorEnable": "false",
    "clientCloseSocketIfTimeout": "true",
    "useTLS": "false",
    "socksProxyConfig": "{}",
    "disableCallbackExecutor": "false",
    "disableNettyWorkerGroup": "false",
    "maxReconnectIntervalTimeSeconds": "60",
    "enableReconnectForGoAway": "true",
}
"""Java's servers read their NettyClientConfig from the same file; with the defaults there."""

NETTY_CLIENT_SPELLINGS: Final = {"scanAvailableNameSrv": "isScanAvailableNameSrv"}
"""Java prints a key by its field and reads it by its setter."""


@dataclass(slots=True)
class ServerConfig(Config):
    """Java's NettyServerConfig in its order, then options of our own."""

    config_black_list: Annotated[str, FIXED] = "configBlackList"

    bind_address: Annotated[str, FIXED] = "0.0.0.0"  # noqa: S104 (Java's; clients are elsewhere)
    listen_port: Annotated[int, LISTEN_PORT] = 0
    server_worker_threads: Annotated[int, UNUSED] = 8
    server_callback_executor_threads: Annotated[int, UNUSED] = 0
    server_selector_threads: Annotated[int, UNUSED] = 3
    server_oneway_semaphore_value: Annotated[int, UNUSED] = 256
    server_async_semaphore_value: Annotated[int, UNUSED] = 64
    server_channel_max_idle_time_seconds: Annotated[int, Option(low=1)] = 120
    server_socket_snd_buf_size: Annotated[int, UNUSED] = 0
    server_socket_rcv_buf_size: Annotated[int, UNUSED] = 0
    write_buffer_high_water_mark: Annotated[int, UNUSED] = 0
    write_buffer_low_water_mark: Annotated[int, UNUSED] = 0
    server_socket_backlog: Annotated[int, Option(low=1)] = 1_024
    server_netty_worker_group_enable: Annotated[bool, UNUSED] = True
    server_pooled_byte_buf_allocator_enable: Annotated[bool, UNUSED] = True
    enable_shutdown_gracefully: Annotated[bool, UNUSED] = False
    shutdown_wait_time_seconds: Annotated[int, UNUSED] = 30
    use_epoll_native_selector: Annotated[bool, UNUSED] = False

    connections_max: Annotated[int, _COUNT] = 10_000
    connections_per_address_max: Annotated[int, _COUNT] = 4_000
    busy_poll_micros: Annotated[int, Option(high=10_000, java=False)] = 250
    """How long to look for the next request before sleeping; 0: never."""
    tls_server_mode: Annotated[
        str, Option(key="tls.server.mode", choices=_TLS_MODES, java=False)
    ] = "permissive"
    tls_server_cert_path: Annotated[str, Option(key="tls.server.certPath", java=False)] = ""
    tls_server_key_path: Annotated[str, Option(key="tls.server.keyPath", java=False)] = ""
    tls_server_key_password: Annotated[
        str, Option(key="tls.server.keyPassword", java=False, secret=True)
    ] = field(default="", repr=False)
    tls_server_trust_cert_path: Annotated[
        str, Option(key="tls.server.trustCertPath", java=False)
    ] = ""
    tls_server_need_client_auth: Annotated[
        str, Option(key="tls.server.need.client.auth", choices=_CLIENT_CERTIFICATES, java=False)
    ] = "none"


def server_settings(config: ServerConfig) -> ServerSettings:
    """Where and how to listen; ConfigError if the TLS files cannot be used."""
    return ServerSettings(
        host=config.bind_address,
        port=config.listen_port,
        backlog=config.server_socket_backlog,
        connections_max=config.connections_max,
        connections_per_address_max=config.connections_per_address_max,
        spin_s=config.busy_poll_micros / 1e6,
        tls=_tls_context(config),
        tls_required=config.tls_server_mode == "enforcing",
        connection=ConnectionSettings(idle_s=config.server_channel_max_idle_time_seconds),
    )


def _tls_context(config: ServerConfig) -> ssl.SSLContext | None:
    mode, certificate = config.tls_server_mode, config.tls_server_cert_path
    if mode == "disabled" or (mode == "permissive" and not certificate):
        return None
    paths = (certificate, config.tls_server_key_path, config.tls_server_trust_cert_path)
    certificate_file, key_file, trusted_file = (Path(path) if path else None for path in paths)
    files = TlsFiles(
        certificate=certificate_file,
        key=key_file,
        key_password=config.tls_server_key_password or None,
        trusted=trusted_file,
    )
    try:
        return server_context(files, client_certificate=config.tls_server_need_client_auth)
    except TlsError as error:
        raise ConfigError(str(error)) from error
