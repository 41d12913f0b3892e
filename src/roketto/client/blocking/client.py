"""Blocking: ``roketto.client.client`` for threads; ``./dev blocking`` writes it."""

from roketto.client.client import Client as AsyncClient
from roketto.client.facade import LivingFacade
from roketto.client.settings import ClientSettings

__all__ = ["Client"]


class Client(LivingFacade[AsyncClient]):
    """Connections, routes and heartbeats of one program.

    with Client(ClientSettings(name_servers="10.0.0.5:9876")) as client:
        producer = Producer("orders", client=client)

    ``keeps_instance`` is for consumers that all get everything: what they keep on this machine is
    kept by their id, which must be the same the next time.
    """

    def __init__(
        self, settings: ClientSettings | None = None, *, keeps_instance: bool = False
    ) -> None:
        self._hold(AsyncClient(settings, keeps_instance=keeps_instance))

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def settings(self) -> ClientSettings:
        return self._inner.settings

    def wrap(self, name: str) -> str:
        """A topic or group with the namespace."""
        return self._call(self._inner.wrap, name)

    def unwrap(self, name: str) -> str:
        """A topic or group as the user calls it."""
        return self._call(self._inner.unwrap, name)
