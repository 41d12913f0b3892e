"""Name servers are found in Java's order of places, and asked one after the other."""

import asyncio
from collections.abc import Mapping

import pytest

from roketto.client import name_servers
from roketto.client.addresses import configured_addresses, split_addresses
from roketto.client.errors import NoNameServerError, RefusedError, UnreadableError
from roketto.client.name_servers import NameServers
from roketto.protocol.command import Command
from roketto.remoting.errors import ConnectError, RequestTimeoutError
from unit.client.core_rig import ScriptedPool

ROCKETMQ, PLAIN, DOMAIN = "ROCKETMQ_NAMESRV_ADDR", "NAMESRV_ADDR", "ROCKETMQ_NAMESRV_DOMAIN"


class Names:
    """Name servers that are a function; ``down`` are those that refuse connections."""

    def __init__(
        self, given: str | list[str] | None, environment: Mapping[str, str] | None = None
    ) -> None:
        self.down: set[str] = set()
        self.pool = ScriptedPool(self._answer)
        self.names = NameServers(self.pool, given, environment=environment or {})

    def _answer(self, address: str, command: Command) -> Command:
        if address in self.down:
            raise ConnectError(address, "cannot connect: Connection refused")
        return command.answer(remark=address)

    async def ask(self) -> str | None:
        return (await self.names.ask(Command(105), 100)).remark

    @property
    def asked(self) -> list[str]:
        return [address for address, _ in self.pool.sent]


@pytest.mark.parametrize(
    ("given", "environment", "found"),
    [
        ("a:1", {ROCKETMQ: "b:1", PLAIN: "c:1"}, (["a:1"], "the code")),
        (["a:1", "b:2;c:3"], {}, (["a:1", "b:2", "c:3"], "the code")),
        (None, {ROCKETMQ: "b:1", PLAIN: "c:1"}, (["b:1"], "$ROCKETMQ_NAMESRV_ADDR")),
        (None, {PLAIN: "c:1;d:1"}, (["c:1", "d:1"], "$NAMESRV_ADDR")),
        (" ; ", {PLAIN: "c:1"}, (["c:1"], "$NAMESRV_ADDR")),
        ([], {ROCKETMQ: " "}, ([], "")),
    ],
)
def test_the_first_place_that_names_some_counts(
    given: str | list[str] | None,
    environment: dict[str, str],
    found: tuple[list[str], str],
) -> None:
    assert configured_addresses(given, environment) == found


def test_lists_are_split_as_java_does_and_a_little_more() -> None:
    assert split_addresses("http://a:1; b:2 ,b:2;;[::1]:3") == ["a:1", "b:2", "[::1]:3"]
    assert len(split_addresses(";".join(f"h:{port}" for port in range(1_000)))) == 64


def test_without_a_word_from_anyone_it_is_this_machine() -> None:
    names = Names(None).names
    assert (names.addresses, names.current) == (["127.0.0.1:9876"], "127.0.0.1:9876")
    assert names.source == "nobody: this is where one runs without options"
    assert not names.is_by_http


@pytest.mark.parametrize(
    ("given", "instance"),
    [
        ("http://MQ_INST_123_abc.mq.example:80", "MQ_INST_123_abc"),
        ("MQ_INST_1_2.host:9876", "MQ_INST_1_2"),
        ("mq.example:80", ""),
        ("http://host/MQ_INST_1", ""),
    ],
)
def test_an_instance_in_an_address_is_a_namespace(given: str, instance: str) -> None:
    assert Names(given).names.instance == instance


async def test_one_is_asked_until_it_fails_and_then_the_next() -> None:
    rig = Names("a:1;b:1")
    first = rig.names.current
    (second,) = set(rig.names.addresses) - {first}
    assert [await rig.ask(), await rig.ask()] == [first] * 2
    rig.down = {first}
    assert [await rig.ask(), await rig.ask()] == [second] * 2
    assert rig.asked == [first, first, first, second, second]
    rig.down = {second}  # and back
    assert [await rig.ask(), await rig.ask()] == [first] * 2
    assert rig.names.current == first


async def test_clients_do_not_all_begin_with_the_same() -> None:
    assert {Names("a:1;b:1;c:1").names.current for _ in range(100)} == {"a:1", "b:1", "c:1"}


