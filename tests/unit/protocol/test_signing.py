"""Proves that requests are signed and verified as RocketMQ 4.9.7 and 5.5.0 do, leaking nothing."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.errors import SignatureError
from roketto.protocol.signing import (
    ACCESS_KEY,
    SECURITY_TOKEN,
    SIGNATURE,
    UNIQUE_KEY_QUERY,
    Credentials,
    sign,
    signature,
    signed_text,
    verify,
)

DIRECTORY = Path(__file__).parents[2] / "golden/signing"
NEW_VERSION = 515
FIELDS = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=8)


def golden(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((DIRECTORY / name).read_text("utf-8"))
    return rows


def body_of(question: dict[str, Any]) -> bytes | None:
    body = question.get("body")
    return None if body is None else base64.b64decode(body)


@pytest.mark.parametrize("release", ["5.5.0", "4.9.7"])
def test_requests_are_signed_as_the_java_client_signs_them(release: str) -> None:
    """Every golden request ends with the same ext fields, signature included."""
    questions, answers = golden("questions.json"), golden(f"signed_{release}.json")
    for question, java in zip(questions, answers, strict=True):
        ext = dict(question["ext"])
        keys = question["secretKey"], question["accessKey"]
        sign(*keys, ext, body_of(question), question.get("securityToken"))
        assert ext == java


def test_signatures_are_expected_as_the_java_broker_expects_them() -> None:
    """What the broker computes for each client version verifies, and what it does not fails."""
    questions, answers = golden("questions.json"), golden("expected_5.5.0.json")
    distinct = 0
    for question, by_version in zip(questions, answers, strict=True):
        distinct += len(set(by_version.values())) > 1
        for version in by_version:
            for java in set(by_version.values()):
                ext = {**question["ext"], ACCESS_KEY: question["accessKey"], SIGNATURE: java}
                if java == by_version[version]:
                    verify(question["secretKey"], ext, body_of(question), int(version))
                else:
                    with pytest.raises(SignatureError):
                        verify(question["secretKey"], ext, body_of(question), int(version))
    assert distinct == 1, "one golden request depends on the version"


def test_the_worked_example_of_the_reference() -> None:
    """A route request for topic T, checked by hand."""
    ext = {"topic": "T"}
    Credentials("ak", "sk").sign(ext, None)
    assert signed_text(ext) == "akT"
    assert ext[SIGNATURE] == "vX6jW2Q9g11lvMjNC+gReuZ8fTQ="


def test_keys_are_ordered_by_utf16_units() -> None:
    """A key beyond U+FFFF stands before the last ones below it, unlike in Python."""
    ext = {"\uff5e": "3", "\U0001f600": "2", "a": "1", "\ud800": "?"}
    assert sorted(ext, reverse=True)[0] == "\U0001f600"
    assert signed_text(ext) == "1?23"
    assert signed_text({"b": "3", "B": "1", "_": "2"}) == "123"


def test_half_a_surrogate_pair_is_signed_as_a_question_mark() -> None:
    """Java's encoder replaces it; raising would be an undocumented error."""
    assert signature("sk\ud800", "a\ud800", None) == signature("sk?", "a?", None)


def test_the_security_token_is_signed_and_replaces_an_older_one() -> None:
    """A retry with a fresh token signs again over the fresh fields."""
    ext = {"topic": "T"}
    Credentials("ak", "sk", "old").sign(ext, b"x")
    first = ext[SIGNATURE]
    Credentials("ak", "sk", "new").sign(ext, b"x")
    assert ext[SECURITY_TOKEN] == "new"
    assert ext[SIGNATURE] != first
    verify("sk", ext, b"x", NEW_VERSION)


@given(FIELDS, st.none() | st.binary(max_size=2_000))
def test_what_is_signed_verifies_whatever_holds_the_body(
    fields: dict[str, str], body: bytes | None
) -> None:
    """Bytes, bytearrays and views of the same body are one; no body and an empty one too."""
    ext = dict(fields)
    sign("sk", "ak", ext, body)
    verify("sk", ext, body, NEW_VERSION)
    verify("sk", ext, bytearray(body or b""), NEW_VERSION)
    verify("sk", ext, memoryview(body or b""), NEW_VERSION)


