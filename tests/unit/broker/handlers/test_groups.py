"""Groups over the wire: created, replaced, deleted and shown as mqadmin asks for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.handlers import groups as handlers
from roketto.protocol.bodies.groups import (
    GroupForbidden,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
)
from roketto.protocol.codes import ResponseCode
from unit.broker.clients_rig import ClientsRig, route

UPDATE = route(handlers.ROUTES, 200)
GET_ALL = route(handlers.ROUTES, 201)
DELETE = route(handlers.ROUTES, 207)
UPDATE_LIST = route(handlers.ROUTES, 225)
GET = route(handlers.ROUTES, 352)
FORBID = route(handlers.ROUTES, 353)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[ClientsRig]:
    rig = ClientsRig(tmp_path)
    yield rig
    rig.close()


def test_a_group_is_created_and_replaced(rig: ClientsRig) -> None:
    """An update replaces all of it; the same again changes nothing."""
    rig.ask(UPDATE, {}, SubscriptionGroupConfig(group_name="G", retry_max_times=3))
    said = SubscriptionGroupConfig(group_name="G", consume_enable=False)
    assert rig.ask(UPDATE, {}, said).code == 0
    assert rig.context.groups.get("G") == said
    version = rig.context.groups.data_version.counter
    assert rig.ask(UPDATE, {}, said).code == 0
    assert rig.context.groups.data_version.counter == version
    assert rig.ask(UPDATE, {}).code == 0


@pytest.mark.parametrize(
    ("group", "code"),
    [
        (SubscriptionGroupConfig(group_name="no such name"), ResponseCode.INVALID_PARAMETER),
        (SubscriptionGroupConfig(group_name="g" * 121), ResponseCode.INVALID_PARAMETER),
        (SubscriptionGroupConfig(), ResponseCode.INVALID_PARAMETER),
        (
            SubscriptionGroupConfig(group_name="G", retry_queue_nums=70_000),
            ResponseCode.INVALID_PARAMETER,
        ),
        (
            SubscriptionGroupConfig(group_name="G", attributes={"+a": "1"}),
            ResponseCode.SYSTEM_ERROR,
        ),
    ],
)
def test_what_may_not_be_is_refused(
    rig: ClientsRig, group: SubscriptionGroupConfig, code: ResponseCode
) -> None:
    """Alone and in a list, of which then nothing is stored."""
    assert rig.refuse(UPDATE, {}, group)[0] == code
    many = SubscriptionGroupList([SubscriptionGroupConfig(group_name="H"), group])
    assert rig.refuse(UPDATE_LIST, {}, many)[0] == code
    assert not rig.context.groups.groups


def test_several_groups_are_created_together(rig: ClientsRig) -> None:
    """mqadmin updateSubGroupList."""
    many = [SubscriptionGroupConfig(group_name=name) for name in ("G", "H")]
    assert rig.ask(UPDATE_LIST, {}, SubscriptionGroupList(many)).code == 0
    assert list(rig.context.groups.groups) == ["G", "H"]


@pytest.mark.parametrize(
    ("said", "has_offset"),
    [({}, True), ({"cleanOffset": "true"}, False), ({"removeOffset": "true"}, False)],
)
def test_a_deleted_group_keeps_its_offsets_unless_asked(
    rig: ClientsRig, said: dict[str, object], has_offset: bool
) -> None:
    """5.x says cleanOffset, 4.x removeOffset."""
    rig.context.groups.find("G")
    rig.context.offsets.commit("T", "G", 0, 1)
    assert rig.ask(DELETE, {"groupName": "G", **said}).code == 0
    assert rig.context.groups.get("G") is None
    assert (rig.context.offsets.get("T", "G", 0) is not None) == has_offset


def test_one_group_is_shown_and_made_if_it_may_be(rig: ClientsRig) -> None:
    """As in Java; 26 where groups are not made on first use."""
    group = rig.read(SubscriptionGroupConfig, GET, {"group": "G"})
    assert group == rig.context.groups.get("G")
    rig.context.config.auto_create_subscription_group = False
    code, _ = rig.refuse(GET, {"group": "H"})
    assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_all_groups_are_shown(rig: ClientsRig) -> None:
    """At once for old callers, page by page for new ones."""
    rig.context.groups.find("H")
    rig.context.groups.find("G")
    assert rig.ask(GET_ALL).ext == {"totalGroupNum": "2"}
    body = rig.read(SubscriptionGroupWrapper, GET_ALL, {})
    assert sorted(body.subscription_group_table) == ["G", "H"]
    assert body.data_version == rig.context.groups.data_version
    said: dict[str, object] = {"groupSeq": 0, "maxGroupNum": 1, "dataVersion": ""}
    page = rig.read(SubscriptionGroupWrapper, GET_ALL, said)
    assert list(page.subscription_group_table) == ["G"]


def test_a_group_may_be_kept_from_a_topic(rig: ClientsRig) -> None:
    """Asked without a word about it, it stays as it is; other topics are not touched."""

    def forbid(topic: str, readable: str | None) -> GroupForbidden:
        said = {"group": "G", "topic": topic} | ({} if readable is None else {"readable": readable})
        return rig.read(GroupForbidden, FORBID, said)

    assert forbid("T", None) == GroupForbidden("G", True, "T")
    assert forbid("T", "false") == GroupForbidden("G", False, "T")
    assert forbid("U", "false") == GroupForbidden("G", False, "U")
    assert forbid("T", None) == GroupForbidden("G", False, "T")
    assert forbid("T", "true") == GroupForbidden("G", True, "T")
    assert forbid("U", None) == GroupForbidden("G", False, "U")


@pytest.mark.parametrize(("group", "topic"), [("no name", "T"), ("G", "../T")])
def test_what_has_no_legal_name_is_not_remembered(rig: ClientsRig, group: str, topic: str) -> None:
    said: dict[str, object] = {"group": group, "topic": topic, "readable": "false"}
    code, _ = rig.refuse(FORBID, said)
    assert code == ResponseCode.INVALID_PARAMETER
    assert not rig.context.groups.wrapper().forbidden_table
