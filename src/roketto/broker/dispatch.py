"""From a request to its handler, and from every failure to the code that tells it."""

from collections.abc import Coroutine, Mapping
from typing import Any, Final

from roketto.broker.context import Context, Handler
from roketto.broker.fast_failure import check_wait
from roketto.broker.handlers import (
    all_progress,
    cleaning,
    clients,
    config,
    groups,
    locks,
    offset_query,
    offsets,
    positions,
    pull,
    queries,
    range_read,
    recall,
    relays,
    replicas,
    reply,
    request_modes,
    resets,
    runtime,
    send,
    send_back,
    staged,
    stats,
    timers,
    topics,
    transactions,
)
from roketto.broker.refusals import refuse
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RecordError, RequestError
from roketto.remoting.connection import Connection, Reply
from roketto.store.errors import DiskFullError, StoreError, StoreReadOnlyError
from roketto.store.put_status import PutRefusedError


def _join(*families: Mapping[Any, Handler]) -> dict[int, Handler]:
    joined: dict[int, Handler] = {}
    for family in families:
        twice = joined.keys() & family.keys()
        assert not twice, f"two handlers for {sorted(twice)}"
        joined.update((int(code), handler) for code, handler in family.items())
    return joined


ROUTES: Final = _join(
    send.ROUTES,
    send_back.ROUTES,
    staged.ROUTES,
    recall.ROUTES,
    timers.ROUTES,
    transactions.ROUTES,
    reply.ROUTES,
    pull.ROUTES,
    range_read.ROUTES,
    queries.ROUTES,
    offset_query.ROUTES,
    clients.ROUTES,
    locks.ROUTES,
    offsets.ROUTES,
    positions.ROUTES,
    resets.ROUTES,
    relays.ROUTES,
    topics.ROUTES,
    groups.ROUTES,
    runtime.ROUTES,
    stats.ROUTES,
    config.ROUTES,
    cleaning.ROUTES,
    all_progress.ROUTES,
    request_modes.ROUTES,
    replicas.ROUTES,
)
"""Every request that this broker serves. What may be asked by whom is in protocol/codes.py."""


_SAVED_FIRST: Final = frozenset(
    map(
        int,
        (
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
            RequestCode.DELETE_TOPIC_IN_BROKER,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
            RequestCode.DELETE_SUBSCRIPTIONGROUP,
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
            RequestCode.SET_MESSAGE_REQUEST_MODE,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            RequestCode.CLONE_GROUP_OFFSET,
        ),
    )
)
"""What operators change is on the disk before they are told."""


class Dispatcher:
    """The broker without its sockets: ``handle`` is what a Server calls."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._config = context.config
        self._stats = context.stats

    def handle(self, connection: Connection, request: Command) -> Reply:
        code = request.code
        self._stats.note_request(code)
        handler = ROUTES.get(code)
        try:
            if handler is None:
                raise refuse(code)
            if connection.waited_s:
                check_wait(self._config, code, connection.waited_s, connection.waiting)
            answer = handler(self._context, connection, request)
        except (RequestError, StoreError, RecordError) as error:
            return self._refuse(request, error)
        if isinstance(answer, Command):
            if answer.code:
                self._stats.note_refusal(code, answer.code)
            elif code in _SAVED_FIRST:
                return self._finish(request, self._answer_when_saved(answer))
            return answer
        return None if answer is None else self._finish(request, answer)

    async def _answer_when_saved(self, answer: Command) -> Command:
        await self._context.saved()
        return answer

    async def _finish(
        self, request: Command, work: Coroutine[Any, Any, Command | None]
    ) -> Command | None:
        try:
            answer = await work
        except (RequestError, StoreError, RecordError) as error:
            return self._refuse(request, error)
        if answer is not None and answer.code:
            self._stats.note_refusal(request.code, answer.code)
        return answer

    def _refuse(self, request: Command, error: Exception) -> Command:
        refused = refusal(error)
        self._stats.note_refusal(request.code, refused.code)
        return request.answer(refused.code, remark=refused.reason)


def refusal(error: Exception) -> RequestError:
    """The response code and the reason for an error of the store or of what was sent."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, PutRefusedError):
        return RequestError(error.status.response_code, error.reason)
    if isinstance(error, DiskFullError | StoreReadOnlyError):
        return RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
    if isinstance(error, RecordError):
        return RequestError(ResponseCode.MESSAGE_ILLEGAL, str(error))
    return RequestError(ResponseCode.SYSTEM_ERROR, str(error))
