"""How to reach a cluster: name servers, credentials, TLS and times, for the source and the sink.

Spark looks at options in a process that it starts for each batch of a stream, so what a client
needs is imported where one is made.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from roketto.client.addresses import configured_addresses, split_addresses
from roketto.spark.option_values import OptionError, OptionValues

if TYPE_CHECKING:
    from roketto.client.settings import ClientSettings

__all__ = ["CONNECTION_OPTIONS", "SPARK_OPTIONS", "ConnectionOptions", "OptionError",
           "OptionValues"]  # fmt: skip

CONNECTION_OPTIONS: Final = (
    "nameServer", "namesrvAddr", "accessKey", "secretKey", "securityToken", "namespace",
    "tls.enable", "tls.client.trustCertPath", "tls.client.certPath", "tls.client.keyPath",
    "tls.client.keyPassword", "tls.client.authServer", "requestTimeoutMs", "connectTimeoutMs",
)  # fmt: skip
"""What both the source and the sink take."""
SPARK_OPTIONS: Final = (
    "checkpointLocation", "queryName", "outputMode", "path", "__streaming_source_identifier__",
)  # fmt: skip
"""What Spark itself may put beside a user's options."""

ACCESS_KEY_VARIABLE: Final = "ROCKETMQ_ACCESS_KEY"
SECRET_KEY_VARIABLE: Final = "ROCKETMQ_SECRET_KEY"  # noqa: S105 (the name of a variable)

_TIMEOUT_MS_MAX: Final = 600_000
_REQUEST_TIMEOUT_MS: Final = 5_000
_CONNECT_TIMEOUT_MS: Final = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """A cluster as drivers and executors reach it: plain values that travel between them.

    connection = ConnectionOptions.of(OptionValues(options, CONNECTION_OPTIONS, "rocketmq sink"))
    Client(connection.settings())

    Files of certificates are read where they are used: they have to be on every executor.
    """

    name_servers: str
    """Addresses with ``;`` between them."""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    security_token: str = field(default="", repr=False)
    namespace: str = ""
    has_tls: bool = False
    tls_trusted: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    tls_key_password: str = field(default="", repr=False)
    tls_verifies: bool = True
    request_timeout_ms: int = _REQUEST_TIMEOUT_MS
    connect_timeout_ms: int = _CONNECT_TIMEOUT_MS

    @classmethod
    def of(
        cls, values: OptionValues, environment: Mapping[str, str] | None = None
    ) -> "ConnectionOptions":
        """What options say; the environment is looked up here, on the driver."""
        environment = os.environ if environment is None else environment
        access_key = values.text("accessKey") or environment.get(ACCESS_KEY_VARIABLE, "")
        secret_key = values.secret("secretKey") or environment.get(SECRET_KEY_VARIABLE, "")
        if bool(access_key) != bool(secret_key):
            there, missing = ("accessKey", "secretKey") if access_key else (
                "secretKey", "accessKey"
            )  # fmt: skip
            raise OptionError(
                f"{there} is given and {missing} is not; give both, or ${ACCESS_KEY_VARIABLE} and"
                f" ${SECRET_KEY_VARIABLE} in the driver's environment, or none"
            )
        return cls(
            name_servers=_name_servers(values, environment),
            access_key=access_key,
            secret_key=secret_key,
            security_token=values.secret("securityToken"),
            namespace=values.text("namespace"),
            has_tls=values.flag("tls.enable", False),
            tls_trusted=values.text("tls.client.trustCertPath"),
            tls_certificate=values.text("tls.client.certPath"),
            tls_key=values.text("tls.client.keyPath"),
            tls_key_password=values.secret("tls.client.keyPassword"),
            tls_verifies=values.flag("tls.client.authServer", True),
            request_timeout_ms=values.number(
                "requestTimeoutMs", _REQUEST_TIMEOUT_MS, 1, _TIMEOUT_MS_MAX
            ),
            connect_timeout_ms=values.number(
                "connectTimeoutMs", _CONNECT_TIMEOUT_MS, 1, _TIMEOUT_MS_MAX
            ),
        )

    def settings(self) -> "ClientSettings":
        """What a client is made with; OptionError if a file of TLS cannot be used."""
        from roketto.client.settings import ClientSettings, Credentials
        from roketto.remoting.tls import TlsError, TlsFiles, client_context

        credentials = None
        if self.access_key:
            credentials = Credentials(self.access_key, self.secret_key, self.security_token or None)
        files = TlsFiles(
            certificate=Path(self.tls_certificate) if self.tls_certificate else None,
            key=Path(self.tls_key) if self.tls_key else None,
            key_password=self.tls_key_password or None,
            trusted=Path(self.tls_trusted) if self.tls_trusted else None,
        )
        try:
            tls = client_context(files, verify=self.tls_verifies) if self.has_tls else None
        except TlsError as error:
            raise OptionError(
                f"tls: {error}; files that tls.client.* names have to be on the driver and on"
                " every executor"
            ) from error
        return ClientSettings(
            name_servers=self.name_servers,
            namespace=self.namespace,
            credentials=credentials,
            tls=tls,
            request_timeout_ms=self.request_timeout_ms,
            connect_timeout_ms=self.connect_timeout_ms,
        )


def _name_servers(values: OptionValues, environment: Mapping[str, str]) -> str:
    """Those of the options or of the environment: executors are elsewhere, so none are guessed."""
    given = values.given("nameServer", "namesrvAddr")
    if len(given) > 1 and len({values.text(name) for name in given}) > 1:
        raise OptionError("nameServer and namesrvAddr are the same option; give one of them")
    found = split_addresses(values.text(given[0])) if given else (
        configured_addresses(None, environment)[0]
    )  # fmt: skip
    if not found:
        raise OptionError(
            "no name server is named: give the option nameServer, such as 10.0.0.5:9876 (several"
            " with ; between them), or $NAMESRV_ADDR in the driver's environment"
        )
    for address in found:
        host, colon, port = address.rpartition(":")
        if not (host and colon and port.isascii() and port.isdecimal()):
            raise OptionError(f"name server {address!r} is no host:port, such as 10.0.0.5:9876")
    return ";".join(found)
