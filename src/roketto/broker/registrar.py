"""One name server of a broker: keeps it told, whatever becomes of it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol

from roketto.broker.config import BrokerConfig
from roketto.broker.registrar_agenda import Agenda, Deed, Work
from roketto.broker.registration_requests import RegistrationRequests
from roketto.clock import monotonic_s
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.route import KVTable
from roketto.protocol.bodies.topics import DataVersion
from roketto.protocol.codes import ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import BodyError
from roketto.remoting.client import CONNECT_TIMEOUT_MS
from roketto.remoting.errors import RemotingError, RequestTimeoutError

__all__ = ["Link", "Registrar", "Standing"]

log = logging.getLogger(__name__)

_REMARK_SHOWN_MAX: Final = 300


class Link(Protocol):
    """What is needed of a Connection."""

    @property
    def close_reason(self) -> str | None: ...

    @property
    def closed(self) -> bool: ...

    async def request(self, command: Command, timeout_ms: int) -> Command: ...

    def add_close_callback(self, callback: Callable[[Any], None]) -> None: ...

    def abort(self, reason: str) -> None: ...


class Standing:
    """How we stand with a name server, in words; a change of it is one line in the log."""

    UNTRIED: Final = "not tried yet"
    REGISTERED: Final = "registered"
    LOST: Final = "connection lost"
    UNREACHABLE: Final = "unreachable"
    REFUSED: Final = "refused"
    FAILED: Final = "failed"


class _RefusedError(Exception):
    """The name server answered, and said no."""


class Registrar:
    """Tells one name server of the broker: all topics at start and every 30 s, changes at once.

    Made, started, told of changes and stopped by Registration; ``open_link`` is Pool.connection. A
    name server that is down, slow or gone mad costs nobody else anything.
    """

    def __init__(
        self,
        address: str,
        config: BrokerConfig,
        requests: RegistrationRequests,
        open_link: Callable[[str, int], Awaitable[Link]],
        on_order_topics: Callable[[Iterable[str]], None],
        now_s: Callable[[], float] = monotonic_s,
    ) -> None:
        self.address = address
        self.standing: str = Standing.UNTRIED
        self.has_tried = asyncio.Event()
        """Whether the first attempt is over, with whatever result."""
        self._config = config
        self._requests = requests
        self._open_link = open_link
        self._on_order_topics = on_order_topics
        self._now_s = now_s
        self._agenda = Agenda(now_s())
        self._news = asyncio.Event()
        self._link: Link | None = None
        self._told_rank: tuple[int, int, int] | None = None
        """The version that the name server has, if it still knows us."""
        self._is_plain = False
        """Whether the name server has refused a compressed registration."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"registrar of {self.address}")

    def announce(self, topic: str | None) -> None:
        """A topic has changed; None: tell all. What comes in one turn of the loop goes together."""
        self._agenda.announce(topic)
        self._news.set()

    async def stop(self, timeout_ms: int) -> None:
        """Stop telling, and say farewell if the name server knows us."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        link, self._link = self._link, None  # when it closes now, nothing was lost
        if link is None or link.closed or not self._agenda.is_known:
            return
        try:
            await link.request(self._requests.farewell(), timeout_ms)
        except RemotingError as error:  # it forgets us when the connection closes, too
            log.warning("name server %s was not told that this broker stops: %s",
                        self.address, error.reason)  # fmt: skip

    async def _run(self) -> None:
        while True:
            self._news.clear()
            now_s = self._now_s()
            work = self._agenda.take(now_s, is_forced=self._config.force_register)
            if work is None:
                self.has_tried.set()
                await self._rest(self._agenda.due_s - now_s)
            else:
                await self._do(work)

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass

    async def _do(self, work: Work) -> None:
        agenda, period_s = self._agenda, self._config.register_period_ms / 1000
        try:
            await self._tell(work)
        except _RefusedError as error:
            if self._is_compressing:
                self._is_plain = True  # 4.x does not read what a broker of 5.x compresses
                agenda.retry(self._now_s())
            elif work.deed is Deed.WHOLE:
                agenda.refuse(self._now_s(), period_s)
                self._note(Standing.REFUSED, f"refuses this broker: {error}")
            else:
                agenda.retry(self._now_s())  # it may have forgotten us
        except RemotingError as error:
            agenda.fail(self._now_s())
            self._note(Standing.UNREACHABLE, error.reason)
        except Exception as error:  # whatever it is, the next attempt may go better
            agenda.fail(self._now_s())
            if self.standing != Standing.FAILED:
                log.exception("registration with name server %s failed", self.address)
            self._note(Standing.FAILED, f"registration failed: {error!r}")
        else:
            agenda.succeed(work, self._now_s(), period_s)
            self._note(Standing.REGISTERED, "knows this broker and its topics")

    async def _tell(self, work: Work) -> None:
        link = self._watch(await self._open_link(self.address, CONNECT_TIMEOUT_MS))
        if work.deed is Deed.QUESTION:
            await self._ask(link)
            return
        rank = self._requests.rank
        for request in self._pick(work):
            self._take_order_topics(await self._request(link, request))
        self._told_rank = rank

    def _pick(self, work: Work) -> list[Command]:
        requests, is_compressed = self._requests, self._is_compressing
        if work.deed is Deed.CHANGED:
            return requests.changed(work.topics, is_compressed=is_compressed)
        is_repeated = self._agenda.is_known and self._told_rank == requests.rank
        return requests.whole(is_repeated=is_repeated, is_compressed=is_compressed)

    @property
    def _is_compressing(self) -> bool:
        return self._config.compressed_register and not self._is_plain

    async def _ask(self, link: Link) -> None:
        """See whether the name server has our version; Java's way with forceRegister off."""
        answer = await self._request(link, self._requests.question())
        is_changed = (answer.ext or {}).get("changed") != "false"
        if is_changed or not self._has_ours(answer):
            self._agenda.announce(None)

    def _has_ours(self, answer: Command) -> bool:
        if not answer.body:
            return False
        return self._requests.is_current(decode_body(DataVersion, answer.body))

    async def _request(self, link: Link, request: Command) -> Command:
        try:
            answer = await link.request(request, self._config.register_broker_timeout_mills)
        except RequestTimeoutError as error:
            link.abort(error.reason)  # a connection to a host that is gone would stay for hours
            raise
        if answer.code != ResponseCode.SUCCESS:
            if answer.code == ResponseCode.GO_AWAY:
                link.abort("the name server is about to stop")
            remark = (answer.remark or "no reason given")[:_REMARK_SHOWN_MAX]
            raise _RefusedError(f"{remark!a} (code {answer.code})")
        return answer

    def _take_order_topics(self, answer: Command) -> None:
        """Topics that the name servers have in their KV configuration as ordered."""
        if not answer.body:
            return
        try:
            table = decode_body(KVTable, answer.body).table
        except BodyError as error:
            log.warning("order topics of name server %s were not understood: %s",
                        self.address, error)  # fmt: skip
            return
        if table:
            self._on_order_topics(table.keys())

    def _watch(self, link: Link) -> Link:
        if link is not self._link:
            self._link = link
            link.add_close_callback(self._lose)
        return link

    def _lose(self, link: Link) -> None:
        if link is self._link:
            self._link = None
            if self._agenda.is_known:
                self._agenda.lose(self._now_s())
                self._note(Standing.LOST, f"connection lost: {link.close_reason or 'it closed'}")
                self._news.set()

    def _note(self, standing: str, text: str) -> None:
        if standing != self.standing:
            self.standing = standing
            level = logging.INFO if standing == Standing.REGISTERED else logging.WARNING
            log.log(level, "name server %s: %s", self.address, text)
