"""Requests to brokers and name servers: signed, with the names of their namespace, errors in words.

Whoever asks gets the answer with its code, or one of the errors of errors.py. An address is what a
broker has told a name server; where it cannot be reached, the error says so.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from roketto.client.errors import (
    ClientClosedError,
    RefusedError,
    UnreachableError,
    UnreadableError,
)
from roketto.client.name_servers import NameServers
from roketto.client.settings import ClientSettings
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.codes import ResponseCode
from roketto.protocol.command import Body, Command
from roketto.protocol.errors import BodyError, HeaderFieldError
from roketto.protocol.headers.base import Header, decode_header, encode_header
from roketto.remoting.errors import (
    ConnectError,
    RemotingError,
    RequestTimeoutError,
    TooManyRequestsError,
)
from roketto.remoting.pool import Pool

__all__ = ["Calls", "expect_success", "read_body", "read_header"]

H = TypeVar("H", bound=Header)
B = TypeVar("B")
T = TypeVar("T")


class Calls:
    """The requests of one client.

    answer = await calls.ask(address, RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequest(...))
    found = await calls.ask_for(GetMaxOffsetResponse, address, code, request)
    """

    def __init__(self, pool: Pool, names: NameServers, settings: ClientSettings) -> None:
        self.pool = pool
        self._names = names
        self._settings = settings
        self.describe: Callable[[str], str] = str
        """What is to be said of an address; the route table knows whose it is."""
        self.on_unreachable: Callable[[str], None] | None = None
        """Called with each address that did not answer; its broker may have moved."""
        self._closed_because = ""

    def close(self, reason: str) -> None:
        """Refuse whatever is asked from now on; what is under way is the pool's to end."""
        self._closed_because = reason

    def _check_open(self) -> None:
        if self._closed_because:
            raise ClientClosedError(self._closed_because)

    def command(self, code: int, header: Header | None, body: Body = b"") -> Command:
        """A request, signed."""
        return self.sign(Command(code, None if header is None else encode_header(header), body))

    def sign(self, command: Command) -> Command:
        """Put into a request what all of them have here: namespace and signature."""
        settings = self._settings
        if settings.namespace_v2 or settings.credentials is not None:
            ext = command.ext = dict(command.ext or {})
            if settings.namespace_v2:
                ext["nsd"], ext["ns"] = "true", settings.namespace_v2
            if settings.credentials is not None:
                settings.credentials.sign(ext, command.body)
        return command

    async def ask(
        self,
        address: str,
        code: int,
        header: Header | None = None,
        body: Body = b"",
        timeout_ms: int | None = None,
    ) -> Command:
        """The answer of a server, whatever its code; UnreachableError without one."""
        return await self.send(address, self.command(code, header, body), timeout_ms)

    async def send(self, address: str, command: Command, timeout_ms: int | None = None) -> Command:
        """The same for a request that is made and signed."""
        if self._closed_because:
            self._check_open()
        limit_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            return await self.pool.request(address, command, limit_ms)
        except RemotingError as error:
            raise self.unreachable(error) from error

    async def ask_for(
        self,
        answer_type: type[H],
        address: str,
        code: int,
        header: Header | None = None,
        body: Body = b"",
        timeout_ms: int | None = None,
    ) -> H:
        """The header of a successful answer; RefusedError for any other."""
        return read_header(
            answer_type, address, await self.ask(address, code, header, body, timeout_ms)
        )

    async def ask_for_body(
        self,
        body_type: type[B],
        address: str,
        code: int,
        header: Header | None = None,
        body: Body = b"",
        timeout_ms: int | None = None,
    ) -> B:
        """The body of a successful answer; RefusedError for any other."""
        return read_body(
            body_type, address, await self.ask(address, code, header, body, timeout_ms)
        )

    async def ask_names(
        self, code: int, header: Header | None = None, timeout_ms: int | None = None
    ) -> Command:
        """The answer of a name server, whatever its code; NoNameServerError without one."""
        return await self.ask_names_for(lambda address, answer: answer, code, header, timeout_ms)

    async def ask_names_for(
        self,
        read: Callable[[str, Command], T],
        code: int,
        header: Header | None = None,
        timeout_ms: int | None = None,
    ) -> T:
        """What ``read`` makes of the answer and of who has given it; see NameServers.ask_for."""
        self._check_open()
        limit_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        return await self._names.ask_for(self.command(code, header), limit_ms, read)

    async def tell(
        self, address: str, code: int, header: Header | None = None, body: Body = b""
    ) -> None:
        """Send what nobody answers; UnreachableError if it cannot even be handed over."""
        self._check_open()
        command = self.command(code, header, body)
        try:
            if not await self.pool.send_one_way(address, command):
                raise UnreachableError(
                    address, f"{self.describe(address)} does not read what it is sent",
                    is_sent=False,
                )  # fmt: skip
        except RemotingError as error:
            raise self.unreachable(error) from error

    def unreachable(self, error: RemotingError) -> UnreachableError:
        """What the transport says, with whose address it is and what may be wrong with it."""
        address = error.address
        whose = self.describe(address)
        text = f"{whose}: {error.reason}"
        is_connect = isinstance(error, ConnectError)
        is_ours = isinstance(error, TooManyRequestsError)  # not the server's fault
        if not is_ours and self.on_unreachable is not None:
            self.on_unreachable(address)
        if is_connect and whose != address:
            text += (
                "; if that is not where it runs, set brokerIP1 there to an address that clients"
                " can reach"
            )
        unreachable = UnreachableError(
            address, text, is_sent=not (is_connect or is_ours),
            is_timeout=isinstance(error, RequestTimeoutError),
        )  # fmt: skip
        unreachable.__cause__ = error  # compiled code does not heed `from`
        return unreachable


def read_header(answer_type: type[H], address: str, answer: Command) -> H:
    """The header of a successful answer; RefusedError for any other."""
    fields = expect_success(address, answer)
    try:
        return decode_header(answer_type, fields)
    except HeaderFieldError as error:
        raise UnreadableError(address, error.reason) from error


def read_body(body_type: type[B], address: str, answer: Command) -> B:
    """The body of a successful answer; RefusedError for any other."""
    expect_success(address, answer)
    try:
        return decode_body(body_type, answer.body)
    except BodyError as error:
        raise UnreadableError(address, error.reason) from error


def expect_success(address: str, answer: Command) -> Mapping[str, str]:
    """The fields of a successful answer; RefusedError for any other."""
    if answer.code != ResponseCode.SUCCESS:
        raise RefusedError(address, answer.code, answer.remark or "without a reason")
    return answer.ext or {}
