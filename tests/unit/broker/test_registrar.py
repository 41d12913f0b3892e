"""One name server is kept told over a link, and each change of its state is one line in the log."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from roketto.broker.config import BrokerConfig
from roketto.broker.registrar import Registrar, Standing
from roketto.broker.registration_requests import RegistrationRequests
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.registration import decode_registration
from roketto.protocol.bodies.route import KVTable
from roketto.protocol.bodies.topics import DataVersion, TopicConfig
from roketto.protocol.command import Command
from roketto.remoting.errors import ConnectError, ConnectionLostError, RequestTimeoutError
from unit.broker.topic_source import MemoryTopics

ADDRESS = "names:9876"

Answer = Command | Exception


class FakeLink:
    """Answers what the script says, then nothing: the last request waits for ever."""

    def __init__(self, script: list[Answer]) -> None:
        self.script = script
        self.asked: list[Command] = []
        self.is_used_up = asyncio.Event()
        self.closed = False
        self.close_reason: str | None = None
        self._callbacks: list[Callable[[Any], None]] = []

    async def request(self, command: Command, timeout_ms: int) -> Command:
        await asyncio.sleep(0)
        self.asked.append(command)
        if not self.script:
            if command.code == 104:
                raise RequestTimeoutError(ADDRESS, f"no answer within {timeout_ms} ms")
            self.is_used_up.set()
            await asyncio.Event().wait()
        answer = self.script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def add_close_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    def abort(self, reason: str) -> None:
        self.closed = True
        self.close_reason = reason
        for callback in self._callbacks:
            callback(self)

    @property
    def codes(self) -> list[int]:
        return [command.code for command in self.asked]


class Stage:
    """A registrar with its topics, its clock and the links it gets, one after the other."""

    def __init__(self, folder: Path, *links: FakeLink | Exception, **options: object) -> None:
        self.now_s = 0.0
        self.step_s = 0.0
        self.topics = MemoryTopics("A", "B")
        self.links = list(links)
        self.ordered: list[str] = []
        config = BrokerConfig(namesrv_addr="", store_path_root_dir=folder)
        for name, value in options.items():
            assert hasattr(config, name)
            setattr(config, name, value)
        requests = RegistrationRequests(config, self.topics, "10.0.0.1:10911")
        self.registrar = Registrar(
            ADDRESS, config, requests, self.open_link, self.take_ordered, self.clock
        )
        self.topics.on_change = self.note_change

    def note_change(self, topic: TopicConfig | None) -> None:
        self.registrar.announce(None if topic is None else topic.topic_name)

    def clock(self) -> float:
        """With a step, whatever is to be done every so often is always due."""
        self.now_s += self.step_s
        return self.now_s

    async def open_link(self, address: str, timeout_ms: int) -> FakeLink:
        assert address == ADDRESS
        await asyncio.sleep(0)
        link = self.links[0]
        if isinstance(link, Exception):
            del self.links[0]
            raise link
        if not link.closed:
            return link
        del self.links[0]
        return await self.open_link(address, timeout_ms)

    def take_ordered(self, names: Iterable[str]) -> None:
        self.ordered += names

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Registrar]:
        self.registrar.start()
        try:
            async with asyncio.timeout(10):
                yield self.registrar
        finally:
            await self.registrar.stop(100)


def done(body: bytes = b"", **ext: str) -> Command:
    return Command(0, ext, body)


def topics_of(command: Command) -> list[str]:
    body = decode_registration(command.body, version=command.version)
    return sorted(body.topic_config_serialize_wrapper.topic_config_table)


async def settle() -> None:
    """Let every task that can go on do so."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_everything_is_told_at_start(tmp_path: Path) -> None:
    link = FakeLink([done()])
    stage = Stage(tmp_path, link)
    async with stage.running() as registrar:
        await registrar.has_tried.wait()
        assert registrar.standing == Standing.REGISTERED
        assert [topics_of(command) for command in link.asked] == [["A", "B"]]


