"""Proves that ordinals of versions have the names that the Java peer gives them."""

import json
from pathlib import Path

import pytest

from roketto.protocol import versions
from roketto.protocol.versions import CURRENT_VERSION, V5_5_0, version_name

GOLDEN = Path(__file__).parents[2] / "golden" / "headers"


@pytest.mark.parametrize("peer", ["5.5.0", "4.9.7"])
def test_every_ordinal_has_the_name_of_the_peer(peer: str) -> None:
    names = json.loads((GOLDEN / f"peer-{peer}.json").read_text())["versions"]
    assert [version_name(ordinal) for ordinal in range(len(names))] == names


@pytest.mark.parametrize("ordinal", [-32768, -1, 612, 32767])
def test_an_ordinal_outside_the_list_is_a_higher_version(ordinal: int) -> None:
    assert version_name(ordinal) == "HIGHER_VERSION"


def test_every_constant_is_the_ordinal_of_its_name() -> None:
    constants = {name: value for name, value in vars(versions).items() if name.startswith("V")}
    assert len(constants) == 11
    assert {name: version_name(value) for name, value in constants.items()} == {
        name: name for name in constants
    }


def test_we_report_5_5_0() -> None:
    assert CURRENT_VERSION == V5_5_0 == 513
