"""Consumer groups as operators see them: create, change, delete, list."""

import logging
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from roketto.broker.attributes import GROUP_ATTRIBUTES, change
from roketto.broker.context import Context, Handler
from roketto.broker.groups import READ_FORBIDDEN
from roketto.broker.pages import Page, page_of
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.groups import (
    GroupForbidden,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
)
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.groups import (
    DeleteSubscriptionGroupRequest,
    GetAllSubscriptionGroupRequest,
    GetAllSubscriptionGroupResponse,
    GetSubscriptionGroupConfigRequest,
    UpdateGroupForbiddenRequest,
)
from roketto.protocol.names import check_group, path_component
from roketto.remoting.connection import Connection

log = logging.getLogger(__name__)

RETRY_QUEUES_MAX: Final = 65_535
"""Queues of one retry topic, as of any other."""


def update(context: Context, connection: Connection, request: Command) -> Command:
    """Create a group, or replace its configuration."""
    if request.body:
        asked = decode_body(SubscriptionGroupConfig, request.body)
        _check(asked)
        _put(context, _resolve(context, asked))
    return request.answer()


def update_list(context: Context, connection: Connection, request: Command) -> Command:
    """The same for several groups: all of them, or none if one may not be."""
    asked = decode_body(SubscriptionGroupList, request.body).group_config_list
    for group in asked:
        _check(group)
    for group in [_resolve(context, group) for group in asked]:
        _put(context, group)
    return request.answer()


def _check(group: SubscriptionGroupConfig) -> None:
    check_group(group.group_name)
    if not 0 <= group.retry_queue_nums <= RETRY_QUEUES_MAX:
        reason = (
            f"group {group.group_name} would have {group.retry_queue_nums} retry queues; "
            f"write 0..{RETRY_QUEUES_MAX}"
        )
        raise RequestError(ResponseCode.INVALID_PARAMETER, reason)


def _resolve(context: Context, asked: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
    """The configuration with the attributes that its changes lead to."""
    current = context.groups.get(asked.group_name)
    before = None if current is None else current.attributes
    return replace(asked, attributes=change(GROUP_ATTRIBUTES, before, asked.attributes))


def _put(context: Context, group: SubscriptionGroupConfig) -> None:
    if context.groups.get(group.group_name) != group:
        context.groups.put(group)
        log.info("an operator sets %s", group)


def delete(context: Context, connection: Connection, request: Command) -> Command:
    """Delete a group, and its offsets if that was asked for."""
    said = decode_header(DeleteSubscriptionGroupRequest, request.ext)
    context.groups.remove(said.group_name)
    if said.clean_offset or said.remove_offset:
        context.offsets.remove_group(said.group_name)
    context.stats.forget_group(said.group_name)
    log.info("%s deletes group %.255r", connection.peer, said.group_name)
    return request.answer()


def get(context: Context, connection: Connection, request: Command) -> Command:
    """The configuration of one group, which is made by asking for it, as in Java."""
    name = decode_header(GetSubscriptionGroupConfigRequest, request.ext).group
    group = context.groups.find(name)
    if group is None:
        reason = f"No group in this broker: {name[:255]!a}"
        raise RequestError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, reason)
    return request.answer(body=encode_body(group))


def get_all(context: Context, connection: Connection, request: Command) -> Command:
    """The configurations of all groups, or of one page of them."""
    said = decode_header(GetAllSubscriptionGroupRequest, request.ext)
    groups = context.groups
    page = Page(said.group_seq, said.max_group_num, said.data_version)
    names = page_of(groups.groups, page, groups.data_version)
    answer = GetAllSubscriptionGroupResponse(total_group_num=len(groups.groups))
    return request.answer(ext=encode_header(answer), body=encode_body(groups.wrapper(names)))


def forbid(context: Context, connection: Connection, request: Command) -> Command:
    """Let a group read a topic or not, if that is asked for; tell whether it may.

    Java forgets everything else that the group may not read when one topic is allowed again.
    """
    said = decode_header(UpdateGroupForbiddenRequest, request.ext)
    group, topic = said.group, said.topic
    bits = context.groups.forbidden(group, topic)
    if said.readable is not None:
        check_group(group)
        path_component(topic)
        bits = bits & ~READ_FORBIDDEN if said.readable else bits | READ_FORBIDDEN
        context.groups.forbid(group, topic, bits)
        log.info("%s: group %s may read %s: %s", connection.peer, group, topic, said.readable)
    body = GroupForbidden(group, not bits & READ_FORBIDDEN, topic)
    return request.answer(body=encode_body(body), remark="")


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: update,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: update_list,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: delete,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: get,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: get_all,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: forbid,
}
