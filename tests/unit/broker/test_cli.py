"""``mqbroker`` takes the options of Java's and prints what Java's prints."""

from pathlib import Path

import pytest

from roketto.broker.cli import banner, main
from roketto.broker.config import BrokerConfig


def test_banner_is_that_of_java() -> None:
    config = BrokerConfig(broker_name="broker-a", broker_ip1="10.0.0.1", namesrv_addr="h:9876")
    assert banner(config, 10_911) == (
        "The broker[broker-a, 10.0.0.1:10911] boot success. serializeType=JSON and name server is"
        " h:9876"
    )


def test_banner_without_a_name_server_ends_earlier() -> None:
    config = BrokerConfig(broker_name="b", broker_ip1="10.0.0.1", namesrv_addr="")
    assert banner(config, 1) == "The broker[b, 10.0.0.1:1] boot success. serializeType=JSON"


def test_command_line_wins_over_the_file_and_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "env:1")
    path = tmp_path / "broker.conf"
    path.write_text("listenPort=1\nnamesrvAddr=file:1\n")
    assert main(["-c", str(path), "-n", "said:1", "--port", "2", "-p"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"listenPort=2", "namesrvAddr=said:1", f"brokerConfigPath={path}"} <= set(lines)


def test_important_items_are_fewer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-p"]) == 0
    everything = capsys.readouterr().out.splitlines()
    assert main(["-m"]) == 0
    important = capsys.readouterr().out.splitlines()
    assert set(important) < set(everything)
    assert len(everything) > 400
    assert "brokerRole=ASYNC_MASTER" in important
    assert len(important) < 50


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-n", "nowhere"], "namesrvAddr is 'nowhere'; write host:port"),
        (["--port", "70000"], "listenPort is '70000'; write an integer of 0..65535"),
        (["-c", "/none/broker.conf"], "No such file or directory: '/none/broker.conf'"),
    ],
)
def test_bad_configuration_is_one_line_and_status_1(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("mqbroker: ")
    assert said in line


def test_bad_environment_is_refused_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "nonsense")
    assert main(["-p"]) == 1
    assert "namesrvAddr is 'nonsense'" in capsys.readouterr().err
