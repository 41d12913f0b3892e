"""Headers between master and slave: who and where the master is, how far it has flushed."""

from roketto.protocol.headers.base import I64, Header


class ExchangeHaInfoRequest(Header, kw_only=True):
    """906: without an address it asks the master, with one it tells a slave."""

    master_ha_address: str | None = None
    master_flush_offset: I64 | None = None
    master_address: str | None = None


class ExchangeHaInfoResponse(Header, kw_only=True):
    """906."""

    master_ha_address: str | None = None
    master_flush_offset: I64 | None = None
    master_address: str | None = None


class ResetMasterFlushOffsetRequest(Header, kw_only=True):
    """908."""

    master_flush_offset: I64
