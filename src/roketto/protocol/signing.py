"""Request signing: add a signature to a request's ext fields, and verify one.

Access control 1.0 and 2.0 sign alike. What is signed, in this order, without separators:

    the values of all ext fields except Signature, by key in Java's string order, as UTF-8
    the body

and Signature is the HMAC-SHA1 of that under the secret key, in Base64. Code, opaque, flag, remark,
language and version are not covered. Whatever is added to the ext fields after signing breaks the
signature; one old client does so, see UNSIGNED_UNIQUE_KEY_VERSION_MAX.
"""

import hmac
from base64 import b64encode
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field

from roketto.protocol.errors import SignatureError

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105 -- the name of a field, not a secret
SIGNATURE = "Signature"
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"

UNSIGNED_UNIQUE_KEY_VERSION_MAX = 399
"""Clients up to 4.9.3 add _UNIQUE_KEY_QUERY to a query after signing it."""

_SHOWN_CHARACTERS_MAX = 64

Body = bytes | bytearray | memoryview | None


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who signs: safe to log, because only the access key is shown.

    Credentials("ak", "sk").sign(ext, body)
    """

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, value in (("access key", self.access_key), ("secret key", self.secret_key)):
            if not value:
                raise ValueError(f"the {name} is empty; a request cannot be signed without one")

    def sign(self, ext: MutableMapping[str, str], body: Body) -> None:
        """Add AccessKey, SecurityToken (if there is one) and Signature to ``ext``."""
        sign(self.secret_key, self.access_key, ext, body, self.security_token)


def sign(
    secret_key: str,
    access_key: str,
    ext: MutableMapping[str, str],
    body: Body,
    security_token: str | None = None,
) -> None:
    """Add AccessKey, SecurityToken (if there is one) and Signature to ``ext``.

    Everything else must be in ``ext`` already. Signing again, for a retry, replaces the signature.
    """
    ext[ACCESS_KEY] = access_key
    if security_token is not None:
        ext[SECURITY_TOKEN] = security_token
    ext[SIGNATURE] = signature(secret_key, signed_text(ext), body)


def verify(secret_key: str, ext: Mapping[str, str], body: Body, version: int) -> None:
    """Return if ``ext`` carries the right signature; raise SignatureError otherwise.

    ``secret_key`` belongs to the user that ext's AccessKey names; ``version`` is the command's.
    The time taken does not depend on how much of the signature is right.
    """
    access_key = ext.get(ACCESS_KEY)
    if not access_key:
        raise SignatureError("request is not signed: no AccessKey; set the client's credentials")
    shown = repr(access_key[:_SHOWN_CHARACTERS_MAX])
    presented = ext.get(SIGNATURE)
    if presented is None:
        raise SignatureError(f"request of {shown} has no Signature; sign it with its secret key")
    # Anyone can compute the HMAC under an empty key, so such a user must never be let in.
    if not secret_key:
        raise SignatureError(f"user {shown} has no secret key on the server; set one")
    drop_unique_key = version <= UNSIGNED_UNIQUE_KEY_VERSION_MAX
    expected = signature(secret_key, signed_text(ext, drop_unique_key), body)
    if not hmac.compare_digest(expected.encode(), presented.encode("utf-8", "replace")):
        raise SignatureError(
            f"signature of {shown} does not match; check the secret key, and that nothing "
            "changes the request after it is signed"
        )


def signed_text(ext: Mapping[str, str], drop_unique_key: bool = False) -> str:
    """Return the values that are signed, one after the other in the order of their keys."""
    keys = [key for key in ext if key != SIGNATURE]
    if drop_unique_key and UNIQUE_KEY_QUERY in ext:
        keys.remove(UNIQUE_KEY_QUERY)
    if "".join(keys).isascii():
        keys.sort()
    else:
        keys.sort(key=_utf16)
    return "".join([ext[key] for key in keys])


def signature(secret_key: str, text: str, body: Body) -> str:
    """Return the Base64 HMAC-SHA1 of ``text`` and ``body`` under ``secret_key``."""
    # Java writes a question mark for half a surrogate pair, as "replace" does.
    key, content = secret_key.encode("utf-8", "replace"), text.encode("utf-8", "replace")
    if not body:
        return b64encode(hmac.digest(key, content, "sha1")).decode()
    digest = hmac.new(key, content, "sha1")  # a body may have megabytes: fed, not copied
    digest.update(body)
    return b64encode(digest.digest()).decode()


def _utf16(key: str) -> bytes:
    """Order keys as Java does: by UTF-16 unit, which differs from Python's beyond U+FFFF."""
    return key.encode("utf-16-be", "surrogatepass")
