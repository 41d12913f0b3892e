"""Every request that anybody knows is served, or refused with a code and a reason."""

import re
from pathlib import Path

from roketto.broker.dispatch import ROUTES
from roketto.broker.refusals import REFUSALS, refuse
from roketto.protocol.codes import RequestCode, ResponseCode


def test_every_code_is_served_or_refused_by_name() -> None:
    """A new code makes this fail until somebody has decided which."""
    unknown = {int(code) for code in RequestCode} - ROUTES.keys() - REFUSALS.keys()
    assert not unknown, [RequestCode(code) for code in unknown]


def test_nothing_is_both_served_and_refused() -> None:
    assert not ROUTES.keys() & REFUSALS.keys()


def test_a_reason_says_what_was_asked_and_why_not() -> None:
    """In one sentence, with a code that is none of success; it is made anew for each request."""
    for code, (answer, reason) in REFUSALS.items():
        assert answer in (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.SYSTEM_ERROR)
        assert reason.startswith(f"{RequestCode(code).name} ({code}) is not served: ")
        assert not reason.endswith(".")
        assert (refuse(code).code, refuse(code).reason) == (answer, reason)
        assert refuse(code) is not refuse(code)


def test_what_nobody_knows_is_refused_in_javas_words() -> None:
    refused = refuse(4_711)
    assert refused.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert refused.reason == " request type 4711 not supported"


def test_the_documented_requests_are_the_ones_served() -> None:
    """The table of docs/broker.md and the table of handlers have the same codes, by their names."""
    page = (Path(__file__).parents[3] / "docs" / "broker.md").read_text()
    table = page.split("## What it answers")[1].split("All others")[0]
    documented: list[tuple[str, int]] = []
    for names, codes in re.findall(r"^\| (.*?) \| ([\d, ]+) \|$", table, re.MULTILINE):
        found = re.findall(r"\b[A-Z][A-Z\d_]+\b", names)
        documented += zip(found, map(int, codes.split(",")), strict=True)
    assert sorted(documented) == sorted((RequestCode(code).name, code) for code in ROUTES)
