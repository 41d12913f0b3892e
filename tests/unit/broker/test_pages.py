"""Pages of a table: in order, without gaps, and from the start when the table has changed."""

import pytest

from roketto.broker import pages
from roketto.broker.pages import Page, page_of
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.topics import DataVersion

VERSION = DataVersion(counter=3, timestamp=9)
SEEN = encode_body(VERSION).decode()
NAMES = ["c", "a", "d", "b"]


def test_who_asks_for_no_page_gets_everything() -> None:
    """Slaves and tools of before 5.4 send no field."""
    assert page_of(NAMES, Page(None, None, None), VERSION) is None


def test_pages_follow_each_other_in_order() -> None:
    """Sorted by name, so that nothing moves between two pages."""
    assert page_of(NAMES, Page(0, 3, ""), VERSION) == ["a", "b", "c"]
    assert page_of(NAMES, Page(3, 3, SEEN), VERSION) == ["d"]
    assert page_of(NAMES, Page(4, 3, SEEN), VERSION) == []


@pytest.mark.parametrize("seen", [None, "", " ", "nonsense", "\ud800", '{"counter":2}'])
def test_another_version_starts_anew(seen: str | None) -> None:
    """The caller would miss what has been added before its page."""
    assert page_of(NAMES, Page(2, 1, seen), VERSION) == ["a"]


def test_a_page_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked for, or nothing."""
    monkeypatch.setattr(pages, "PAGE_MAX", 2)
    assert page_of(NAMES, Page(0, 9, SEEN), VERSION) == ["a", "b"]
    assert page_of(NAMES, Page(0, None, SEEN), VERSION) == ["a", "b"]
    assert page_of(NAMES, Page(None, -1, SEEN), VERSION) == []
    assert page_of(NAMES, Page(-5, 1, SEEN), VERSION) == ["a"]
