"""The name server's configuration: RocketMQ's keys, their ranges, and what may change at run time.

A field's annotation is all there is to know about it: its type, its bounds and whether
UPDATE_NAMESRV_CONFIG may touch it. Nothing changes over the wire unless its own line here says
so, and the tests walk over every line.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, NamedTuple, get_type_hints

from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import RequestError

Value = bool | int | str | Path


class ConfigError(Exception):
    """A key or value that cannot be used; the text names it and says what would do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What a field declares besides its type and default."""

    changeable: bool = False  # by UPDATE_NAMESRV_CONFIG while the server runs
    low: int = 0
    high: int = 2**31 - 1
    choices: tuple[str, ...] = ()
    effective: bool = True  # False: accepted because Java's files have it, and reported
    java: bool = True  # False: a key of ours, which Java's tools are not shown
    secret: bool = False


FIXED = Option()
CHANGEABLE = Option(changeable=True)
UNUSED = Option(effective=False, low=-(2**31))
OFF = Option(choices=("false",))  # a part of Java's server that this one does not have
OWN = Option(java=False)
COUNT = Option(low=1, java=False)


def _in_home(name: str) -> Path:
    return Path.home() / "namesrv" / name


@dataclass(slots=True)
class NamesrvConfig:
    """Java's NamesrvConfig and NettyServerConfig in their order, then options of our own."""

    rocketmq_home: Annotated[str, UNUSED] = os.environ.get("ROCKETMQ_HOME", "")
    kv_config_path: Annotated[Path, FIXED] = field(
        default_factory=lambda: _in_home("kvConfig.json")
    )
    config_store_path: Annotated[Path, FIXED] = field(
        default_factory=lambda: _in_home("namesrv.properties")
    )
    product_env_name: Annotated[str, UNUSED] = "center"
    cluster_test: Annotated[bool, OFF] = False
    order_message_enable: Annotated[bool, CHANGEABLE] = False
    return_order_topic_config_to_broker: Annotated[bool, CHANGEABLE] = True
    client_request_thread_pool_nums: Annotated[int, UNUSED] = 8
    default_thread_pool_nums: Annotated[int, UNUSED] = 16
    client_request_thread_pool_queue_capacity: Annotated[int, UNUSED] = 50_000
    default_thread_pool_queue_capacity: Annotated[int, UNUSED] = 10_000
    scan_not_active_broker_interval: Annotated[int, Option(changeable=True, low=100)] = 5_000  # ms
    un_register_broker_queue_capacity: Annotated[int, UNUSED] = 3_000
    support_acting_master: Annotated[bool, CHANGEABLE] = False
    enable_all_topic_list: Annotated[bool, CHANGEABLE] = True
    enable_topic_list: Annotated[bool, CHANGEABLE] = True
    notify_min_broker_id_changed: Annotated[bool, CHANGEABLE] = False
    enable_controller_in_namesrv: Annotated[bool, OFF] = False
    need_wait_for_service: Annotated[bool, CHANGEABLE] = False
    wait_seconds_for_service: Annotated[int, CHANGEABLE] = 45
    delete_topic_with_broker_registration: Annotated[bool, CHANGEABLE] = False
    config_black_list: Annotated[str, FIXED] = "configBlackList;configStorePath;kvConfigPath"

    bind_address: Annotated[str, FIXED] = "0.0.0.0"  # noqa: S104 (Java's; clients are elsewhere)
    listen_port: Annotated[int, Option(high=65_535)] = 9876
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

    connections_max: Annotated[int, COUNT] = 10_000
    connections_per_address_max: Annotated[int, COUNT] = 4_000
    busy_poll_micros: Annotated[int, Option(high=10_000, java=False)] = 100  # 0: never
    tls_server_mode: Annotated[
        str, Option(choices=("disabled", "permissive", "enforcing"), java=False)
    ] = "permissive"
    tls_server_cert_path: Annotated[str, OWN] = ""
    tls_server_key_path: Annotated[str, OWN] = ""
    tls_server_key_password: Annotated[str, Option(java=False, secret=True)] = field(
        default="", repr=False
    )
    tls_server_trust_cert_path: Annotated[str, OWN] = ""
    tls_server_need_client_auth: Annotated[
        str, Option(choices=("none", "optional", "require"), java=False)
    ] = "none"

    def load(self, properties: Mapping[str, str]) -> list[str]:
        """Take a property file; return the keys in it that do nothing here."""
        for key, text in properties.items():
            if key not in JAVA_CLIENT_KEYS:
                found = _find(key)
                setattr(self, found.name, _parse(key, text, found))
        return [k for k in properties if k in JAVA_CLIENT_KEYS or not FIELDS[k].option.effective]

    def check_update(self, properties: Mapping[str, str]) -> dict[str, Value]:
        """Return the new values by field name, or refuse them all with a RequestError."""
        refused = self.config_black_list.split(";")
        values: dict[str, Value] = {}
        for key, text in properties.items():
            try:
                found = _find(key)
                if not found.option.changeable or key in refused:
                    reason = f"{key} may not change at run time; set it in the file and restart"
                    raise RequestError(ResponseCode.NO_PERMISSION, reason)
                values[found.name] = _parse(key, text, found)
            except ConfigError as error:
                raise RequestError(ResponseCode.SYSTEM_ERROR, str(error)) from error
        return values

    def update(self, values: Mapping[str, Value]) -> None:
        """Take values that ``check_update`` returned."""
        for name, value in values.items():
            setattr(self, name, value)

    def items(self, *, java_only: bool = False) -> Iterable[tuple[str, str]]:
        """Every key and its value as text, in Java's order; never a secret."""
        for key, (name, kind, option) in FIELDS.items():
            if option.java or not (java_only or option.secret):
                text = str(getattr(self, name))
                yield key, text.lower() if kind is bool else text


