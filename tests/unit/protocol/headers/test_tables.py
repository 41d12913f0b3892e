"""Proves that every request has its header, that none of the peer's is missing, and all travel."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.codes import UNSERVED, RequestCode
from roketto.protocol.errors import HeaderFieldError
from roketto.protocol.headers.base import BoundaryType, Header, decode_header, encode_header
from roketto.protocol.headers.tables import HEADER_OF_REQUEST, HEADER_OF_RESPONSE
from unit.protocol.headers.peer import (
    ADDED_FIELDS,
    JAVA_NAMES,
    KINDS,
    OPTIONAL_HERE,
    WITHOUT_JAVA_CLASS,
    golden,
    java_name,
)

HEADERS = sorted(
    {cls for table in (HEADER_OF_REQUEST, HEADER_OF_RESPONSE) for cls in table.values() if cls},
    key=lambda cls: cls.__name__,
)

ABSENT = {
    # Java's classes without a counterpart here.
    # Answers without a single field: Java makes an object, we make nothing.
    "EndTransactionResponseHeader",
    "GetConsumerListByGroupResponseHeader",
    "UnregisterClientResponseHeader",
    "UpdateConsumerOffsetResponseHeader",
    "ViewMessageResponseHeader",
    # Never sent: producers answer CHECK_TRANSACTION_STATE with END_TRANSACTION.
    "CheckTransactionStateResponseHeader",
    # Of no request code.
    "InitConsumerOffsetRequestHeader",
    "RegisterOrderTopicRequestHeader",
    "StatisticsMessagesRequestHeader",
    # Filter servers are gone.
    "RegisterFilterServerRequestHeader",
    "RegisterFilterServerResponseHeader",
    "RegisterMessageFilterClassRequestHeader",
    # Its only field is a list, which no ext field can hold; the answer to 54 has it in the body.
    "GetBrokerClusterAclConfigResponseHeader",
}

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "text": st.text(st.characters(exclude_categories=[]), max_size=20),
    "i32": st.integers(-(2**31), 2**31 - 1),
    "i64": st.integers(-(2**63), 2**63 - 1),
    "bool": st.booleans(),
    "boundary": st.sampled_from(BoundaryType),
}


@st.composite
def headers(draw: st.DrawFn) -> Header:
    """Any header with any values; None only where it is the default."""
    cls = draw(st.sampled_from(HEADERS))
    values = {}
    for info in msgspec.structs.fields(cls):
        value = VALUES[KINDS[info.type]]
        values[info.name] = draw(st.none() | value if info.default is None else value)
    return cls(**values)


def test_every_request_that_is_served_has_an_entry_for_both_directions() -> None:
    assert set(HEADER_OF_REQUEST) == set(RequestCode) - UNSERVED
    assert set(HEADER_OF_RESPONSE) == set(HEADER_OF_REQUEST)


def test_every_header_class_of_the_peer_has_one_here() -> None:
    theirs = {*golden("peer-5.5.0")["headers"], *golden("peer-4.9.7")["headers"]}
    ours = {java_name(cls) for cls in HEADERS if cls.__name__ not in WITHOUT_JAVA_CLASS}
    assert ours | ABSENT == theirs
    assert not ours & ABSENT


def test_requests_have_the_header_that_the_peer_annotates_with_their_code() -> None:
    annotated = {
        RequestCode(header["code"]): name
        for name, header in golden("peer-5.5.0")["headers"].items()
        if "code" in header and not name.endswith("ResponseHeader")
    }
    ours = {code: java_name(cls) for code, cls in HEADER_OF_REQUEST.items() if cls}
    assert annotated.items() <= ours.items()


def test_requests_and_answers_are_not_confused() -> None:
    for cls in filter(None, HEADER_OF_REQUEST.values()):
        assert cls.__name__.endswith("Request")
    for cls in filter(None, HEADER_OF_RESPONSE.values()):
        assert cls.__name__.endswith("Response")


def test_every_listed_difference_from_the_peer_names_a_header() -> None:
    listed = {*JAVA_NAMES, *WITHOUT_JAVA_CLASS, *ADDED_FIELDS, *(name for name, _ in OPTIONAL_HERE)}
    assert listed <= {cls.__name__ for cls in HEADERS}


@given(headers())
def test_decoding_what_was_encoded_gives_the_same_header(header: Header) -> None:
    assert decode_header(type(header), encode_header(header)) == header


@given(headers(), st.data())
def test_any_text_in_any_field_is_read_or_refused_by_name(
    header: Header, data: st.DataObject
) -> None:
    ext = encode_header(header)
    odd = st.text(max_size=30) | st.sampled_from(["", "1.0", "1e3", "null", "1", "+5", "-", "TRUE"])
    for name in [info.encode_name for info in msgspec.structs.fields(type(header))]:
        if data.draw(st.booleans()):
            ext[name] = data.draw(odd)
        elif data.draw(st.booleans()):
            ext.pop(name, None)
    try:
        read = decode_header(type(header), ext)
    except HeaderFieldError as error:
        reason = error.reason
    else:
        reason = type(header).__name__
        assert decode_header(type(header), encode_header(read)) == read
    assert reason.startswith(type(header).__name__)
    assert len(reason) < 250


@pytest.mark.parametrize("cls", HEADERS, ids=lambda cls: cls.__name__)
def test_fields_of_others_are_ignored(cls: type[Header]) -> None:
    ext = {info.encode_name: "1" for info in msgspec.structs.fields(cls) if info.required}
    assert decode_header(cls, {**ext, "AccessKey": "k", "\ud800": "\udfff"}) == decode_header(
        cls, ext
    )
