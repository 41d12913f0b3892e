"""Proves that namespaces are put on and taken off as in Java."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden.record.vectors import load
from roketto.protocol.names import retry_topic
from roketto.protocol.namespaces import (
    has_namespace,
    namespace_of,
    unwrap_any_namespace,
    unwrap_namespace,
    wrap_namespace,
)

VECTORS = load("names")["namespaces"]
plain_names = st.text(st.sampled_from("abcXYZ019_-|"), min_size=1)


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: f"{row['namespace']}:{row['resource']}")
def test_wrapping_and_unwrapping_give_what_java_gives(row: dict[str, Any]) -> None:
    namespace, name = row["namespace"], row["resource"]
    assert wrap_namespace(namespace, name) == row["wrap"]
    assert unwrap_namespace(namespace, name) == row["unwrap"]
    assert unwrap_any_namespace(name) == row["unwrapAny"]
    assert namespace_of(name) == row["of"]
    if name:
        assert retry_topic(wrap_namespace(namespace, name)) == row["wrapRetry"]


@given(plain_names, plain_names, st.sampled_from(["", "%RETRY%", "%DLQ%"]))
def test_a_wrapped_name_unwraps_to_itself(namespace: str, name: str, prefix: str) -> None:
    wrapped = wrap_namespace(namespace, prefix + name)
    assert wrapped == f"{prefix}{namespace}%{name}"
    assert has_namespace(namespace, wrapped)
    assert namespace_of(wrapped) == namespace
    assert unwrap_namespace(namespace, wrapped) == prefix + name
    assert wrap_namespace(namespace, wrapped) == wrapped


def test_names_of_the_system_belong_to_no_namespace() -> None:
    assert not has_namespace("rmq_sys_x", "rmq_sys_x%topic")
    assert wrap_namespace("ns", "TBW102") == "TBW102"
    assert not has_namespace("", "%topic")


@given(st.text(), st.text())
def test_any_strings_are_wrapped_and_unwrapped_without_an_error(namespace: str, name: str) -> None:
    bare = name.removeprefix("%RETRY%").removeprefix("%DLQ%")
    assert wrap_namespace(namespace, name).endswith(bare)
    assert unwrap_namespace(namespace, name) in (name, unwrap_any_namespace(name))
