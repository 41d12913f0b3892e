"""Proves that codes and languages are the Java peer's and that every request has a permission."""

import json
from pathlib import Path
from typing import Any

import pytest

from roketto.protocol.codes import (
    OURS,
    REQUEST_PERMISSION,
    UNSERVED,
    LanguageCode,
    Permission,
    RequestCode,
    ResponseCode,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "headers"
PEERS: dict[str, dict[str, Any]] = {
    version: json.loads((GOLDEN / f"peer-{version}.json").read_text())
    for version in ("5.5.0", "4.9.7")
}

# What our kinds are stricter about, or more precise, than the annotation of Java's header class.
PERMISSION_UNLIKE_JAVA = {
    # Sent to clients; Java annotates them as if clients sent them.
    RequestCode.CHECK_TRANSACTION_STATE: Permission.PUSH,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: Permission.PUSH,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: Permission.PUSH,
    RequestCode.NOTIFY_UNSUBSCRIBE_LITE: Permission.PUSH,
    # Every client needs routes; Java's rules for it are in code, not in the annotation.
    RequestCode.GET_ROUTEINFO_BY_TOPIC: Permission.ROUTE,
    # Users and rules hold secrets, and the export writes files.
    RequestCode.AUTH_GET_USER: Permission.ADMIN,
    RequestCode.AUTH_LIST_USER: Permission.ADMIN,
    RequestCode.AUTH_GET_ACL: Permission.ADMIN,
    RequestCode.AUTH_LIST_ACL: Permission.ADMIN,
    RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON: Permission.ADMIN,
    # Only servers of the cluster have a use for these.
    RequestCode.REGISTER_BROKER: Permission.INTERNAL,
    RequestCode.UNREGISTER_BROKER: Permission.INTERNAL,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: Permission.INTERNAL,
    RequestCode.QUERY_DATA_VERSION: Permission.INTERNAL,
    RequestCode.GET_BROKER_MEMBER_GROUP: Permission.INTERNAL,
    RequestCode.BROKER_HEARTBEAT: Permission.INTERNAL,
    RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: Permission.INTERNAL,
    RequestCode.EXCHANGE_BROKER_HA_INFO: Permission.INTERNAL,
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: Permission.INTERNAL,
    RequestCode.CONTROLLER_ELECT_MASTER: Permission.INTERNAL,
    RequestCode.CONTROLLER_REGISTER_BROKER: Permission.INTERNAL,
    RequestCode.CONTROLLER_GET_REPLICA_INFO: Permission.INTERNAL,
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED: Permission.INTERNAL,
    RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: Permission.INTERNAL,
    RequestCode.CONTROLLER_APPLY_BROKER_ID: Permission.INTERNAL,
}


def permission_by_annotation(resource: str, actions: list[str]) -> Permission:
    if set(actions) == {"PUB", "SUB"}:
        return Permission.CONNECT
    if {"GET", "LIST"} & set(actions):
        return Permission.READ
    if actions == ["PUB"]:
        return Permission.PUBLISH
    if actions == ["SUB"]:
        return Permission.SUBSCRIBE
    assert set(actions) <= {"CREATE", "UPDATE", "DELETE"}
    return Permission.ADMIN if resource == "CLUSTER" else Permission.MANAGE


ANNOTATED = {
    RequestCode(header["code"]): permission_by_annotation(header["resource"], header["actions"])
    for name, header in PEERS["5.5.0"]["headers"].items()
    if "code" in header and not name.endswith("ResponseHeader")
}


@pytest.mark.parametrize("version", PEERS)
@pytest.mark.parametrize(
    ("table", "ours"), [("request_codes", RequestCode), ("response_codes", ResponseCode)]
)
def test_every_code_of_the_peer_has_the_same_number_here(
    version: str, table: str, ours: type[RequestCode] | type[ResponseCode]
) -> None:
    peer: dict[str, int] = PEERS[version][table]
    assert {name: ours.__members__[name].value for name in peer} == peer


@pytest.mark.parametrize(
    ("table", "ours"), [("request_codes", RequestCode), ("response_codes", ResponseCode)]
)
def test_no_code_is_made_up(table: str, ours: type[RequestCode] | type[ResponseCode]) -> None:
    known = set(PEERS["5.5.0"][table]) | set(PEERS["4.9.7"][table])
    assert set(ours.__members__) - {code.name for code in OURS} == known


def test_our_own_codes_are_far_from_the_peers_and_fit_the_compact_header() -> None:
    theirs = {code & 0xFFFF for peer in PEERS.values() for code in peer["request_codes"].values()}
    for code in OURS:
        assert code < 1 << 15
        assert min(abs(code - other) for other in theirs) > 1_000


def test_where_4_and_5_share_a_number_the_name_of_5_wins() -> None:
    aliases = {
        name: code.name for name, code in ResponseCode.__members__.items() if name != code.name
    }
    assert aliases == {
        "UPDATE_AND_CREATE_ACL_CONFIG_FAILED": "POLLING_FULL",
        "DELETE_ACL_CONFIG_FAILED": "POLLING_TIMEOUT",
        "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED": "BROKER_NOT_EXIST",
    }
    assert all(name == code.name for name, code in RequestCode.__members__.items())


def test_a_request_is_found_by_its_number_and_equal_to_it() -> None:
    assert RequestCode(105) is RequestCode.GET_ROUTEINFO_BY_TOPIC
    handlers: dict[int, str] = {RequestCode.POP_MESSAGE: "pop"}
    assert handlers[200050] == "pop"
    with pytest.raises(ValueError, match="199"):
        RequestCode(199)


def test_every_request_has_a_permission() -> None:
    assert set(REQUEST_PERMISSION) == set(RequestCode)
    assert set(REQUEST_PERMISSION.values()) == set(Permission)
    assert all(REQUEST_PERMISSION[code] is code.permission for code in RequestCode)


@pytest.mark.parametrize("code", ANNOTATED)
def test_permission_follows_the_annotation_of_the_peer(code: RequestCode) -> None:
    assert REQUEST_PERMISSION[code] is PERMISSION_UNLIKE_JAVA.get(code, ANNOTATED[code])


def test_every_deliberate_difference_from_the_annotations_is_one() -> None:
    for code, permission in PERMISSION_UNLIKE_JAVA.items():
        assert ANNOTATED[code] is not permission


def test_what_nobody_serves_is_open_to_no_reader_or_publisher() -> None:
    assert len(UNSERVED) == 19
    permissions = {REQUEST_PERMISSION[code] for code in UNSERVED - {RequestCode.ACK_LITE_MESSAGE}}
    assert permissions == {Permission.ADMIN, Permission.INTERNAL}


def test_languages_are_those_of_the_peer() -> None:
    ours = {language.name: language.value for language in LanguageCode}
    assert ours == PEERS["5.5.0"]["languages"]
    assert ours.items() >= PEERS["4.9.7"]["languages"].items()
