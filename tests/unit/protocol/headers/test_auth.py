"""Proves that the headers of users and rules are the peer's."""

from roketto.protocol.headers import auth
from roketto.protocol.headers.base import Header, decode_header
from unit.protocol.headers.peer import check_ext, check_fields, check_fields_of_4, check_fresh

FAMILY = auth


def test_fields_are_those_of_the_peer(header_class: type[Header]) -> None:
    check_fields(header_class)
    check_fields_of_4(header_class)


def test_ext_fields_travel_as_the_peer_writes_them(header_class: type[Header]) -> None:
    check_ext(header_class)
    check_fresh(header_class)


def test_addresses_for_everyone_need_no_file() -> None:
    request = decode_header(
        auth.UpdateGlobalWhiteAddrsConfigRequest, {"globalWhiteAddrs": "10.0.0.*,10.1.0.1"}
    )
    assert request.acl_file_full_path is None


def test_a_secret_key_is_not_shown() -> None:
    request = auth.CreateAccessConfigRequest(access_key="ak", secret_key="hush")
    assert "hush" not in repr(request)
    assert "ak" in repr(request)
