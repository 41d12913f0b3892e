"""Settings have Java's defaults, refuse what cannot work, and never show a secret."""

import pytest

from roketto.client.settings import ClientSettings, Credentials


def test_defaults_are_those_of_java() -> None:
    settings = ClientSettings()
    assert settings.instance_name == "DEFAULT"
    assert (settings.request_timeout_ms, settings.connect_timeout_ms) == (3_000, 3_000)
    assert (settings.route_interval_s, settings.heartbeat_interval_s) == (30.0, 30.0)
    assert (settings.offsets_interval_s, settings.calls_in_flight_max) == (5.0, 65_535)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("request_timeout_ms", 0, "request_timeout_ms is 0; it takes at least 1"),
        ("calls_in_flight_max", -1, "calls_in_flight_max is -1; it takes at least 1"),
        ("route_interval_s", 0.0, "route_interval_s is 0.0; it takes more than 0 seconds"),
        ("heartbeat_interval_s", float("nan"), "heartbeat_interval_s is nan; it takes more"),
    ],
)
def test_what_would_never_wait_or_never_work_is_refused(name: str, value: float, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ClientSettings(**{name: value})  # type: ignore[arg-type] # the names are a parameter


def test_secrets_are_in_no_text_of_settings() -> None:
    credentials = Credentials("ak", "very-secret", "a-token")
    text = repr(ClientSettings(credentials=credentials))
    assert "ak" in text
    assert "very-secret" not in text
    assert "a-token" not in text