async def test_none_that_answers_is_an_error_with_all_that_was_tried() -> None:
    rig = Names("a:1")
    rig.down = {"a:1"}
    with pytest.raises(NoNameServerError) as raised:
        await rig.ask()
    assert str(raised.value) == (
        "no name server answers (a:1: cannot connect: Connection refused); their addresses come"
        " from the code: start one (roketto up), or set name_servers or $ROCKETMQ_NAMESRV_ADDR"
    )


async def test_a_useless_answer_counts_only_if_nobody_has_a_better_one() -> None:
    rig = Names("a:1;b:1;c:1")
    useless: set[str] = set(rig.names.addresses[:2])

    def read(address: str, answer: Command) -> str:
        if address in useless:
            raise UnreadableError(address, "it is Greek")
        return f"{answer.remark} said"

    last = rig.names.addresses[2]
    assert await rig.names.ask_for(Command(105), 100, read) == f"{last} said"
    assert rig.names.current == last
    useless.add(last)
    rig.down = set(rig.names.addresses[:1])
    with pytest.raises(UnreadableError, match="it is Greek"):
        await rig.names.ask_for(Command(105), 100, read)


async def test_what_is_no_failure_of_the_server_ends_the_question() -> None:
    """A topic that one does not know is not asked of all of them; nor is a bug hidden."""
    rig = Names("a:1;b:1")

    def read(address: str, answer: Command) -> str:
        raise KeyError(address)

    with pytest.raises(KeyError):
        await rig.names.ask_for(Command(105), 100, read)
    assert len(rig.asked) == 1


async def test_those_who_fail_together_go_on_together() -> None:
    """Ten questions to one that hangs move on by one, not by ten."""
    rig = Names("a:1;b:1;c:1")
    first, second = rig.names.addresses[:2]

    async def hang(address: str, command: Command, timeout_ms: int) -> Command:
        await asyncio.sleep(0.001)
        if address == first:
            raise RequestTimeoutError(address, "no answer")
        return command.answer(remark=address)

    rig.pool.request = hang  # type: ignore[method-assign] # a server that hangs
    found = await asyncio.gather(*(rig.ask() for _ in range(10)))
    assert (set(found), rig.names.current) == ({second}, second)


class Page:
    """An address server that is a list of answers, of which the last one stays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        monkeypatch.setattr(name_servers, "fetch_line", self._fetch)

    async def _fetch(self, url: str) -> str:
        self.asked.append(url)
        await asyncio.sleep(0)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_an_address_server_is_asked_when_nobody_else_names_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it said last counts while it fails; the one that is asked stays if it may."""
    page = Page(monkeypatch, "a:1;b:1", OSError("gone"), "", "c:1;b:1;a:1", "d:1")
    rig = Names(None, {DOMAIN: "ns"})
    assert (rig.names.addresses, rig.names.is_by_http) == ([], True)
    assert rig.names.source == "the address server http://ns:8080/rocketmq/nsaddr"
    await rig.names.refresh()
    current = rig.names.current
    for _ in range(2):
        await rig.names.refresh()
        assert set(rig.names.addresses) == {"a:1", "b:1"}
    await rig.names.refresh()
    assert set(rig.names.addresses) == {"a:1", "b:1", "c:1"}
    assert rig.names.current == current
    await rig.names.refresh()
    assert rig.names.addresses == ["d:1"]
    assert page.asked == ["http://ns:8080/rocketmq/nsaddr"] * 5


async def test_a_question_without_addresses_asks_for_them_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many have questions at the same time."""
    page = Page(monkeypatch, "a:1")
    rig = Names(None, {DOMAIN: "ns"})
    assert await asyncio.gather(*(rig.ask() for _ in range(10))) == ["a:1"] * 10
    assert len(page.asked) == 1
    page.answers = [ValueError("down")]
    other = Names(None, {DOMAIN: "ns"})
    with pytest.raises(NoNameServerError, match=r"\(there are none\); .* from the address server"):
        await other.ask()


async def test_without_an_address_server_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(monkeypatch, "a:1")
    rig = Names("b:1", {DOMAIN: "ns"})
    await rig.names.refresh()
    assert (page.asked, rig.names.addresses) == ([], ["b:1"])


async def test_a_refusal_is_passed_over_too() -> None:
    """A name server that is starting says so, and the other one knows."""
    rig = Names("a:1;b:1")
    first = rig.names.current

    def read(address: str, answer: Command) -> str:
        if address == first:
            raise RefusedError(address, 1, "name server not ready")
        return address

    assert await rig.names.ask_for(Command(105), 100, read) != first
