"""What a test does that needs the peer and cannot have it."""

import os
from typing import NoReturn

import pytest

from .errors import PeerUnavailableError


def skip_or_fail(unavailable: PeerUnavailableError) -> NoReturn:
    """Skip with the reason; under CI fail, so that a green run has really met the peer."""
    if os.environ.get("CI"):
        pytest.fail(f"the Java peer is required under CI: {unavailable}")
    pytest.skip(str(unavailable))
