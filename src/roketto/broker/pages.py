"""Tables that are fetched page by page: by slaves, and by tools for brokers with many topics."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.topics import DataVersion
from roketto.protocol.errors import BodyError

__all__ = ["PAGE_MAX", "Page", "page_of"]

PAGE_MAX: Final = 2_000
"""Entries of one page: Java's splitMetadataSize."""


class Page(NamedTuple):
    """What a caller asks for; all None is a caller of before 5.4, who wants everything."""

    start: int | None
    count_max: int | None
    version: str | None
    """The data version that the caller has seen with its last page, as JSON."""


def page_of(names: Iterable[str], page: Page, version: DataVersion) -> list[str] | None:
    """The names on a page, in order; None for all of them.

    Who has seen another version of the table starts anew, whatever page was asked for.
    """
    if page == (None, None, None):
        return None
    count_max = PAGE_MAX if page.count_max is None else max(0, min(PAGE_MAX, page.count_max))
    start = max(0, page.start or 0) if _is_same(page.version, version) else 0
    return sorted(names)[start : start + count_max]


def _is_same(text: str | None, version: DataVersion) -> bool:
    if text is None or not text.strip():
        return False
    try:
        return decode_body(DataVersion, text.encode()) == version
    except (BodyError, UnicodeEncodeError):
        return False
