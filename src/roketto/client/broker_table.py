"""Where brokers are, as the newest route that names each of them says; pure."""

from collections.abc import Collection
from typing import NamedTuple

from roketto.client.routes import Route

__all__ = ["BrokerTable"]


class _Place(NamedTuple):
    addresses: dict[int, str]
    """Broker id -> address."""
    advertiser: str


class BrokerTable:
    """Broker name -> addresses. Routes are asked for at different times: the newest one counts.

    table.note(route)
    table.keep({"broker-a"})        # all that routes still name
    """

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}

    def note(self, route: Route) -> None:
        """Take what a route says now of all brokers that it names."""
        for name, addresses in route.brokers.items():
            self._places[name] = _Place(dict(addresses), route.advertiser)

    def keep(self, names: Collection[str]) -> None:
        """Forget all brokers but these."""
        for name in [name for name in self._places if name not in names]:
            del self._places[name]

    def addresses_of(self, broker_name: str) -> dict[int, str]:
        """Broker id -> address; empty for a broker that is not here."""
        place = self._places.get(broker_name)
        return {} if place is None else dict(place.addresses)

    def all(self) -> dict[str, dict[int, str]]:
        """All of them by their names."""
        return {name: dict(place.addresses) for name, place in self._places.items()}

    def name_at(self, address: str) -> str | None:
        """The broker that has an address."""
        for name, place in self._places.items():
            if address in place.addresses.values():
                return name
        return None

    def describe(self, address: str) -> str:
        """An address with what is known of it: whose it is, and who says so."""
        name = self.name_at(address)
        if name is None:
            return address
        return f"broker {name} at {address} (as name server {self._places[name].advertiser} says)"
