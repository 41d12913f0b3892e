"""The addresses of name servers as code, options and the environment give them; pure.

Apart from those who ask them (name_servers.py), so that whoever only looks at options needs no
transport.
"""

from collections.abc import Mapping, Sequence
from typing import Final

__all__ = ["configured_addresses", "split_addresses"]

_VARIABLES: Final = ("ROCKETMQ_NAMESRV_ADDR", "NAMESRV_ADDR")
_ADDRESSES_MAX: Final = 64
"""Nobody runs so many; a list that is longer is none of name servers."""


def split_addresses(text: str) -> list[str]:
    """The addresses of a list with ``;`` or ``,`` between them, each once.

    Of an endpoint such as ``http://host:port`` what follows the last slash counts, as in Java.
    """
    parts = (part.strip().rpartition("/")[2] for part in text.replace(",", ";").split(";"))
    return list(dict.fromkeys(part for part in parts if part))[:_ADDRESSES_MAX]


def configured_addresses(
    given: str | Sequence[str] | None, environment: Mapping[str, str]
) -> tuple[list[str], str]:
    """The addresses that code or environment name, and who named them; none if nobody does."""
    texts = [("the code", given if isinstance(given, str) else ";".join(given or ()))]
    texts += [(f"${name}", environment.get(name, "")) for name in _VARIABLES]
    for source, text in texts:
        if found := split_addresses(text):
            return found, source
    return [], ""
