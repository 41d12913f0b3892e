"""Bad requests as raw frames: sends, pulls and offsets that no client of Java's lets out."""

import json
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from interop.peer.remote import Remote

SEND: Final = 10
PULL: Final = 11
QUERY_OFFSET: Final = 14
UPDATE_OFFSET: Final = 15
_UPDATE_TOPIC: Final = 17
MAX_OFFSET: Final = 30
VIEW: Final = 33
_HEARTBEAT: Final = 34
SEND_BACK: Final = 36
_BY_KEY: Final = 12
_UPDATE_GROUP: Final = 200
_RESET: Final = 222
STATUS: Final = 223
TIMES: Final = 303
RUNNING: Final = 307
DIRECTLY: Final = 309
SEND_V2: Final = 310
SEND_BATCH: Final = 320
ENTRIES: Final = 321

TOPIC: Final = "Refused"
"""Two queues; two messages in the first of them."""
DEAF: Final = "RefusedDeaf"
"""It may be written, not read."""
MUTE: Final = "RefusedMute"
"""It may be read, not written."""
OTHER: Final = "RefusedOther"
GROUP: Final = "refused"
OFF_GROUP: Final = "refusedOff"
"""It may not consume."""
LIVE_GROUP: Final = "refusedLive"
"""It has sent a heartbeat, with a subscription to another topic."""
VERSION: Final = 100
"""Of its subscription."""

_SUBSCRIPTION: Final = 4
_SUSPEND: Final = 2

Fields = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: its code, fields and body."""

    code: int
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


def send(body: bytes = b"body", code: int = SEND, **changes: str | None) -> Asked:
    """A good send of one message, but for what is changed; None leaves a field out."""
    fields = {
        "producerGroup": "refusedProducer", "topic": TOPIC, "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4", "queueId": "0", "sysFlag": "0",
        "bornTimestamp": str(int(time.time() * 1000)), "flag": "0", "properties": "",
        "reconsumeTimes": "0", "unitMode": "false", "batch": "false",
    }  # fmt: skip
    return Asked(code, _changed(fields, changes), body)


def send_v2(body: bytes = b"body", **changes: str | None) -> Asked:
    """The same under the one-letter names that clients use."""
    fields = {
        "a": "refusedProducer", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0",
        "g": str(int(time.time() * 1000)), "h": "0", "i": "UNIQ_KEY\x01" + "0" * 32 + "\x02",
        "j": "0", "k": "false", "m": "false",
    }  # fmt: skip
    return Asked(SEND_V2, _changed(fields, changes), body)


def batch(body: bytes, **changes: str | None) -> Asked:
    """A good send of a batch, but for what is changed, and for what is in its body."""
    fields = {**send_v2().fields, "m": "true"}
    return Asked(SEND_BATCH, _changed(fields, changes), body)


def batch_item(body: bytes, properties: bytes = b"") -> bytes:
    """A message of a batch as clients write it: size, magic, crc, flag, body, properties."""
    size = 4 * 5 + len(body) + 2 + len(properties)
    return (
        struct.pack(">iiiii", size, 0, 0, 0, len(body))
        + body
        + struct.pack(">h", len(properties))
        + properties
    )


def pull(*, suspend_ms: int = 0, **changes: str | None) -> Asked:
    """A good pull with its own subscription, but for what is changed."""
    fields = {
        "consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "queueOffset": "0",
        "maxMsgNums": "32", "sysFlag": str(_SUBSCRIPTION | (_SUSPEND if suspend_ms else 0)),
        "commitOffset": "0", "suspendTimeoutMillis": str(suspend_ms), "subscription": "*",
        "subVersion": "0", "expressionType": "TAG",
    }  # fmt: skip
    return Asked(PULL, _changed(fields, changes))


def offset(code: int, **changes: str | None) -> Asked:
    fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}
    if code == UPDATE_OFFSET:
        fields["commitOffset"] = "1"
    return Asked(code, _changed(fields, changes))


def by_key(**changes: str | None) -> Asked:
    """A question for messages by key, of all times."""
    fields = {
        "topic": TOPIC, "key": "k", "maxNum": "32", "beginTimestamp": "0",
        "endTimestamp": str(2**63 - 1),
    }  # fmt: skip
    return Asked(_BY_KEY, _changed(fields, changes))


def reset(**changes: str | None) -> Asked:
    """A reset of all queues to their beginning."""
    fields = {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"}
    return Asked(_RESET, _changed(fields, changes))


def send_back(**changes: str | None) -> Asked:
    fields = {
        "offset": "0", "group": GROUP, "delayLevel": "1", "originMsgId": "0" * 32,
        "originTopic": TOPIC, "unitMode": "false", "maxReconsumeTimes": "16",
    }  # fmt: skip
    return Asked(SEND_BACK, _changed(fields, changes))


def _changed(fields: Mapping[str, str], changes: Fields) -> dict[str, str]:
    changed = {**fields, **changes}
    return {name: value for name, value in changed.items() if value is not None}


def prepare(remote: Remote) -> None:
    """Make the topics and groups, and the messages, that the requests need."""
    for topic, perm in ((TOPIC, 6), (DEAF, 2), (MUTE, 4), (OTHER, 6)):
        fields = {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": "2",
            "writeQueueNums": "2", "perm": str(perm), "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0", "order": "false",
        }  # fmt: skip
        _do(remote, Asked(_UPDATE_TOPIC, fields))
    group = {"groupName": OFF_GROUP, "consumeEnable": False}
    _do(remote, Asked(_UPDATE_GROUP, {}, json.dumps(group).encode()))
    _do(remote, Asked(_HEARTBEAT, {}, json.dumps(_heartbeat()).encode()))
    for _ in range(2):
        _do(remote, send())


def _heartbeat() -> dict[str, object]:
    subscription = {
        "topic": OTHER, "subString": "*", "subVersion": VERSION, "expressionType": "TAG",
        "classFilterMode": False, "tagsSet": [], "codeSet": [],
    }  # fmt: skip
    consumer = {
        "groupName": LIVE_GROUP, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "unitMode": False,
        "subscriptionDataSet": [subscription],
    }  # fmt: skip
    return {"clientID": "refused@1", "producerDataSet": [], "consumerDataSet": [consumer]}


def _do(remote: Remote, asked: Asked) -> None:
    answer = remote.ask(asked.code, asked.fields, asked.body)
    assert answer.code == 0, f"{asked}: {answer}"