@given(FIELDS, st.binary(max_size=20), st.text(max_size=30))
def test_any_change_is_refused_without_telling_the_secret(
    fields: dict[str, str], body: bytes, forged: str
) -> None:
    """A changed value, field, body, secret or signature fails; the reason names neither key."""
    ext = dict(fields)
    sign("a-secret", "ak", ext, body)
    changed = [
        ({**ext, "another field": "x"}, body, "a-secret"),
        ({**ext, ACCESS_KEY: "ax"}, body, "a-secret"),
        (ext, body + b"\0", "a-secret"),
        (ext, body, "b-secret"),
        ({**ext, SIGNATURE: forged}, body, "a-secret"),
    ]
    for request, content, secret in changed:
        with pytest.raises(SignatureError) as caught:
            verify(secret, request, content, NEW_VERSION)
        assert secret not in caught.value.reason
        assert ext[SIGNATURE] not in caught.value.reason
        assert signature(secret, signed_text(request), content) not in caught.value.reason


def test_unsigned_requests_are_told_what_they_lack() -> None:
    """No AccessKey, an empty one, or no Signature: each has its reason and the code 16."""
    for ext, reason in (
        ({}, "no AccessKey"),
        ({ACCESS_KEY: "", SIGNATURE: "x"}, "no AccessKey"),
        ({ACCESS_KEY: "ak"}, "request of 'ak' has no Signature"),
        ({ACCESS_KEY: "k" * 9_999, SIGNATURE: "x"}, f"signature of '{'k' * 64}' does not match"),
    ):
        with pytest.raises(SignatureError, match=reason) as caught:
            verify("sk", ext, None, NEW_VERSION)
        assert caught.value.code == 16
        assert len(caught.value.reason) < 300


def test_a_user_without_a_secret_is_never_verified() -> None:
    """The right HMAC under the empty key, which anyone can compute, is refused."""
    ext = {ACCESS_KEY: "ak"}
    ext[SIGNATURE] = signature("", signed_text(ext), None)
    with pytest.raises(SignatureError, match="user 'ak' has no secret key"):
        verify("", ext, None, NEW_VERSION)


def test_old_clients_may_add_the_unique_key_flag_after_signing() -> None:
    """Up to 4.9.3 the flag is not part of the signature, from 4.9.4 on it is."""
    ext = {"topic": "T"}
    sign("sk", "ak", ext, None)
    ext[UNIQUE_KEY_QUERY] = "true"
    verify("sk", ext, None, 399)
    with pytest.raises(SignatureError):
        verify("sk", ext, None, 400)


def test_credentials_hide_their_secrets_and_are_never_empty() -> None:
    """Neither repr nor str nor a message of ours shows the secret key or the token."""
    credentials = Credentials("ak", "a-secret", "a-token")
    assert repr(credentials) == str(credentials) == "Credentials(access_key='ak')"
    with pytest.raises(ValueError, match="the secret key is empty"):
        Credentials("ak", "")
    with pytest.raises(ValueError, match="the access key is empty") as caught:
        Credentials("", "a-secret")
    assert "a-secret" not in str(caught.value)


def test_the_signature_is_an_hmac_sha1_by_its_definition() -> None:
    """Computed here step by step from RFC 2104, with a short key and one above the block size."""
    for secret in ("sk", "k" * 65):
        key = secret.encode() if len(secret) <= 64 else hashlib.sha1(secret.encode()).digest()
        padded = key.ljust(64, b"\0")
        inner = hashlib.sha1(bytes(byte ^ 0x36 for byte in padded) + b"text" + b"body").digest()
        outer = hashlib.sha1(bytes(byte ^ 0x5C for byte in padded) + inner).digest()
        assert signature(secret, "text", b"body") == base64.b64encode(outer).decode()
