"""What can go wrong with the Java peer: it cannot be had, or it did not do what it was told."""

from patience import LateError


class PeerUnavailableError(Exception):
    """No JDK, or no way to fetch the jars: tests skip with this reason (under CI they fail)."""


class PeerFailedError(Exception):
    """A Java process did not start, did not answer or ended with an error."""


class PeerLateError(PeerFailedError, LateError):
    """A Java process did not do in time what it was told."""
