"""Blocking: ``roketto.admin.tracks`` for threads; ``./dev blocking`` writes it."""

from roketto.admin.tracks import Track
from roketto.admin.tracks import Tracks as AsyncTracks
from roketto.client.facade import Facade
from roketto.client.received import ReceivedMessage

__all__ = ["Tracks"]


class Tracks(Facade[AsyncTracks]):
    """Made by ``Admin``, as ``admin.tracks``.

    for track in admin.tracks.of(message):
        print(track.group, track.type.name)
    """

    def of(self, message: ReceivedMessage) -> list[Track]:
        """What the groups of its topic have done with it."""
        return self._run(self._inner.of(message))
