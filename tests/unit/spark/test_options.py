"""Connections: where addresses and keys come from, and that no secret is ever shown."""

import pickle
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest

from roketto.spark.options import CONNECTION_OPTIONS, ConnectionOptions, OptionError, OptionValues


def connection(
    given: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> ConnectionOptions:
    return ConnectionOptions.of(OptionValues(given, CONNECTION_OPTIONS, "test"), environment or {})


def test_the_alias_of_the_name_server_is_the_same_option() -> None:
    assert connection({"namesrvAddr": "h:1;g:2"}) == connection({"nameServer": "h:1,g:2"})
    with pytest.raises(OptionError, match="give one of them"):
        connection({"namesrvAddr": "h:1", "nameServer": "h:2"})


def test_the_environment_of_the_driver_names_what_options_do_not() -> None:
    environment = {
        "NAMESRV_ADDR": "h:9876", "ROCKETMQ_ACCESS_KEY": "ak", "ROCKETMQ_SECRET_KEY": "sk"
    }  # fmt: skip
    found = connection({}, environment)
    credentials = found.settings().credentials
    assert found.name_servers == "h:9876"
    assert credentials is not None
    assert (credentials.access_key, credentials.secret_key) == ("ak", "sk")


def test_without_a_name_server_none_is_guessed() -> None:
    with pytest.raises(OptionError, match="give the option nameServer"):
        connection({})
    with pytest.raises(OptionError, match="'localhost' is no host:port"):
        connection({"nameServer": "localhost"})


def test_half_a_pair_of_keys_is_refused_by_name() -> None:
    with pytest.raises(OptionError, match="secretKey is given and accessKey is not"):
        connection({"nameServer": "h:1", "secretKey": "hidden"})


def test_secrets_travel_with_the_options_and_are_never_shown() -> None:
    found = connection({"nameServer": "h:1", "accessKey": "ak", "secretKey": "hidden",
                        "securityToken": "token!", "tls.client.keyPassword": "word!"})  # fmt: skip
    assert pickle.loads(pickle.dumps(found)) == found
    for secret in ("hidden", "token!", "word!"):
        assert secret not in repr(found)


def test_tls_is_off_unless_asked_for_and_names_a_file_that_is_missing(tmp_path: Path) -> None:
    assert connection({"nameServer": "h:1"}).settings().tls is None
    trusting = connection({"nameServer": "h:1", "tls.enable": "true",
                           "tls.client.authServer": "false"})  # fmt: skip
    context = trusting.settings().tls
    assert context is not None
    assert context.verify_mode is ssl.CERT_NONE
    missing = str(tmp_path / "ca.pem")
    broken = connection({"nameServer": "h:1", "tls.enable": "true",
                         "tls.client.trustCertPath": missing})  # fmt: skip
    with pytest.raises(OptionError, match=r"ca.pem.*on every executor"):
        broken.settings()