class Field(NamedTuple):
    """One line of NamesrvConfig, taken apart."""

    name: str
    kind: type[Value]
    option: Option


def _key(name: str) -> str:
    """A field's name as Java spells it: listenPort, but tls.server.certPath."""
    if name == "tls_server_need_client_auth":
        return name.replace("_", ".")
    if name.startswith("tls_server_"):
        return "tls.server." + _key(name.removeprefix("tls_server_"))
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


FIELDS = {
    _key(name): Field(name, hint.__origin__, hint.__metadata__[0])
    for name, hint in get_type_hints(NamesrvConfig, include_extras=True).items()
}
"""Every option by its key in the property file."""

JAVA_CLIENT_KEYS = frozenset({
    "clientWorkerThreads", "clientCallbackExecutorThreads", "clientOnewaySemaphoreValue",
    "clientAsyncSemaphoreValue", "connectTimeoutMillis", "channelNotActiveInterval",
    "isScanAvailableNameSrv", "scanAvailableNameSrv", "clientChannelMaxIdleTimeSeconds",
    "clientSocketSndBufSize", "clientSocketRcvBufSize", "clientPooledByteBufAllocatorEnable",
    "clientCloseSocketIfTimeout", "useTLS", "socksProxyConfig", "disableCallbackExecutor",
    "disableNettyWorkerGroup", "maxReconnectIntervalTimeSeconds", "enableReconnectForGoAway",
})  # fmt: skip
"""Keys of Java's NettyClientConfig, which its name server reads from the same file."""


def _find(key: str) -> Field:
    if key not in FIELDS:
        near = get_close_matches(key[:64], FIELDS, n=1)
        hint = f"did you mean {near[0]}?" if near else "mqnamesrv -p lists all keys"
        raise ConfigError(f"unknown key {_cut(key)}; {hint}")
    return FIELDS[key]


def _parse(key: str, text: str, found: Field) -> Value:
    _, kind, option = found
    text = text.strip().lower() if kind is bool else text.strip()
    choices = option.choices or (("true", "false") if kind is bool else ())
    if choices and text not in choices:
        raise ConfigError(f"{key} is {_cut(text)}; it can only be {' or '.join(choices)}")
    if kind is bool:
        return text == "true"
    if kind is int:
        is_number = text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 20
        if not is_number or not option.low <= int(text) <= option.high:
            bounds = f"{option.low}..{option.high}"
            raise ConfigError(f"{key} is {_cut(text)}; write an integer of {bounds}")
        return int(text)
    if kind is Path and not text:
        raise ConfigError(f"{key} is empty; write the path of a file")
    return kind(text)


def _cut(text: str) -> str:
    return repr(text if len(text) <= 64 else f"{text[:61]}...")
