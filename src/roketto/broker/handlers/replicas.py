"""How replication is doing, asked of a broker that is its only replica (907, 908)."""

from collections.abc import Mapping
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.ha import HAClientRuntimeInfo, HARuntimeInfo
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.replication import ResetMasterFlushOffsetRequest
from roketto.remoting.connection import Connection


def get_status(context: Context, connection: Connection, request: Command) -> Command:
    """907: a master, how far its log goes, and no slaves."""
    body = HARuntimeInfo(
        ha_client_runtime_info=HAClientRuntimeInfo(),
        master=True,
        master_commit_log_max_offset=context.store.log.max_offset,
    )
    return request.answer(body=encode_body(body))


def reset_flush_offset(context: Context, connection: Connection, request: Command) -> Command:
    """908: for slaves; a master takes note of nothing, as in Java."""
    decode_header(ResetMasterFlushOffsetRequest, request.ext)
    return request.answer()


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.GET_BROKER_HA_STATUS: get_status,
    RequestCode.RESET_MASTER_FLUSH_OFFSET: reset_flush_offset,
}
