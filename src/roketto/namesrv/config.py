"""The name server's configuration: RocketMQ's keys, their ranges, what may change at run time."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from roketto.options import CHANGEABLE, FIXED, OFF, UNUSED, Option, fields_of
from roketto.server_options import (
    LISTEN_PORT,
    NETTY_CLIENT_KEYS,
    NETTY_CLIENT_SPELLINGS,
    ServerConfig,
)


def _in_home(name: str) -> Path:
    return Path.home() / "namesrv" / name


@dataclass(slots=True)
class NamesrvConfig(ServerConfig):
    """Java's NamesrvConfig; every server's options follow."""

    program = "mqnamesrv"
    other_spellings = NETTY_CLIENT_SPELLINGS
    keys_without_effect = dict.fromkeys(NETTY_CLIENT_KEYS)

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
    listen_port: Annotated[int, LISTEN_PORT] = 9876


FIELDS = fields_of(NamesrvConfig)
"""Every option by its key in the property file."""
