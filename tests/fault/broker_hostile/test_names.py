"""S11: no name of a topic or a group leads out of the store, whatever request carries it."""

import asyncio
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from fault.broker.wire import Queue, ask, connected, read_queue, send, send_request
from fault.broker_hostile.target import names_kept, queues_kept, target
from fault.broker_hostile.watched import trust_names
from roketto.broker.dispatch import ROUTES
from roketto.protocol.bodies.assignment import SetMessageRequestModeRequestBody
from roketto.protocol.bodies.base import Body, encode_body
from roketto.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList
from roketto.protocol.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from roketto.protocol.bodies.locks import LockBatchRequestBody, UnlockBatchRequestBody
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.bodies.topics import CreateTopicListRequestBody, TopicConfig
from roketto.protocol.codes import RequestCode as Code
from roketto.protocol.codes import ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.tables import HEADER_OF_REQUEST
from roketto.protocol.limits import REMARK_BYTES_MAX
from roketto.remoting.connection import Connection

LONG: Final = "x" * 65_536
NAMES: Final = (
    "..", ".", "../..", "../../escaped", "..\\..\\escaped", "/", "//", "/tmp/escaped", "a/b",
    "a/../../escaped", "a\\b", "\0", "a\0b", "a\0/../../escaped", "~", "~/escaped", "$HOME", "C:",
    " ", "a b", " a", "a ", "a\nb", "a\r\nb", "a\tb", "a\x7fb", "a;b", "a&b", "a$(id)", "`id`",
    "a'b", 'a"b', "a@b", "a:b", "a,b", "a*", "a?", "a+b", "a=b", "{}", "%RETRY%../x", "%DLQ%/x",
    "%LMQ%../x", "%RETRY%a+b/c", "x" * 128, "x" * 256, LONG, "/" * 4_096, "../" * 1_000,
)  # fmt: skip
LOOK_ALIKES: Final = (
    "\uff0e\uff0e", "\u2025", "\u2024\u2024", "a\uff0fb", "a\u2215b", "a\u2044b", "a\uff3cb",
    "\uff34", "\u0422opic", "T\u200bopic", "\u202etopic", "e\u0301", "\ufefftopic", "\u65e5",
    "\U0001f680", "\u2024\u2024\u2215x", "%\uff12\uff26",
)  # fmt: skip
"""Dots, slashes and letters of other scripts, marks that nobody sees."""
LEGAL: Final = ("%00", "%2e%2e%2f", "%2F", "a%00b", "|", "-", "_", "%", "CON", "nul", "x" * 127)
"""Nothing on the way decodes them: each is one directory of just this name."""

CREATORS: Final = {
    Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_REPLY_MESSAGE,
    Code.SEND_REPLY_MESSAGE_V2, Code.CONSUMER_SEND_MSG_BACK, Code.STAGE_BATCH, Code.PULL_MESSAGE,
    Code.LITE_PULL_MESSAGE, Code.READ_RANGE, Code.UPDATE_AND_CREATE_TOPIC,
    Code.UPDATE_AND_CREATE_TOPIC_LIST, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, Code.GET_SUBSCRIPTIONGROUP_CONFIG,
    Code.LOCK_BATCH_MQ, Code.UPDATE_CONSUMER_OFFSET,
    Code.INVOKE_BROKER_TO_RESET_OFFSET, Code.CLONE_GROUP_OFFSET, Code.SET_MESSAGE_REQUEST_MODE,
}  # fmt: skip
"""Requests by which something would come to be, or be read: an illegal name is refused."""

NAMELESS: Final = {
    Code.GET_BROKER_CONFIG, Code.UPDATE_BROKER_CONFIG, Code.GET_BROKER_RUNTIME_INFO,
    Code.GET_ALL_TOPIC_CONFIG, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    Code.GET_ALL_CONSUMER_OFFSET, Code.GET_ALL_DELAY_OFFSET, Code.GET_ALL_MESSAGE_REQUEST_MODE,
    Code.GET_TIMER_CHECK_POINT, Code.GET_TIMER_METRICS, Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE, Code.CLEAN_UNUSED_TOPIC, Code.DELETE_EXPIRED_COMMITLOG,
    Code.VIEW_BROKER_STATS_DATA, Code.GET_BROKER_CONSUME_STATS, Code.GET_ALL_PRODUCER_INFO,
    Code.GET_BROKER_HA_STATUS, Code.RESET_MASTER_FLUSH_OFFSET, Code.SINK_STATE,
    Code.DECIDE_STAGED, Code.PUBLISH_STAGED,
}  # fmt: skip

_NAME_FIELD: Final = re.compile(r"(topic|group)(_?name)?$|^origin_topic$|^topic_list$")
_ORDINARY: Final = {
    "perm": "6", "topicFilterType": "SINGLE_TAG", "maxMsgNums": "1", "commitOrRollback": "8",
}  # fmt: skip


def _subscription(name: str) -> SubscriptionData:
    return SubscriptionData(topic=name, sub_string="*", sub_version=1)


BODIES: Final[dict[Code, Callable[[str], Body]]] = {
    Code.HEART_BEAT: lambda name: HeartbeatData(
        client_id="attacker",
        consumer_data_set=[
            ConsumerData(group_name=name, subscription_data_set=[_subscription(name)])
        ],
        producer_data_set=[ProducerData(name)],
    ),
    Code.CHECK_CLIENT_CONFIG: lambda name: CheckClientRequestBody(
        client_id="attacker", group=name, subscription_data=_subscription(name)
    ),
    Code.LOCK_BATCH_MQ: lambda name: LockBatchRequestBody(
        consumer_group=name, client_id="attacker", mq_set=[MessageQueue(name, 0, name)]
    ),
    Code.UNLOCK_BATCH_MQ: lambda name: UnlockBatchRequestBody(
        consumer_group=name, client_id="attacker", mq_set=[MessageQueue(name, 0, name)]
    ),
    Code.SET_MESSAGE_REQUEST_MODE: lambda name: SetMessageRequestModeRequestBody(
        topic=name, consumer_group=name
    ),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: lambda name: CreateTopicListRequestBody(
        topic_config_list=[TopicConfig(topic_name=name)]
    ),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: lambda name: SubscriptionGroupConfig(group_name=name),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: lambda name: SubscriptionGroupList(
        group_config_list=[SubscriptionGroupConfig(group_name=name)]
    ),
}