async def test_changes_of_one_turn_are_one_request(tmp_path: Path) -> None:
    link = FakeLink([done(), done(), done()])
    stage = Stage(tmp_path, link)
    async with stage.running() as registrar:
        await registrar.has_tried.wait()
        for number in range(5):
            stage.topics.put(TopicConfig(topic_name=f"T{number}"))
        await settle()
        assert topics_of(link.asked[1]) == ["T0", "T1", "T2", "T3", "T4"]
        assert len(link.asked) == 2


async def test_a_removed_topic_makes_the_whole_table_go_out(tmp_path: Path) -> None:
    link = FakeLink([done(), done(), done()])
    stage = Stage(tmp_path, link)
    async with stage.running() as registrar:
        await registrar.has_tried.wait()
        stage.topics.put(TopicConfig(topic_name="C"))
        stage.topics.remove("A")
        await settle()
        assert topics_of(link.asked[1]) == ["B", "C"]


async def test_the_table_is_sent_again_every_period(tmp_path: Path) -> None:
    link = FakeLink([done(), done(), done()])
    stage = Stage(tmp_path, link)
    stage.step_s = 61.0
    async with stage.running():
        await link.is_used_up.wait()
        assert link.codes == [103] * 4


async def test_without_force_only_another_version_makes_the_table_go_out(tmp_path: Path) -> None:
    ours = encode_body(DataVersion(counter=1, timestamp=1_000))
    other = encode_body(DataVersion(counter=1, timestamp=999))
    link = FakeLink(
        [
            done(),
            done(ours, changed="false"),
            done(ours, changed="true"), done(),
            done(other, changed="false"), done(),
            done(changed="false"), done(),
        ]
    )  # fmt: skip
    stage = Stage(tmp_path, link, force_register=False)
    stage.step_s = 61.0
    async with stage.running():
        await link.is_used_up.wait()
        assert link.codes == [103, 322, 322, 103, 322, 103, 322, 103, 322]


