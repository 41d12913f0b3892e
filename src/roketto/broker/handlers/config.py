"""The configuration of a broker: shown as mqadmin shows it, and changed while it runs (25, 26)."""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.broker.settings import busy_after_s, retention_settings, transfer_limits
from roketto.options import Value
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import encode_header
from roketto.protocol.headers.broker_config import GetBrokerConfigResponse
from roketto.protocol.properties_text import format_properties
from roketto.remoting.connection import Connection

log = logging.getLogger(__name__)

_TOLD_TO_NAME_SERVERS: Final = {"broker_permission", "auto_create_topic_enable"}


def get_config(context: Context, connection: Connection, request: Command) -> Command:
    """The whole configuration as properties; secrets are left out."""
    items = dict(sorted(context.config.items(java_only=True)))
    version = encode_body(context.config_file.version).decode()
    return request.answer(
        ext=encode_header(GetBrokerConfigResponse(version=version)),
        body=format_properties(items).encode(),
    )


async def update_config(context: Context, connection: Connection, request: Command) -> Command:
    """Change what may change at run time; what may is said by the fields of BrokerConfig."""
    properties = await context.config_file.update(request.body, partial(apply, context))
    log.info("%s changed the configuration: %.255r", connection.peer, properties)
    return request.answer()


def apply(context: Context, changed: Mapping[str, Value]) -> None:
    """Bring what has changed to those who do not look at the configuration all the time."""
    config = context.config
    context.sending.configure(config)
    context.durability.timeout_s = config.sync_flush_timeout / 1000
    context.durability.busy_after_s = busy_after_s(config)
    context.store.retention.settings = retention_settings(config)
    context.store.limits = transfer_limits(config)
    if changed.get("auto_create_topic_enable"):
        context.topics.create_system_topics()  # the model of those that are made on first use
    if changed.keys() & _TOLD_TO_NAME_SERVERS:
        context.topics.renew()


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.UPDATE_BROKER_CONFIG: update_config,
    RequestCode.GET_BROKER_CONFIG: get_config,
}
