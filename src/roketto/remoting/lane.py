"""What a server may have beside its handler, for the requests of which it has the most."""

from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

if TYPE_CHECKING:
    from roketto.remoting.connection import Connection

__all__ = ["Lane"]


@mypyc_attr(allow_interpreted_subclasses=True)
class Lane:
    """A quick way for some requests: from the bytes of a read to those of its answer."""

    def answer(self, connection: "Connection", data: bytes, at: i64, end: i64) -> bool:
        """Answer (``Connection.put``) the frame that lies between two places of what was read;
        False, and nothing done, to have it decoded and handled."""
        return False
