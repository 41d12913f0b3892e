"""The key-value configuration of name servers, where the order of topics is kept, too."""

from typing import Final

from roketto.admin.fleet import Fleet
from roketto.client.errors import RefusedError
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.route import KVTable
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.namesrv import (
    DeleteKvConfigRequest,
    GetKvConfigRequest,
    GetKvConfigResponse,
    GetKvListRequest,
    PutKvConfigRequest,
)

__all__ = ["ORDER_TOPICS", "Kv"]

ORDER_TOPICS: Final = "ORDER_TOPIC_CONFIG"
"""The namespace whose keys are topics and whose values are ``broker:queues;broker:queues``."""


class Kv:
    """Made by ``Admin``, as ``admin.kv``. Changes go to all name servers, questions to one.

    await admin.kv.put("MY_TOOLS", "owner", "ops")
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Add or replace a value."""
        request = PutKvConfigRequest(namespace=namespace, key=key, value=value)
        answers = await self._fleet.ask_all_names(
            f"put {namespace}/{key}", RequestCode.PUT_KV_CONFIG, request
        )
        answers.checked(None)

    async def get(self, namespace: str, key: str) -> str | None:
        """A value; None if there is none."""
        request = GetKvConfigRequest(namespace=namespace, key=key)
        try:
            answer = await self._fleet.ask_names(RequestCode.GET_KV_CONFIG, request)
        except RefusedError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        return decode_header(GetKvConfigResponse, answer.ext).value

    async def delete(self, namespace: str, key: str) -> None:
        """Take a value away; that there is none is no error."""
        request = DeleteKvConfigRequest(namespace=namespace, key=key)
        answers = await self._fleet.ask_all_names(
            f"delete {namespace}/{key}", RequestCode.DELETE_KV_CONFIG, request
        )
        answers.checked(None)

    async def table(self, namespace: str) -> dict[str, str]:
        """All values of a namespace; empty if nobody has put one."""
        request = GetKvListRequest(namespace=namespace)
        try:
            answer = await self._fleet.ask_names(RequestCode.GET_KVLIST_BY_NAMESPACE, request)
        except RefusedError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return {}
            raise
        return decode_body(KVTable, answer.body).table
