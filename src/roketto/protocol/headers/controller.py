"""Headers of the controller, which elects the master of each replica group.

``invoke_timestamp`` is the sender's clock; Java's receiver takes its own where it is absent.
"""

from msgspec import field

from roketto.protocol.headers.base import I32, I64, Header


class AlterSyncStateSetRequest(Header, kw_only=True):
    """1001: the master tells who is in sync."""

    broker_name: str | None = None
    master_broker_id: I64 | None = None
    master_epoch: I32 | None = None
    invoke_timestamp: I64 | None = field(name="invokeTime", default=None)


class AlterSyncStateSetResponse(Header, kw_only=True):
    """1001."""

    new_sync_state_set_epoch: I32 = 0


class ElectMasterRequest(Header, kw_only=True):
    """1002."""

    cluster_name: str = ""
    broker_name: str = ""
    broker_id: I64 = -1
    designate_elect: bool = False
    invoke_timestamp: I64 | None = field(name="invokeTime", default=None)


class ElectMasterResponse(Header, kw_only=True):
    """1002."""

    master_broker_id: I64 | None = None
    master_address: str | None = None
    master_epoch: I32 | None = None
    sync_state_set_epoch: I32 | None = None


class RegisterBrokerToControllerRequest(Header, kw_only=True):
    """1003."""

    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: I64 | None = None
    broker_address: str | None = None
    invoke_timestamp: I64 = field(name="invokeTime", default=0)


class RegisterBrokerToControllerResponse(Header, kw_only=True):
    """1003."""

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: I64 | None = None
    master_address: str | None = None
    master_epoch: I32 | None = None
    sync_state_set_epoch: I32 | None = None


class GetReplicaInfoRequest(Header, kw_only=True):
    """1004."""

    broker_name: str | None = None


class GetReplicaInfoResponse(Header, kw_only=True):
    """1004."""

    master_broker_id: I64 | None = None
    master_address: str | None = None
    master_epoch: I32 | None = None


class GetMetaDataResponse(Header, kw_only=True):
    """1005."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None
    """``id:address`` of each, with a semicolon after each."""


class NotifyBrokerRoleChangedRequest(Header, kw_only=True):
    """1008, one-way, to brokers."""

    master_address: str | None = None
    master_epoch: I32 | None = None
    sync_state_set_epoch: I32 | None = None
    master_broker_id: I64 | None = None


class CleanControllerBrokerDataRequest(Header, kw_only=True):
    """1011."""

    cluster_name: str | None = None
    broker_name: str
    broker_controller_ids_to_clean: str | None = None
    """Joined by semicolons."""
    is_clean_living_broker: bool = False
    invoke_timestamp: I64 | None = field(name="invokeTime", default=None)


class GetNextBrokerIdRequest(Header, kw_only=True):
    """1012."""

    cluster_name: str | None = None
    broker_name: str | None = None


class GetNextBrokerIdResponse(Header, kw_only=True):
    """1012."""

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: I64 | None = None


class ApplyBrokerIdRequest(Header, kw_only=True):
    """1013."""

    cluster_name: str | None = None
    broker_name: str | None = None
    applied_broker_id: I64 | None = None
    register_check_code: str | None = None
    """``address;timestamp``: proves on a retry that the id was given to this broker."""


class ApplyBrokerIdResponse(Header, kw_only=True):
    """1013."""

    cluster_name: str | None = None
    broker_name: str | None = None
