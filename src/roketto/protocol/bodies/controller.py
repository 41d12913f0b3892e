"""Controllers: who leads a broker name, which replicas are in sync, the epochs of their logs."""

from msgspec import field

from roketto.protocol.bodies.base import Body, Int, Long
from roketto.protocol.bodies.route import BrokerMemberGroup

__all__ = [
    "BrokerReplicasInfo",
    "ElectMasterResponseBody",
    "EpochEntry",
    "EpochEntryCache",
    "ReplicaIdentity",
    "ReplicasInfo",
    "RoleChangeNotifyEntry",
    "SyncStateSet",
]


class SyncStateSet(Body):
    """The broker ids that hold everything their master has confirmed."""

    sync_state_set: list[Long] = field(default_factory=list)
    sync_state_set_epoch: Int = 0


class ElectMasterResponseBody(Body):
    """The members of a broker name after an election."""

    broker_member_group: BrokerMemberGroup | None = None
    sync_state_set: list[Long] = field(default_factory=list)


class RoleChangeNotifyEntry(Body):
    """An election as its brokers are told about it."""

    broker_member_group: BrokerMemberGroup | None = None
    master_address: str | None = None
    master_broker_id: Long | None = None
    master_epoch: Int = 0
    sync_state_set: list[Long] = field(default_factory=list)
    sync_state_set_epoch: Int = 0


class EpochEntry(Body):
    """The stretch of a log that one master wrote; the last one is open and ends at 2^63 - 1."""

    end_offset: Long = 2**63 - 1
    epoch: Int = 0
    start_offset: Long = 0


class EpochEntryCache(Body):
    """The epochs of one broker's log."""

    broker_id: Long = 0
    broker_name: str = ""
    cluster_name: str = ""
    epoch_list: list[EpochEntry] = field(default_factory=list)
    max_offset: Long = 0


class ReplicaIdentity(Body):
    """One replica."""

    alive: bool | None = None
    broker_address: str | None = None
    broker_id: Long | None = None
    broker_name: str | None = None


class ReplicasInfo(Body):
    """One broker name: its master, and who follows closely enough."""

    in_sync_replicas: list[ReplicaIdentity] = field(default_factory=list)
    master_address: str | None = None
    master_broker_id: Long | None = None
    master_epoch: Int | None = None
    not_in_sync_replicas: list[ReplicaIdentity] = field(default_factory=list)
    sync_state_set_epoch: Int | None = None


class BrokerReplicasInfo(Body):
    """The answer to GET_SYNC_STATE_DATA, by broker name."""

    replicas_info_table: dict[str, ReplicasInfo] = field(default_factory=dict)
