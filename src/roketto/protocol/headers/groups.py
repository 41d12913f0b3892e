"""Headers of subscription groups: configurations, deletion, forbidden topics."""

from roketto.protocol.headers.base import I32, Header, RpcHeader, TopicHeader


class GetAllSubscriptionGroupRequest(Header, kw_only=True):
    """201: one page of the groups; a slave of before 5.4 sends no field and wants them all."""

    group_seq: I32 | None = None
    """How many groups the caller has already."""
    data_version: str | None = None
    max_group_num: I32 | None = None


class GetAllSubscriptionGroupResponse(Header, kw_only=True):
    """201: absent when the body holds them all."""

    total_group_num: I32 | None = None


class GetSubscriptionGroupConfigRequest(RpcHeader, kw_only=True):
    """352."""

    group: str


class DeleteSubscriptionGroupRequest(RpcHeader, kw_only=True):
    """207."""

    group_name: str
    clean_offset: bool = False
    """Also forget the group's offsets."""
    remove_offset: bool = False
    """What 4.x calls the same; a tool sets both to be understood by both."""


class UpdateGroupForbiddenRequest(TopicHeader, kw_only=True):
    """353: whether a group may read a topic."""

    group: str
    topic: str
    readable: bool | None = None
