"""TLS contexts for both sides, from the files that RocketMQ's TLS options name."""

import ssl
from dataclasses import dataclass
from pathlib import Path


class TlsError(Exception):
    """A certificate, key or trust file that cannot be used; the text says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files of one side. ``key_password`` opens an encrypted key and is never shown."""

    certificate: Path | None = None
    key: Path | None = None
    key_password: str | None = None
    trusted: Path | None = None

    def __repr__(self) -> str:
        return f"TlsFiles(certificate={self.certificate}, key={self.key}, trusted={self.trusted})"


def server_context(files: TlsFiles, *, client_certificate: str = "none") -> ssl.SSLContext:
    """Return the server's context; ``client_certificate`` is none, optional or require."""
    if files.certificate is None or files.key is None:
        raise TlsError("TLS needs a certificate and its key: set tls.server.certPath and .keyPath")
    demands = {
        "none": ssl.CERT_NONE,
        "optional": ssl.CERT_OPTIONAL,
        "require": ssl.CERT_REQUIRED,
    }
    demand = demands.get(client_certificate)
    if demand is None:
        raise TlsError(
            f"tls.server.need.client.auth is {client_certificate!r}; "
            f"write one of {', '.join(demands)}"
        )
    if demand is not ssl.CERT_NONE and files.trusted is None:
        raise TlsError(
            f"tls.server.need.client.auth is {client_certificate}, which needs "
            "tls.server.trustCertPath to check clients against"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_chain(context, files)
    _load_trusted(context, files)
    context.verify_mode = demand
    return context


def client_context(files: TlsFiles | None = None, *, verify: bool = True) -> ssl.SSLContext:
    """Return a client's context; brokers advertise addresses, so host names are not compared.

    ``verify=False`` is Java's tls.test.mode: the traffic is hidden, the server is not known.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    if not verify:
        context.verify_mode = ssl.CERT_NONE
    elif files is None or files.trusted is None:
        context.load_default_certs()
    if files is not None:
        _load_trusted(context, files)
        if files.certificate is not None:
            _load_chain(context, files)
    return context


def _load_chain(context: ssl.SSLContext, files: TlsFiles) -> None:
    assert files.certificate is not None
    # Without a password OpenSSL would ask for one on the terminal; an empty one fails instead.
    password = files.key_password or ""
    try:
        context.load_cert_chain(files.certificate, files.key, password)
    except (OSError, ValueError) as error:
        raise TlsError(
            f"cannot use certificate {files.certificate} with key {files.key}: {error}"
        ) from error


def _load_trusted(context: ssl.SSLContext, files: TlsFiles) -> None:
    if files.trusted is None:
        return
    try:
        context.load_verify_locations(files.trusted)
    except OSError as error:
        raise TlsError(f"cannot read trusted certificates {files.trusted}: {error}") from error
