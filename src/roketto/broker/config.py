"""The broker's configuration: RocketMQ's keys, their ranges, and what may change at run time.

Names, units and defaults are those of Java's BrokerConfig and MessageStoreConfig in 5.5, so that
its files keep working; java_keys.py has the keys that do nothing here.
"""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from roketto.broker.java_keys import KEYS_WITHOUT_EFFECT, OTHER_SPELLINGS
from roketto.broker.local_address import local_address
from roketto.options import (
    CHANGEABLE,
    FIXED,
    OFF,
    ConfigError,
    Option,
    Value,
    fields_of,
)
from roketto.protocol.headers.base import I32_MAX
from roketto.protocol.limits import FRAME_BYTES_MAX, MESSAGE_BYTES_MAX
from roketto.server_options import LISTEN_PORT, ServerConfig
from roketto.store.delay_levels import DELAY_LEVELS, DelayLevels
from roketto.store.retention import RetentionSettings

LONG_MAX: Final = 2**63 - 1
_NAME: Final = re.compile(r"[^\s/\\;,]{1,255}")
_ADDRESSES: Final = re.compile(r"(?:[^\s:;/]+|\[[0-9a-fA-F:.]+\]):\d{1,5}")
_REGISTER_PERIOD_MS: Final = (10_000, 60_000)
_ANY_ADDRESS: Final = ("", "0.0.0.0", "::")  # noqa: S104 (these are compared, not listened on)


def _check_name(text: str) -> None:
    if not _NAME.fullmatch(text):
        raise ValueError("write 1 to 255 characters without blanks, slashes, ; and ,")


def _check_addresses(text: str) -> None:
    if text and not all(_ADDRESSES.fullmatch(address) for address in text.split(";")):
        raise ValueError("write host:port, several separated by ;")


def _check_delay_levels(text: str) -> None:
    try:
        is_empty = DelayLevels(text).count == 0
    except ValueError:
        is_empty = True
    if is_empty:
        raise ValueError("write numbers with s, m, h or d behind them, such as 1s 5s 1m")


def _check_hours(text: str) -> None:
    try:
        RetentionSettings(delete_when=text)
    except ValueError:
        raise ValueError("write hours from 0 to 23, several separated by ;") from None


def _check_empty(text: str) -> None:
    if text:
        raise ValueError("leave it empty, this broker does not have that")


NAME: Final = Option(check=_check_name, important=True)
IMPORTANT: Final = Option(important=True)
LONG: Final = Option(high=LONG_MAX, changeable=True)
PERCENT: Final = Option(high=100, changeable=True)
COUNT: Final = Option(low=1)
TRANSFER: Final = Option(low=1, changeable=True, important=True)
FOUND_AT_ONCE: Final = Option(low=1, high=65_536, changeable=True)
INTERVAL_MS: Final = Option(low=1, high=86_400_000)
LATER: Final = Option(effective=False, high=LONG_MAX)
TRANSACTION: Final = Option(important=True, changeable=True, high=LONG_MAX)
EMPTY: Final = Option(check=_check_empty)
NO_ACCESS_CONTROL: Final = Option(
    choices=("false",), reason="this broker does not check yet who asks"
)
NO_REPLICATION: Final = "this broker does not replicate yet"
ONE_REPLICA: Final = Option(choices=("1",), reason=NO_REPLICATION)
NO_ROCKSDB: Final = Option(choices=("false",), reason="nothing is kept in RocksDB here")
NO_DISCOVERY: Final = Option(choices=("false",), reason="name the servers in namesrvAddr")


def _host_name() -> str:
    name = socket.gethostname()
    return name if _NAME.fullmatch(name) else "DEFAULT_BROKER"


def _name_servers() -> str:
    """Java's environment variable, or the one that its other clients read."""
    named = os.environ.get("NAMESRV_ADDR") or os.environ.get("ROCKETMQ_NAMESRV_ADDR")
    return named or ""