async def test_a_refused_change_is_followed_by_the_whole_table(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    link = FakeLink([done(), Command(1, remark="register broker failed"), done(), done()])
    stage = Stage(tmp_path, link)
    async with stage.running() as registrar:
        await registrar.has_tried.wait()
        stage.topics.put(TopicConfig(topic_name="C"))
        await settle()
        assert [topics_of(command) for command in link.asked] == [
            ["A", "B"], ["C"], ["A", "B", "C"],
        ]  # fmt: skip
        assert registrar.standing == Standing.REGISTERED
    assert "refuses" not in caplog.text


async def test_a_refusal_is_one_line_with_its_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    link = FakeLink([Command(1, remark="crc32 not match"), Command(1), Command(1)])
    stage = Stage(tmp_path, link)
    stage.step_s = 61.0
    async with stage.running() as registrar:
        await link.is_used_up.wait()
        assert registrar.standing == Standing.REFUSED
    assert caplog.messages == [
        f"name server {ADDRESS}: refuses this broker: 'crc32 not match' (code 1)"
    ]


async def test_a_name_server_that_cannot_unpack_gets_it_plain(tmp_path: Path) -> None:
    link = FakeLink([Command(1, remark="Failed to decode RegisterBrokerBody"), done(), done()])
    stage = Stage(tmp_path, link, compressed_register=True)
    async with stage.running() as registrar:
        await settle()
        assert registrar.standing == Standing.REGISTERED
        said = [(command.ext or {})["compressed"] for command in link.asked]
        assert said == ["true", "false"]


async def test_each_change_of_its_state_is_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    down = ConnectError(ADDRESS, "cannot connect: Connection refused")
    lost = ConnectionLostError(ADDRESS, "the peer closed it")
    link = FakeLink([lost, done(), done()])
    stage = Stage(tmp_path, down, down, link)
    stage.step_s = 61.0
    async with stage.running():
        await link.is_used_up.wait()
        said = list(caplog.messages)
    assert said == [
        f"name server {ADDRESS}: cannot connect: Connection refused",
        f"name server {ADDRESS}: knows this broker and its topics",
    ]


async def test_a_lost_connection_is_made_again_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = FakeLink([done()]), FakeLink([done(), done()])
    stage = Stage(tmp_path, first, second)
    async with stage.running() as registrar:
        await registrar.has_tried.wait()
        stage.now_s = 5.0
        first.abort("the peer closed it")
        assert registrar.standing == Standing.LOST
        await settle()
        assert second.codes == [103]
        assert registrar.standing == Standing.REGISTERED
        first.abort("again")
        assert registrar.standing == Standing.REGISTERED
    assert "connection lost: the peer closed it" in caplog.text


async def test_a_name_server_that_does_not_answer_gets_a_new_connection(tmp_path: Path) -> None:
    first = FakeLink([RequestTimeoutError(ADDRESS, "no answer within 24000 ms")])
    second = FakeLink([])
    stage = Stage(tmp_path, first, second)
    stage.step_s = 61.0
    async with stage.running():
        await second.is_used_up.wait()
    assert first.close_reason == "no answer within 24000 ms"


async def test_a_name_server_about_to_stop_is_left(tmp_path: Path) -> None:
    first, second = FakeLink([Command(1500)]), FakeLink([])
    stage = Stage(tmp_path, first, second)
    stage.step_s = 61.0
    async with stage.running():
        await second.is_used_up.wait()
    assert first.closed


async def test_whatever_goes_wrong_it_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    link = FakeLink([RuntimeError("a bug"), RuntimeError("again"), done()])
    stage = Stage(tmp_path, link)
    stage.step_s = 61.0
    async with stage.running():
        await link.is_used_up.wait()
    assert caplog.text.count("Traceback") == 1
    assert "registration failed: RuntimeError('a bug')" in caplog.text


async def test_order_topics_of_the_answer_are_handed_on(tmp_path: Path) -> None:
    table = encode_body(KVTable(table={"A": "a:4", "Z": "a:4"}))
    link = FakeLink([done(table)])
    stage = Stage(tmp_path, link)
    async with stage.running() as registrar:
        await registrar.has_tried.wait()
        assert stage.ordered == ["A", "Z"]


@pytest.mark.parametrize("body", [encode_body(KVTable()), b"no JSON"])
async def test_an_answer_without_order_topics_is_none_the_worse(
    tmp_path: Path, body: bytes
) -> None:
    link = FakeLink([done(body)])
    stage = Stage(tmp_path, link)
    async with stage.running() as registrar:
        await registrar.has_tried.wait()
        assert registrar.standing == Standing.REGISTERED
        assert stage.ordered == []


async def test_a_broker_that_stops_says_farewell(tmp_path: Path) -> None:
    link = FakeLink([done(), done()])
    stage = Stage(tmp_path, link)
    async with stage.running() as registrar:
        await registrar.has_tried.wait()
    assert link.codes == [103, 104]


async def test_a_connection_that_closes_after_the_farewell_was_not_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    link = FakeLink([done(), done()])
    async with Stage(tmp_path, link).running() as registrar:
        await registrar.has_tried.wait()
    link.abort("the client closes")
    assert registrar.standing == Standing.REGISTERED
    assert caplog.messages == []


async def test_a_farewell_that_fails_is_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    link = FakeLink([done()])
    stage = Stage(tmp_path, link)
    async with stage.running() as registrar:
        await registrar.has_tried.wait()
    assert "was not told that this broker stops: no answer within 100 ms" in caplog.text


async def test_nobody_who_does_not_know_us_is_told_farewell(tmp_path: Path) -> None:
    link = FakeLink([])
    stage = Stage(tmp_path, link)
    async with stage.running():
        await link.is_used_up.wait()
    assert link.codes == [103]
    never = Stage(tmp_path)
    await never.registrar.stop(100)
