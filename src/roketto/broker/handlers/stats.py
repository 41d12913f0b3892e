"""What was counted for a topic, a group or the broker, by the names that Java gives it (315)."""

from collections.abc import Mapping
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.broker.stats_names import find_item
from roketto.broker.stats_window import Figures
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.stats import BrokerStatsData, BrokerStatsItem
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.stats import ViewBrokerStatsDataRequest
from roketto.remoting.connection import Connection

_SHOWN_CHARS_MAX: Final = 255
"""Of a name or a key that there is no item for."""


def view_stats(context: Context, connection: Connection, request: Command) -> Command:
    """315: sum, rate and average of the last minute, hour and day."""
    said = decode_header(ViewBrokerStatsDataRequest, request.ext)
    cluster = context.config.broker_cluster_name
    item = find_item(context.stats, cluster, said.stats_name, said.stats_key)
    if item is None:
        name, key = said.stats_name[:_SHOWN_CHARS_MAX], said.stats_key[:_SHOWN_CHARS_MAX]
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
    data = BrokerStatsData(
        stats_day=_shown(item.day), stats_hour=_shown(item.hour), stats_minute=_shown(item.minute)
    )
    return request.answer(body=encode_body(data))


def _shown(figures: Figures) -> BrokerStatsItem:
    return BrokerStatsItem(avgpt=figures.average, sum=figures.sum, tps=figures.tps)


ROUTES: Final[Mapping[RequestCode, Handler]] = {RequestCode.VIEW_BROKER_STATS_DATA: view_stats}