def request(code: Code, name: str) -> Command:
    """A request with this name wherever it takes one, and ordinary values elsewhere."""
    header = HEADER_OF_REQUEST.get(code)
    ext: dict[str, str] = {}
    if header is not None:
        for field, written in zip(
            header.__struct_fields__, header.__struct_encode_fields__, strict=True
        ):
            is_name = _NAME_FIELD.search(field) and field != "default_topic"
            ext[written] = name if is_name else _ORDINARY.get(written, "0")
    if code in (Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_REPLY_MESSAGE_V2):
        ext |= {"c": "TBW102", "d": "4", "m": "false", "k": "false", "i": ""}
    elif code in (Code.SEND_MESSAGE, Code.SEND_REPLY_MESSAGE):
        ext |= {"defaultTopic": "TBW102", "batch": "false", "unitMode": "false", "properties": ""}
    body = encode_body(BODIES[code](name)) if code in BODIES else b"body"
    return Command(code, ext, body)


def carries_name(code: Code) -> bool:
    return any("hostile" in text for text in _texts(request(code, "hostile")))


def _texts(command: Command) -> list[str]:
    return [*(command.ext or {}).values(), bytes(command.body).decode()]


async def ask_all(
    connection: Connection, asked: Sequence[tuple[Code, str]]
) -> list[tuple[Code, str, Command]]:
    """The answers, a hundred requests under way at once."""
    found: list[tuple[Code, str, Command]] = []
    for begin in range(0, len(asked), 100):
        part = asked[begin : begin + 100]
        answers = await asyncio.gather(*(ask(connection, request(*it)) for it in part))
        found += [(*it, answer) for it, answer in zip(part, answers, strict=True)]
    return found


def fuzzed(seed: int, count: int) -> list[str]:
    """Names of characters that mean something to somebody."""
    chance = random.Random(seed)
    alphabet = "../\\\0%:|~$ \n*?\"'<>&;@+=,-_aZ09\u00e9\uff0f\uff0e\u202e\u200b"
    return ["".join(chance.choices(alphabet, k=chance.randrange(1, 24))) for _ in range(count)]


def is_legal(name: str) -> bool:
    return re.fullmatch(r"[%|a-zA-Z0-9_-]{1,127}", name) is not None


SERVED: Final = sorted(Code(code) for code in ROUTES)


def test_every_request_that_takes_a_name_is_tried() -> None:
    """Whoever serves another one adds it here, or says that it has none."""
    assert {code for code in SERVED if not carries_name(code)} == NAMELESS


async def test_illegal_names_are_refused_and_lead_nowhere(tmp_path: Path) -> None:
    """Each of them in each request; nothing outside the store is opened, nothing of it is kept."""
    names = [*NAMES, *LOOK_ALIKES, *(name for name in fuzzed(1, 100) if not is_legal(name))]
    asked = [(code, name) for code in SERVED for name in names if code not in NAMELESS]
    with target(tmp_path) as broker:
        async with connected(broker.address) as connection:
            for code, name, answer in await ask_all(connection, asked):
                if code in CREATORS:
                    assert answer.code != ResponseCode.SUCCESS, (code.name, name[:64])
                assert len(answer.remark or "") <= REMARK_BYTES_MAX, (code.name, name[:64])
            await send(connection, Queue("Healthy", 0), b"healthy", {})
    assert queues_kept(broker.root) == ["Healthy"]


async def test_names_that_only_look_like_paths_are_names(tmp_path: Path) -> None:
    """Nothing decodes them: a message is stored and read under each, in one directory of it."""
    with target(tmp_path) as broker:
        async with connected(broker.address) as connection:
            for name in LEGAL:
                answer = await ask(connection, send_request(Queue(name, 0), b"b", {}))
                assert answer.code == ResponseCode.SUCCESS, (name, answer.remark)
                [record] = await read_queue(connection, Queue(name, 0))
                assert record.topic == name
    assert queues_kept(broker.root) == sorted(LEGAL)
    assert set(LEGAL) <= set(names_kept(broker.root))


async def test_fuzzed_names_come_to_nothing(tmp_path: Path) -> None:
    """10,000 of them, each in a request of its own: only what is legal can have been made."""
    chance = random.Random(2)
    codes = [code for code in SERVED if code not in NAMELESS]
    asked = [(chance.choice(codes), name) for name in fuzzed(2, 10_000)]
    with target(tmp_path) as broker:
        async with connected(broker.address) as connection:
            for code, name, answer in await ask_all(connection, asked):
                if code in CREATORS and not is_legal(name):
                    assert answer.code != ResponseCode.SUCCESS, (code.name, name)


async def test_a_broker_that_trusts_names_is_found_out(tmp_path: Path) -> None:
    """The watch works: with the gate left open, one message is outside the store."""
    with target(tmp_path, bug=trust_names) as broker:
        async with connected(broker.address) as connection:
            answer = await ask(connection, request(Code.SEND_MESSAGE_V2, "../../escaped"))
            assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert (tmp_path / "deep" / "down" / "escaped").exists()
    with pytest.raises(AssertionError, match="escaped"):
        broker.check_untouched()
