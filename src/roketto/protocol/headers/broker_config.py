"""Headers of a broker's configuration, its store's switches and its container."""

from msgspec import field

from roketto.protocol.headers.base import I32, I64, Header


class GetBrokerConfigResponse(Header, kw_only=True):
    """26: the version of the configuration, which is the body."""

    version: str


class ExportRocksDbConfigToJsonRequest(Header, kw_only=True):
    """355."""

    config_type: str
    """Of topics, subscriptionGroups and consumerOffsets, joined by semicolons."""


class SetCommitLogReadModeRequest(Header, kw_only=True):
    """2004: Java has no class for this."""

    read_ahead_mode: I32 | None = field(name="READ_AHEAD_MODE", default=None)
    """0 normal, 1 random."""


class SwitchTimerEngineRequest(Header, kw_only=True):
    """5001: Java has no class for this."""

    engine_type: str | None = field(name="E_T", default=None)
    """R for RocksDB, F for files."""


class AddBrokerRequest(Header, kw_only=True):
    """902, to a container."""

    config_path: str | None = None


class RemoveBrokerRequest(Header, kw_only=True):
    """903, to a container."""

    broker_name: str
    broker_cluster_name: str
    broker_id: I64
