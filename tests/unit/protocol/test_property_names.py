"""Proves that we know every property name that Java knows, and reserve the same ones."""

from golden.record.vectors import load
from roketto.protocol import property_names

VECTORS = load("properties")
OURS = {
    value
    for name, value in vars(property_names).items()
    if name.isupper() and isinstance(value, str)
}
# Constants that stand in the same Java class but name no property.
NOT_PROPERTIES = {
    "KEY_SEPARATOR",
    "INDEX_KEY_TYPE",
    "INDEX_UNIQUE_TYPE",
    "INDEX_TAG_TYPE",
    "TIMER_ENGINE_ROCKSDB_TIMELINE",
    "TIMER_ENGINE_FILE_TIME_WHEEL",
}


def test_every_property_of_5_5_0_has_a_name_here_and_no_other() -> None:
    theirs = {value for name, value in VECTORS["constants"].items() if name not in NOT_PROPERTIES}
    assert theirs == OURS


def test_reserved_names_are_those_of_5_5_0() -> None:
    assert sorted(property_names.RESERVED) == VECTORS["reserved"]


def test_names_reserved_by_4_9_7_are_reserved() -> None:
    assert set(load("properties", "4.9.7")["reserved"]) <= property_names.RESERVED
