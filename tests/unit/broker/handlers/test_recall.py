"""A timer message is taken back before its time, or a clear word says why not."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from roketto.broker.handlers import recall as handlers
from roketto.broker.recall import make_handle
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import ONE_WAY_FLAG, Command
from roketto.protocol.errors import RequestError
from roketto.protocol.names import TIMER_TOPIC
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from unit.broker.send_rig import PLAIN, START_MS, UNIQUE, SendRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path)
    rig.config.recall_message_enable = True
    rig.timers.start()
    yield rig
    rig.close()


def send(rig: SendRig) -> str:
    answer = rig.send(properties=PLAIN | {"TIMER_DELAY_SEC": "5"})
    assert answer.ext is not None
    return answer.ext["recallHandle"]


def handle_of(rig: SendRig, topic: str = "T", broker: str = "", out_ms: int = START_MS) -> str:
    properties = {"REAL_TOPIC": topic, "UNIQ_KEY": "K", "TIMER_OUT_MS": str(out_ms)}
    made = make_handle(
        broker or rig.config.broker_name, Record("", b"", encode_properties(properties))
    )
    assert made is not None
    return made


def ask(rig: SendRig, handle: str, topic: str = "T", flag: int = 0) -> Command | None:
    ext = {"producerGroup": "PG", "topic": topic, "recallHandle": handle}
    request = Command(RequestCode.RECALL_MESSAGE, ext, flag=flag)
    answer = rig.handle(request, handlers.ROUTES[RequestCode.RECALL_MESSAGE])
    assert answer is None or isinstance(answer, Command)
    return answer


def refusal(rig: SendRig, handle: str, topic: str = "T") -> RequestError:
    with pytest.raises(RequestError) as caught:
        ask(rig, handle, topic)
    return caught.value


def work(rig: SendRig) -> None:
    while rig.timers.step() == 0:
        pass


def test_a_message_is_taken_back(rig: SendRig) -> None:
    """The answer has its key; a second recall is one more, and does nothing."""
    handle = send(rig)
    answer = ask(rig, handle)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS
    assert answer.ext == {"msgId": UNIQUE, "MSG_REGION": "DefaultRegion"}
    assert ask(rig, handle, flag=ONE_WAY_FLAG) is None
    recall = rig.records(TIMER_TOPIC, 0)[1]
    assert recall.properties | {"TIMER_OUT_MS": ""} == {
        "TAGS": "_RECALL_TAG_", "TIMER_DEL_UNIQKEY": UNIQUE, "UNIQ_KEY": UNIQUE,
        "TIMER_DELIVER_MS": str(START_MS + 4_001), "BORN_TIMESTAMP": str(START_MS),
        "PGROUP": "PG", "REAL_TOPIC": "T", "REAL_QID": "0", "TIMER_OUT_MS": "",
    }  # fmt: skip
    rig.pass_ms(60_000)
    work(rig)
    assert rig.records() == []


def test_recalling_is_off_unless_it_is_allowed(rig: SendRig) -> None:
    """Java's default."""
    rig.config.recall_message_enable = False
    refused = refusal(rig, send(rig))
    assert refused.code == ResponseCode.NO_PERMISSION
    assert "recallMessageEnable is false" in refused.reason


def not_yet(rig: SendRig) -> None:
    rig.config.start_accept_send_request_time_stamp = START_MS + 1


def not_writable(rig: SendRig) -> None:
    rig.config.broker_permission = 4
    rig.config.allow_recall_when_broker_not_writeable = False


@pytest.mark.parametrize("change", [not_yet, not_writable])
def test_a_broker_that_takes_no_messages_takes_no_recalls(
    rig: SendRig, change: Callable[[SendRig], None]
) -> None:
    handle = send(rig)
    change(rig)
    refused = refusal(rig, handle)
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "recall failed, broker service not available" in refused.reason


def test_a_broker_that_is_not_written_to_still_takes_recalls(rig: SendRig) -> None:
    """Unless it is told not to."""
    handle = send(rig)
    rig.config.broker_permission = 4
    assert ask(rig, handle) is not None


def test_a_topic_that_is_not_there_has_nothing_to_recall(rig: SendRig) -> None:
    refused = refusal(rig, send(rig), "Other")
    assert refused.code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize(
    ("topic", "broker", "ahead_ms", "said"),
    [
        ("Other", "", 5_000, "topic not match"),
        ("T", "other", 5_000, "broker service not available"),
        ("T", "", -1, "timestamp invalid"),
        ("T", "", 259_200_000, "timestamp invalid"),
    ],
)
def test_a_handle_of_something_else_is_refused(
    rig: SendRig, topic: str, broker: str, ahead_ms: int, said: str
) -> None:
    """Of another topic or broker, of what is due or was never taken."""
    refused = refusal(rig, handle_of(rig, topic, broker, START_MS + ahead_ms))
    assert refused.code == ResponseCode.ILLEGAL_OPERATION
    assert f"recall failed, {said}" in refused.reason


def test_what_is_no_handle_is_refused(rig: SendRig) -> None:
    assert refusal(rig, "no handle").code == ResponseCode.ILLEGAL_OPERATION


def test_a_store_that_takes_nothing_recalls_nothing(rig: SendRig) -> None:
    handle = send(rig)
    rig.config.timer_wheel_enable = False
    refused = refusal(rig, handle)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "recall failed, execute error" in refused.reason


def test_a_busy_broker_says_so(rig: SendRig) -> None:
    """As to every send."""
    handle = send(rig)
    rig.context.durability.is_busy = True
    assert refusal(rig, handle).code == ResponseCode.SYSTEM_BUSY
