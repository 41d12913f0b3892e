"""Blocking: ``roketto.admin.kv`` for threads; ``./dev blocking`` writes it."""

from roketto.admin.kv import Kv as AsyncKv
from roketto.client.facade import Facade

__all__ = ["Kv"]


class Kv(Facade[AsyncKv]):
    """Made by ``Admin``, as ``admin.kv``. Changes go to all name servers, questions to one.

    admin.kv.put("MY_TOOLS", "owner", "ops")
    """

    def put(self, namespace: str, key: str, value: str) -> None:
        """Add or replace a value."""
        self._run(self._inner.put(namespace, key, value))

    def get(self, namespace: str, key: str) -> str | None:
        """A value; None if there is none."""
        return self._run(self._inner.get(namespace, key))

    def delete(self, namespace: str, key: str) -> None:
        """Take a value away; that there is none is no error."""
        self._run(self._inner.delete(namespace, key))

    def table(self, namespace: str) -> dict[str, str]:
        """All values of a namespace; empty if nobody has put one."""
        return self._run(self._inner.table(namespace))
