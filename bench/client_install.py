"""Get other clients: Python packages and Java's proxy, each into a folder of the cache, once."""

import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from interop.peer.cache import cached_directory
from interop.peer.fetch import Module, fetch_modules
from interop.peer.java import Jdk

_INSTALL_TIMEOUT_S: Final = 300.0
_PROXY: Final = ("org.apache.rocketmq", "rocketmq-proxy")


class NotInstalledError(Exception):
    """It cannot be had here; the text says why."""


def install(requirements: Sequence[str]) -> Path:
    """Give the folder with these packages and what they need, and nothing of our environment."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    name = f"python{version}/{'+'.join(requirements)}"
    return cached_directory(name, partial(_install, requirements))


def _install(requirements: Sequence[str], folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        done = subprocess.run(
            [*pip, "--target", str(folder), *requirements],
            capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        why = f"pip did not end within {_INSTALL_TIMEOUT_S:.0f} s"
        raise NotInstalledError(why) from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise NotInstalledError((said or ["pip has failed"])[-1])


def fetch_proxy(jdk: Jdk, version: str) -> Path:
    """Give the folder of the proxy's jars."""
    return fetch_modules(jdk, f"{version}/proxy", [Module(*_PROXY, version)])
