"""How groups are to fetch the messages of topics, by pull or by pop (401, 402).

It is kept for operators and for Java's brokers, which go on with our tables: messages are not
popped here, and clients that share out queues among themselves do not ask.
"""

import logging
from collections.abc import Mapping
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.protocol.bodies.assignment import SetMessageRequestModeRequestBody
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.protocol.names import is_retry_topic
from roketto.remoting.connection import Connection

log = logging.getLogger(__name__)


def set_mode(context: Context, connection: Connection, request: Command) -> Command:
    """401: say how a group fetches the messages of a topic."""
    said = decode_body(SetMessageRequestModeRequestBody, request.body)
    if is_retry_topic(said.topic):
        raise RequestError(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    if context.topics.get(said.topic) is None:
        reason = f"topic[{said.topic[:255]}] not exist"
        raise RequestError(ResponseCode.TOPIC_NOT_EXIST, reason)
    if context.groups.find(said.consumer_group) is None:
        reason = f"subscription group does not exist: {said.consumer_group[:255]!a}; create it"
        raise RequestError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, reason)
    context.modes.put(said)
    log.info("%s sets %s", connection.peer, said)
    return request.answer()


def get_modes(context: Context, connection: Connection, request: Command) -> Command:
    """402: all of them, as slaves fetch them."""
    return request.answer(body=encode_body(context.modes.body))


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.SET_MESSAGE_REQUEST_MODE: set_mode,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: get_modes,
}