@dataclass(slots=True)
class BrokerConfig(ServerConfig):
    """Java's BrokerConfig and MessageStoreConfig in their order; every server's options follow.

    ``broker_ip1`` is the address that clients are told to connect to. Empty ones of these follow
    from others: ``broker_ip1`` and ``broker_ip2`` from ``bind_address``, ``ha_listen_port`` from
    ``listen_port``, paths from ``store_path_root_dir``.
    """

    program = "mqbroker"
    other_spellings = OTHER_SPELLINGS
    keys_without_effect = KEYS_WITHOUT_EFFECT

    broker_name: Annotated[str, NAME] = field(default_factory=_host_name)
    broker_cluster_name: Annotated[str, NAME] = "DefaultCluster"
    broker_id: Annotated[int, Option(high=LONG_MAX, important=True)] = 0
    broker_config_path: Annotated[Path, FIXED] = Path()
    """Where run-time changes are kept: the file of -c, or one in the store."""
    rocketmq_home: Annotated[str, Option(effective=False)] = field(
        default_factory=lambda: os.environ.get("ROCKETMQ_HOME", "")
    )
    namesrv_addr: Annotated[str, Option(check=_check_addresses, important=True)] = field(
        default_factory=_name_servers
    )
    broker_ip1: Annotated[str, Option(key="brokerIP1", check=_check_name, important=True)] = ""
    broker_ip2: Annotated[str, Option(key="brokerIP2", check=_check_name)] = ""
    broker_permission: Annotated[int, Option(high=7, changeable=True)] = 6
    default_topic_queue_nums: Annotated[int, Option(low=1, high=1_024, changeable=True)] = 8
    auto_create_topic_enable: Annotated[bool, Option(changeable=True, important=True)] = True
    cluster_topic_enable: Annotated[bool, FIXED] = True
    broker_topic_enable: Annotated[bool, FIXED] = True
    auto_create_subscription_group: Annotated[bool, Option(changeable=True, important=True)] = True
    message_store_plug_in: Annotated[str, EMPTY] = ""
    msg_trace_topic_name: Annotated[str, NAME] = "RMQ_SYS_TRACE_TOPIC"
    trace_topic_enable: Annotated[bool, IMPORTANT] = False
    flush_consumer_offset_interval: Annotated[int, INTERVAL_MS] = 5_000
    reject_transaction_message: Annotated[bool, Option(changeable=True, important=True)] = False
    fetch_name_srv_addr_by_dns_lookup: Annotated[bool, NO_DISCOVERY] = False
    fetch_namesrv_addr_by_address_server: Annotated[bool, NO_DISCOVERY] = False
    long_polling_enable: Annotated[bool, CHANGEABLE] = True
    short_polling_time_mills: Annotated[int, Option(low=1, high=60_000, changeable=True)] = 1_000
    notify_consumer_ids_changed_enable: Annotated[bool, CHANGEABLE] = True
    region_id: Annotated[str, FIXED] = "DefaultRegion"
    register_broker_timeout_mills: Annotated[int, INTERVAL_MS] = 24_000
    slave_read_enable: Annotated[bool, CHANGEABLE] = False
    disable_consume_if_consumer_read_slowly: Annotated[bool, LATER] = False
    consumer_fallbehind_threshold: Annotated[int, LATER] = 17_179_869_184  # bytes
    broker_fast_failure_enable: Annotated[bool, CHANGEABLE] = True
    wait_time_mills_in_send_queue: Annotated[int, LONG] = 200
    wait_time_mills_in_pull_queue: Annotated[int, LONG] = 5_000
    wait_time_mills_in_lite_pull_queue: Annotated[int, LONG] = 5_000
    wait_time_mills_in_heartbeat_queue: Annotated[int, LONG] = 31_000
    wait_time_mills_in_transaction_queue: Annotated[int, LATER] = 3_000
    wait_time_mills_in_ack_queue: Annotated[int, LATER] = 3_000
    wait_time_mills_in_admin_broker_queue: Annotated[int, LATER] = 5_000
    start_accept_send_request_time_stamp: Annotated[int, LONG] = 0  # ms since 1970
    trace_on: Annotated[bool, CHANGEABLE] = True
    reject_pull_consumer_enable: Annotated[bool, CHANGEABLE] = False
    expect_consumer_num_use_filter: Annotated[int, Option(low=1, high=65_536)] = 32
    max_error_rate_of_bloom_filter: Annotated[int, Option(low=1, high=99)] = 20  # percent
    filter_data_clean_time_span: Annotated[int, LONG] = 86_400_000  # ms
    filter_support_retry: Annotated[bool, CHANGEABLE] = False
    enable_property_filter: Annotated[bool, CHANGEABLE] = False
    compressed_register: Annotated[bool, CHANGEABLE] = False
    force_register: Annotated[bool, CHANGEABLE] = True
    register_name_server_period: Annotated[int, INTERVAL_MS] = 30_000
    priority_order_asc: Annotated[bool, CHANGEABLE] = True
    lite_pull_message_enable: Annotated[bool, CHANGEABLE] = True
    transaction_time_out: Annotated[int, TRANSACTION] = 6_000  # ms
    transaction_check_max: Annotated[int, TRANSACTION] = 15
    transaction_check_interval: Annotated[
        int, Option(low=1, high=86_400_000, changeable=True, important=True)
    ] = 30_000  # ms
    transaction_metric_flush_interval: Annotated[int, INTERVAL_MS] = 10_000
    acl_enable: Annotated[bool, NO_ACCESS_CONTROL] = False
    store_reply_message_enable: Annotated[bool, CHANGEABLE] = True
    enable_detail_stat: Annotated[bool, FIXED] = True
    use_server_side_reset_offset: Annotated[bool, CHANGEABLE] = True
    enable_controller_mode: Annotated[bool, Option(choices=("false",), reason=NO_REPLICATION)] = (
        False
    )
    validate_system_topic_when_update_topic: Annotated[bool, CHANGEABLE] = True
    channel_expired_timeout: Annotated[int, LONG] = 120_000  # ms
    subscription_expired_timeout: Annotated[int, LATER] = 600_000  # ms
    config_black_list: Annotated[str, FIXED] = "configBlackList;brokerConfigPath"
    clear_retry_topic_when_delete_topic: Annotated[bool, CHANGEABLE] = True
    config_manager_version: Annotated[
        str, Option(choices=("v1",), reason="nothing is kept in RocksDB here")
    ] = "v1"
    pop_consumer_kv_service_enable: Annotated[
        bool, Option(key="popConsumerKVServiceEnable", choices=("false",), reason=NO_ROCKSDB.reason)
    ] = False
    allow_recall_when_broker_not_writeable: Annotated[bool, CHANGEABLE] = True
    recall_message_enable: Annotated[bool, CHANGEABLE] = False
    enable_create_sys_group: Annotated[bool, FIXED] = True
    authentication_enabled: Annotated[bool, NO_ACCESS_CONTROL] = False
    authorization_enabled: Annotated[bool, NO_ACCESS_CONTROL] = False

    store_path_root_dir: Annotated[Path, IMPORTANT] = field(
        default_factory=lambda: Path.home() / "store"
    )
    store_path_commit_log: Annotated[Path, IMPORTANT] = Path()
    read_only_commit_log_store_paths: Annotated[str, EMPTY] = ""
    mapped_file_size_commit_log: Annotated[int, Option(low=4_096)] = 1 << 30
    mapped_file_size_timer_log: Annotated[int, Option(low=4_096)] = 104_857_600
    timer_precision_ms: Annotated[int, Option(low=10, high=3_600_000)] = 1_000
    timer_roll_window_slot: Annotated[int, FIXED] = 172_800
    timer_flush_interval_ms: Annotated[int, INTERVAL_MS] = 1_000
    timer_max_delay_sec: Annotated[int, LONG] = 259_200
    timer_wheel_enable: Annotated[bool, FIXED] = True
    timer_congest_num_each_slot: Annotated[int, Option(low=1, changeable=True)] = I32_MAX
    timer_rocks_db_enable: Annotated[
        bool, Option(key="timerRocksDBEnable", choices=("false",), reason=NO_ROCKSDB.reason)
    ] = False
    trans_rocks_db_enable: Annotated[
        bool, Option(key="transRocksDBEnable", choices=("false",), reason=NO_ROCKSDB.reason)
    ] = False
    index_rocks_db_enable: Annotated[
        bool, Option(key="indexRocksDBEnable", choices=("false",), reason=NO_ROCKSDB.reason)
    ] = False
    store_type: Annotated[str, Option(choices=("default",), reason=NO_ROCKSDB.reason)] = "default"
    mapped_file_size_consume_queue: Annotated[int, Option(low=20)] = 6_000_000  # bytes
    flush_interval_commit_log: Annotated[int, Option(low=1, important=True)] = 500  # ms
    disk_space_warning_level_ratio: Annotated[int, PERCENT] = 90
    disk_space_clean_forcibly_ratio: Annotated[int, PERCENT] = 85
    clean_resource_interval: Annotated[int, Option(low=1, changeable=True)] = 10_000  # ms
    delete_when: Annotated[str, Option(check=_check_hours, changeable=True, important=True)] = "04"
    disk_max_used_space_ratio: Annotated[int, PERCENT] = 75
    file_reserved_time: Annotated[int, Option(changeable=True, important=True)] = 72  # hours
    delete_file_batch_max: Annotated[int, Option(low=1, changeable=True, important=True)] = 10
    max_message_size: Annotated[int, Option(low=1_024, high=FRAME_BYTES_MAX)] = MESSAGE_BYTES_MAX
    flush_commit_log_least_pages: Annotated[int, FIXED] = 4
    flush_commit_log_thorough_interval: Annotated[int, COUNT] = 10_000  # ms
    max_transfer_bytes_on_message_in_memory: Annotated[int, TRANSFER] = 262_144
    max_transfer_count_on_message_in_memory: Annotated[int, TRANSFER] = 256
    max_transfer_bytes_on_message_in_disk: Annotated[int, TRANSFER] = 65_536
    max_transfer_count_on_message_in_disk: Annotated[int, TRANSFER] = 8
    access_message_in_memory_max_ratio: Annotated[int, Option(high=100, important=True)] = 40
    message_index_enable: Annotated[bool, IMPORTANT] = True
    max_hash_slot_num: Annotated[int, COUNT] = 5_000_000
    max_index_num: Annotated[int, Option(low=2)] = 20_000_000
    max_msgs_num_batch: Annotated[int, FOUND_AT_ONCE] = 64
    ha_listen_port: Annotated[int, Option(high=65_535)] = 0
    broker_role: Annotated[
        str,
        Option(choices=("ASYNC_MASTER", "SYNC_MASTER"), reason=NO_REPLICATION, important=True),
    ] = "ASYNC_MASTER"
    flush_disk_type: Annotated[
        str, Option(choices=("ASYNC_FLUSH", "SYNC_FLUSH"), important=True)
    ] = "ASYNC_FLUSH"
    sync_flush_timeout: Annotated[int, Option(low=1, changeable=True)] = 5_000  # ms
    message_delay_level: Annotated[str, Option(check=_check_delay_levels)] = DELAY_LEVELS
    flush_delay_offset_interval: Annotated[int, LATER] = 10_000
    clean_file_forcibly_enable: Annotated[bool, Option(changeable=True, important=True)] = True
    os_page_cache_busy_time_out_mills: Annotated[int, LONG] = 1_000
    default_query_max_num: Annotated[int, FOUND_AT_ONCE] = 32
    enable_d_leger_commit_log: Annotated[
        bool, Option(key="enableDLegerCommitLog", choices=("false",), reason=NO_REPLICATION)
    ] = False
    enable_lmq: Annotated[bool, OFF] = False
    enable_multi_dispatch: Annotated[bool, OFF] = False
    enabled_append_prop_crc: Annotated[bool, Option(key="enabledAppendPropCRC")] = True
    """A checksum over the whole of each record. Java's default is off, and it reads both."""
    in_sync_replicas: Annotated[int, ONE_REPLICA] = 1
    min_in_sync_replicas: Annotated[int, ONE_REPLICA] = 1
    all_ack_in_sync_state_set: Annotated[
        bool, Option(choices=("false",), reason=NO_REPLICATION)
    ] = False

    dedup_ids_max: Annotated[int, Option(low=1, high=100_000_000, java=False)] = 1_000_000
    """Ids that dedup windows of all topics hold, of about 35 bytes each."""

    listen_port: Annotated[int, LISTEN_PORT] = 10_911

    derived: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    """The fields that were left empty and follow from others."""

    def __post_init__(self) -> None:
        empty = ("", Path(), 0)
        self.derived = {name for name in _DERIVED if getattr(self, name) in empty}
        self._complete()

    @property
    def address(self) -> str:
        """Where clients reach this broker, unless the port is still to be picked."""
        return f"{self.broker_ip1}:{self.listen_port}"

    @property
    def register_period_ms(self) -> int:
        """registerNameServerPeriod within Java's bounds."""
        low, high = _REGISTER_PERIOD_MS
        return max(low, min(self.register_name_server_period, high))

    def load(self, properties: Mapping[str, str]) -> list[str]:
        """As Config says. A master's brokerId is 0, as in Java: another one does nothing."""
        unused = ServerConfig.load(self, properties)
        is_other = properties.get("brokerId", "0").strip() != "0"
        return [*unused, "brokerId"] if is_other else unused

    def _take(self, name: str, value: Value) -> None:
        self.derived.discard(name)
        setattr(self, name, value)

    def _complete(self) -> None:
        self.broker_id = 0
        root = self.store_path_root_dir
        own = self.bind_address if self.bind_address not in _ANY_ADDRESS else ""
        found: dict[str, Value] = {
            "broker_ip1": own or local_address(),
            "broker_ip2": own or local_address(),
            "ha_listen_port": self.listen_port and self.listen_port + 1,
            "store_path_commit_log": root / "commitlog",
            "broker_config_path": root / "config" / "broker.properties",
        }
        for name in self.derived:
            setattr(self, name, found[name])
        if self.store_path_commit_log.absolute() != (root / "commitlog").absolute():
            raise ConfigError(
                f"storePathCommitLog is {self.store_path_commit_log}; it can only be"
                f" {root / 'commitlog'}, in storePathRootDir"
            )


_DERIVED: Final = (
    "broker_ip1", "broker_ip2", "ha_listen_port", "store_path_commit_log", "broker_config_path",
)  # fmt: skip

FIELDS = fields_of(BrokerConfig)
"""Every option by its key in the property file."""
