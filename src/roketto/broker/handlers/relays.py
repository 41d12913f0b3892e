"""What operators ask of consumers by way of the broker.

How they are (307), where they stand (223), and to consume one message now (309).
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from roketto.broker.consumer_group import Member
from roketto.broker.context import Context, Handler
from roketto.broker.handlers.queries import read_message
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.offsets import GetConsumerStatusBody
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Body, Command
from roketto.protocol.errors import RecordError, RequestError
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.pushes import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
    GetConsumerStatusRequest,
)
from roketto.protocol.ids import decode_offset_id
from roketto.protocol.signing import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE
from roketto.protocol.versions import V3_0_7_SNAPSHOT, V3_1_8_SNAPSHOT, version_name
from roketto.remoting.connection import Connection, Reply
from roketto.remoting.errors import RemotingError, RequestTimeoutError

log = logging.getLogger(__name__)

RELAY_TIMEOUT_MS: Final = 10_000
"""How long a consumer may take, as in Java; operators wait longer."""
STATUS_TIMEOUT_MS: Final = 5_000
ASKED_AT_ONCE: Final = 32
"""Members of a group that are asked where they stand at the same time."""

_OF_THE_OPERATOR: Final = frozenset({ACCESS_KEY, SECURITY_TOKEN, SIGNATURE})
"""Fields that say who asks; Java passes them on to the consumer."""

Offsets = dict[MessageQueue, int]


def get_running_info(context: Context, connection: Connection, request: Command) -> Reply:
    """307: what a consumer has, does and is configured with, in its own words."""
    said = decode_header(GetConsumerRunningInfoRequest, request.ext)
    member = _find(context, said.consumer_group, said.client_id)
    command = Command(RequestCode.GET_CONSUMER_RUNNING_INFO, _fields(request), request.body)
    return _relay(context, request, command, said.consumer_group, member)


def consume_directly(context: Context, connection: Connection, request: Command) -> Reply:
    """309: let a consumer have a message now, whatever its offsets; how that went."""
    said = decode_header(ConsumeMessageDirectlyRequest, request.ext)
    group = context.groups.find(said.consumer_group)
    fields = _fields(request)
    fields["brokerName"] = context.config.broker_name
    topic = context.topics.get(said.topic) if said.topic else None
    if topic is not None:
        fields["topicSysFlag"] = str(topic.topic_sys_flag)
    if group is not None:
        fields["groupSysFlag"] = str(group.group_sys_flag)
    body = _message(context, said.msg_id)
    member = _find(context, said.consumer_group, said.client_id)
    command = Command(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields, body)
    return _relay(context, request, command, said.consumer_group, member)


def _message(context: Context, message_id: str | None) -> Body:
    if message_id is None:
        raise RequestError(ResponseCode.SYSTEM_ERROR, "which message is to be consumed: no msgId")
    try:
        log_offset = decode_offset_id(message_id).log_offset
    except RecordError as error:
        raise RequestError(ResponseCode.SYSTEM_ERROR, str(error)) from error
    return read_message(context, log_offset)


def _fields(request: Command) -> dict[str, str]:
    fields = request.ext or {}
    return {name: value for name, value in fields.items() if name not in _OF_THE_OPERATOR}


def _find(context: Context, group: str, client_id: str | None) -> Member:
    """The consumer that is meant; RequestError if it is not here, or too old."""
    found = context.clients.consumer_group(group)
    member = None if found is None or client_id is None else found.find(client_id)
    shown = "null" if client_id is None else client_id[:255]
    if member is None:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, f"The Consumer <{group[:255]}> <{shown}> not online"
        )
    if member.version < V3_1_8_SNAPSHOT:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"The Consumer <{shown}> Version <{version_name(member.version)}> too low to finish,"
            " please upgrade it to V3_1_8_SNAPSHOT",
        )
    return member


async def _relay(
    context: Context, request: Command, command: Command, group: str, member: Member
) -> Command:
    try:
        answer = await context.relays.ask(member, command, RELAY_TIMEOUT_MS)
    except RequestTimeoutError as late:
        reason = f"consumer <{group}> <{member.client_id}> Timeout: {late}"
        raise RequestError(ResponseCode.CONSUME_MSG_TIMEOUT, reason) from late
    except RemotingError as error:
        reason = f"invoke consumer <{group}> <{member.client_id}> Exception: {error}"
        raise RequestError(ResponseCode.SYSTEM_ERROR, reason) from error
    return request.answer(answer.code, answer.ext, answer.body, answer.remark)


# --- where they stand -----------------------------------------------------------------------------


def get_status(context: Context, connection: Connection, request: Command) -> Reply:
    """223: the offsets in a topic that the members of a group know, all of them or one."""
    said = decode_header(GetConsumerStatusRequest, request.ext)
    group = context.clients.consumer_group(said.group)
    if group is None:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"No Any Consumer online in the consumer group: [{said.group[:255]}]",
        )
    for member in group.members:
        if member.version < V3_0_7_SNAPSHOT:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"the client does not support this feature. version={version_name(member.version)}",
            )
    members = group.members
    if said.client_addr is not None and said.client_addr.strip():
        one = group.find(said.client_addr)
        members = [] if one is None else [one]
    return _ask_members(context, request, said, members)


async def _ask_members(
    context: Context, request: Command, said: GetConsumerStatusRequest, members: list[Member]
) -> Command:
    """Who does not answer is left out, as in Java."""
    table: dict[str, Offsets] = {}
    for at in range(0, len(members), ASKED_AT_ONCE):
        some = members[at : at + ASKED_AT_ONCE]
        answers = await asyncio.gather(*(_ask_status(context, said, one) for one in some))
        for member, offsets in zip(some, answers, strict=True):
            if offsets is not None:
                table[member.client_id] = offsets
    return request.answer(body=encode_body(GetConsumerStatusBody(consumer_table=table)))


async def _ask_status(
    context: Context, said: GetConsumerStatusRequest, member: Member
) -> Offsets | None:
    ext = encode_header(GetConsumerStatusRequest(topic=said.topic, group=said.group))
    command = Command(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ext)
    try:
        answer = await context.relays.ask(member, command, STATUS_TIMEOUT_MS)
        if answer.code != ResponseCode.SUCCESS or not answer.body:
            return None
        return decode_body(GetConsumerStatusBody, answer.body).message_queue_table
    except (RemotingError, RequestError) as error:
        log.warning("%.255r does not say where it stands: %s", member.client_id, error)
        return None


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.GET_CONSUMER_RUNNING_INFO: get_running_info,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: consume_directly,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: get_status,
}
