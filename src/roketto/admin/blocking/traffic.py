"""Blocking: ``roketto.admin.traffic`` for threads; ``./dev blocking`` writes it."""

from collections.abc import Collection

from roketto.admin.traffic import Traffic as AsyncTraffic
from roketto.admin.traffic import TrafficRow
from roketto.client.facade import Facade

__all__ = ["Traffic"]


class Traffic(Facade[AsyncTraffic]):
    """Made by ``Admin``, as ``admin.traffic``; mqadmin calls it statsAll.

    for row in admin.traffic.rows(only_active=True):
        print(row.topic, row.group, row.lag, row.put.tps)
    """

    def rows(
        self, topics: Collection[str] | None = None, *, only_active: bool = False
    ) -> list[TrafficRow]:
        """The rows of some topics, or of all but those of retries and dead letters."""
        return self._run(self._inner.rows(topics, only_active=only_active))
