"""The Java peer's header classes, as golden tables, and how ours are compared with them."""

import json
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from roketto.protocol.headers.base import (
    I32,
    I64,
    BoundaryType,
    Header,
    decode_header,
    encode_header,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "headers"

JAVA_NAMES = {
    # Where our name is not Java's without "Header".
    "AddWritePermRequest": "AddWritePermOfBrokerRequestHeader",
    "AddWritePermResponse": "AddWritePermOfBrokerResponseHeader",
    "ConsumeMessageDirectlyRequest": "ConsumeMessageDirectlyResultRequestHeader",
    "DeleteKvConfigRequest": "DeleteKVConfigRequestHeader",
    "ExchangeHaInfoRequest": "ExchangeHAInfoRequestHeader",
    "ExchangeHaInfoResponse": "ExchangeHAInfoResponseHeader",
    "ExportRocksDbConfigToJsonRequest": "ExportRocksDBConfigToJsonRequestHeader",
    "GetConsumeStatsInBrokerRequest": "GetConsumeStatsInBrokerHeader",
    "GetKvConfigRequest": "GetKVConfigRequestHeader",
    "GetKvConfigResponse": "GetKVConfigResponseHeader",
    "GetKvListRequest": "GetKVListByNamespaceRequestHeader",
    "PutKvConfigRequest": "PutKVConfigRequestHeader",
    "QueryCorrectionOffsetRequest": "QueryCorrectionOffsetHeader",
    "ResetMasterFlushOffsetRequest": "ResetMasterFlushOffsetHeader",
    "SendMessageV2Request": "SendMessageRequestHeaderV2",
    "UnregisterBrokerRequest": "UnRegisterBrokerRequestHeader",
    "WipeWritePermRequest": "WipeWritePermOfBrokerRequestHeader",
    "WipeWritePermResponse": "WipeWritePermOfBrokerResponseHeader",
}

WITHOUT_JAVA_CLASS = {
    # No Java broker has the request.
    "ReadRangeRequest",
    "ReadRangeResponse",
    "StageBatchRequest",
    "StageBatchResponse",
    "SinkStateRequest",
    "SinkStateResponse",
    "DecideStagedRequest",
    "DecideStagedResponse",
    "PublishStagedRequest",
    "PublishStagedResponse",
    # Java reads and writes the ext fields of these by hand.
    "HeartbeatResponse",
    "SetCommitLogReadModeRequest",
    "SwitchTimerEngineRequest",
}

ADDED_FIELDS = {
    # Ext fields that Java sets or reads beside the header class.
    "GetRouteInfoRequest": {"__ZONE_NAME", "__ZONE_MODE"},
    "QueryMessageRequest": {"_UNIQUE_KEY_QUERY"},
    "RegisterBrokerRequest": {"__ZONE_NAME"},
    "SendMessageResponse": {"MSG_REGION", "TRACE_ON"},
    # The name of cleanOffset in 4.x.
    "DeleteSubscriptionGroupRequest": {"removeOffset"},
}

OPTIONAL_HERE = {
    # Peers of before 5.4 know nothing of pages: they send none of these and leave out the total.
    ("GetAllTopicConfigRequest", "topicSeq"),
    ("GetAllSubscriptionGroupRequest", "groupSeq"),
    ("GetAllSubscriptionGroupResponse", "totalGroupNum"),
    # mqadmin 4.9.7 sends it only when it is told a path.
    ("UpdateGlobalWhiteAddrsConfigRequest", "aclFileFullPath"),
}

KINDS = {
    str: "text",
    str | None: "text",
    I32: "i32",
    I32 | None: "i32",
    I64: "i64",
    I64 | None: "i64",
    bool: "bool",
    bool | None: "bool",
    BoundaryType | None: "boundary",
    "String": "text",
    "Integer": "i32",
    "int": "i32",
    "Long": "i64",
    "long": "i64",
    "Boolean": "bool",
    "boolean": "bool",
    "BoundaryType": "boundary",
}


@cache
def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


def java_name(cls: type[Header]) -> str:
    return JAVA_NAMES.get(cls.__name__, f"{cls.__name__}Header")


def headers_of(family: ModuleType) -> list[type[Header]]:
    """Return the header classes that a module defines."""
    return [
        value
        for value in vars(family).values()
        if isinstance(value, type)
        and issubclass(value, Header)
        and value.__module__ == family.__name__
    ]


def peer_version(cls: type[Header]) -> str:
    """Return the newest release that has the class."""
    return "5.5.0" if java_name(cls) in golden("peer-5.5.0")["headers"] else "4.9.7"


def check_fields(cls: type[Header]) -> None:
    """Assert that names, types, requiredness and defaults are Java's, but for what is listed."""
    peer = golden(f"peer-{peer_version(cls)}")["headers"][java_name(cls)]
    theirs = {field["name"]: field for field in peer["fields"]}
    ours = {info.encode_name: info for info in msgspec.structs.fields(cls)}
    added = ADDED_FIELDS.get(cls.__name__, set())
    assert set(ours) - added == set(theirs)
    for name, field in theirs.items():
        info = ours[name]
        assert KINDS[info.type] == KINDS[field["type"]], name
        # Java cannot tell whether a primitive or an initialised field was sent.
        required = field.get("required", False) and "default" not in field
        assert info.required == (required and (cls.__name__, name) not in OPTIONAL_HERE), name
        if not info.required:
            # This package has no clock: "now" is for whoever sends the header.
            default = None if field.get("default") == "now" else field.get("default")
            assert info.default == default, name


def check_fields_of_4(cls: type[Header]) -> None:
    """Assert that a header of 4.9.7 has nothing that ours lacks or reads as another type."""
    peer = golden("peer-4.9.7")["headers"].get(java_name(cls), {"fields": []})
    ours = {info.encode_name: KINDS[info.type] for info in msgspec.structs.fields(cls)}
    assert ours.items() >= {field["name"]: KINDS[field["type"]] for field in peer["fields"]}.items()


def check_ext(cls: type[Header]) -> None:
    """Assert that ext fields as Java writes them are read, and written back the same.

    What an older peer does not write comes back as our default, or not at all.
    """
    defaults = {info.encode_name: info.default for info in msgspec.structs.fields(cls)}
    for version in ("5.5.0", "4.9.7"):
        filled = golden(f"filled-{version}").get(java_name(cls), {"filled": {}})["filled"]
        if filled:
            written = encode_header(decode_header(cls, filled))
            assert written.items() >= filled.items()
            extra = written.keys() - filled.keys()
            assert {name: written[name] for name in extra} == {
                name: str(defaults[name]).lower() for name in extra
            }


def check_fresh(cls: type[Header]) -> None:
    """Assert that a header with its defaults writes what Java writes for a new one."""
    fresh = golden(f"filled-{peer_version(cls)}")[java_name(cls)]["fresh"]
    required = [info.encode_name for info in msgspec.structs.fields(cls) if info.required]
    written = encode_header(decode_header(cls, dict.fromkeys(required, "1")))
    added = ADDED_FIELDS.get(cls.__name__, set())
    ours = {name: text for name, text in written.items() if name not in {*required, *added}}
    assert ours == {name: text for name, text in fresh.items() if text != "now"}
