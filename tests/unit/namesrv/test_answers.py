"""Route answers are recalled by the bytes of the question, and only where that is exact."""

import json

import pytest

from roketto.namesrv.answers import QUESTION_BYTES_MAX, QUESTIONS_MAX, RouteAnswers
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command, decode_command, encode_command
from roketto.protocol.frame import COMPACT, JSON, FrameDecoder, frame_prefix

BODY = b'{"brokerDatas":[]}'


def question(opaque: int = 123, topic: str = "T", **fields: object) -> bytes:
    """A request as Java writes it."""
    command = Command(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, opaque=opaque, language=0
    )
    for name, value in fields.items():
        setattr(command, name, value)
    return encode_command(command)


def raw(header: str) -> bytes:
    text = header.encode()
    return frame_prefix(JSON, len(text), 0) + text


def decoded(frame: bytes) -> Command:
    [view] = FrameDecoder().feed(frame)
    return decode_command(view)


def teach(answers: RouteAnswers, frame: bytes, code: int = 0) -> None:
    request = decoded(frame)
    answers.remember(frame, request, request.answer(code, body=BODY))


@pytest.fixture
def answers() -> RouteAnswers:
    return RouteAnswers()


def test_a_question_never_heard_has_no_answer(answers: RouteAnswers) -> None:
    assert answers.recall(question()) is None
    assert answers.recall(encode_command(Command(34, body=b"no opaque here"))) is None
    assert answers.recall(b"not even a frame") is None


def test_the_same_question_gets_the_same_answer_with_its_own_opaque(answers: RouteAnswers) -> None:
    """Byte for byte what the handler's answer would have been."""
    teach(answers, question(123))
    asked = question(987)
    assert answers.recall(asked) == encode_command(decoded(asked).answer(0, body=BODY))


@pytest.mark.parametrize("other", [question(123, topic="U"), question(123, version=401)])
def test_another_topic_or_version_is_another_question(answers: RouteAnswers, other: bytes) -> None:
    """The version decides in which form a route is written."""
    teach(answers, question(123))
    assert answers.recall(other) is None


def test_numbers_of_another_length_are_another_question(answers: RouteAnswers) -> None:
    """The prepared answer has room for as many digits as the question had."""
    teach(answers, question(123))
    assert answers.recall(question(1234)) is None
    teach(answers, question(1234))
    for opaque in (456, 5678):
        recalled = answers.recall(question(opaque))
        assert recalled is not None
        assert decoded(recalled).opaque == opaque


def test_a_changed_route_is_forgotten(answers: RouteAnswers) -> None:
    teach(answers, question())
    answers.old["U"] = answers.standard["U"] = BODY
    answers.forget("T")
    assert answers.recall(question()) is None
    assert answers.old.keys() == answers.standard.keys() == {"U"}
    teach(answers, question())
    answers.forget_all()
    assert answers.recall(question()) is None
    assert not answers.old
    assert not answers.standard


def header(**members: object) -> str:
    whole = {"code": 105, "extFields": {"topic": "T"}, "flag": 0, "opaque": 123, "version": 513}
    return json.dumps(whole | members, separators=(",", ":"))


@pytest.mark.parametrize(
    "frame",
    [
        question(flag=2),
        question(code=106),
        question(serialization=COMPACT),
        question(topic="x" * QUESTION_BYTES_MAX),
        question(ext={"topic": "T", "__ZONE_MODE": "true", "__ZONE_NAME": "z"}),
        question(opaque=1_234_567_890),
        question(opaque=-5),
        question(opaque=0),
        raw(header(extFields={"topic": "T", "opaque": 7})),
        raw(header(extFields={"topic": "T", "opaque": "7"})),
        raw(header().replace('"opaque":123', '"opaque":5,"opaque":123')),
        raw(header().replace('"opaque":123', '"opaque": 123')),
        raw('{"code":105,"extFields":{"topic":"T"},"version":513}'),
    ],
)
def test_what_depends_on_more_than_the_bytes_is_not_recalled(
    answers: RouteAnswers, frame: bytes
) -> None:
    """One-way, other requests, zones, odd numbers, a second opaque: decoded every time."""
    teach(answers, frame)
    assert answers.recall(frame) is None


def test_numbers_that_json_does_not_know_take_the_ordinary_way(answers: RouteAnswers) -> None:
    """The decoder refuses them; the memo must not be kinder."""
    teach(answers, raw(header(opaque=123)))
    for odd in ("023", "0x1", "1e2", "-12", "12 "):
        assert answers.recall(raw(header().replace("123", odd))) is None


def test_a_refusal_is_not_kept(answers: RouteAnswers) -> None:
    teach(answers, question(), code=17)
    assert answers.recall(question()) is None


def test_the_number_of_questions_is_bounded(answers: RouteAnswers) -> None:
    """A flood of different questions cannot fill the memory."""
    for number in range(QUESTIONS_MAX + 1):
        teach(answers, question(topic=f"t{number}"))
    assert answers.recall(question(topic="t0")) is None
    assert answers.recall(question(topic=f"t{QUESTIONS_MAX}")) is not None


def test_a_question_with_more_to_come_is_not_answered_early(answers: RouteAnswers) -> None:
    """The length field counts: the same header with a body behind it is another question."""
    teach(answers, question())
    header = question()[8:]
    with_body = frame_prefix(JSON, len(header), 10) + header
    assert answers.recall(with_body) is None
