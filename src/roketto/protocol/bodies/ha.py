"""How replication is doing, seen from a master or from a slave."""

from msgspec import field

from roketto.protocol.bodies.base import Body, Int, Long

__all__ = ["HAClientRuntimeInfo", "HAConnectionRuntimeInfo", "HARuntimeInfo"]


class HAConnectionRuntimeInfo(Body):
    """One slave as its master sees it."""

    addr: str | None = None
    diff: Long = 0
    in_sync: bool = False
    slave_ack_offset: Long = 0
    transfer_from_where: Long = 0
    transferred_byte_in_second: Long = 0


class HAClientRuntimeInfo(Body):
    """The master as a slave sees it."""

    last_read_timestamp: Long = 0
    last_write_timestamp: Long = 0
    master_addr: str | None = None
    master_flush_offset: Long = 0
    max_offset: Long = 0
    transferred_byte_in_second: Long = 0


class HARuntimeInfo(Body):
    """The answer to GET_BROKER_HA_STATUS."""

    ha_client_runtime_info: HAClientRuntimeInfo | None = None
    ha_connection_info: list[HAConnectionRuntimeInfo] = field(default_factory=list)
    in_sync_slave_nums: Int = 0
    master: bool = False
    master_commit_log_max_offset: Long = 0
