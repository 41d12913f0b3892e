"""Users and rules have Java's bytes, and secrets stay out of representations."""

import msgspec
from hypothesis import given

from roketto.protocol.bodies import auth
from roketto.protocol.bodies.auth import PlainAccessConfig, UserInfo
from roketto.protocol.bodies.base import decode_body, encode_body
from unit.protocol.bodies.families import bodies, check_golden, check_round_trip


def test_bodies_keep_the_bytes_of_java() -> None:
    assert check_golden(auth) == 4


@given(bodies(auth))
def test_any_value_survives_both_forms(value: msgspec.Struct) -> None:
    check_round_trip(value)


def test_secrets_are_not_shown() -> None:
    assert "hush" not in repr(UserInfo("hush", "enable", "Super", "u"))
    assert "hush" not in repr(PlainAccessConfig(access_key="u", secret_key="hush"))


def test_lists_of_users_are_bodies_too() -> None:
    users = [UserInfo(username="a"), UserInfo(username="b")]
    assert encode_body(users) == b'[{"username":"a"},{"username":"b"}]'
    assert decode_body(list[UserInfo], encode_body(users)) == users
