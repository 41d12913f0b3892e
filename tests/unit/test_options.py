"""Options are typed and bounded, wrong ones are refused in one line, and few change at run time."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from roketto.options import (
    CHANGEABLE,
    FIXED,
    OFF,
    TEXT_CHARS_MAX,
    UNUSED,
    Config,
    ConfigError,
    Option,
    camel_case,
    fields_of,
)
from roketto.protocol.errors import RequestError


def check_even(text: str) -> None:
    if int(text) % 2:
        raise ValueError("write an even number")


@dataclass(slots=True)
class BaseConfig(Config):
    config_black_list: Annotated[str, FIXED] = "configBlackList"
    listen_port: Annotated[int, Option(high=65_535)] = 7


@dataclass(slots=True)
class EchoConfig(BaseConfig):
    program = "echo"
    other_spellings = {"loudnes": "loudness", "olderKey": "threadNums"}  # noqa: RUF012
    keys_without_effect = {"threadNums": "8", "cpuNums": "", "adminPassword": None}  # noqa: RUF012

    loudness: Annotated[int, Option(low=-3, high=11, changeable=True, important=True)] = 5
    is_polite: Annotated[bool, CHANGEABLE] = True
    mood: Annotated[str, Option(choices=("calm", "glad"), reason="others are not kind")] = "calm"
    pairs: Annotated[str, Option(check=check_even, changeable=True)] = "2"
    log_path: Annotated[Path, FIXED] = Path("log")
    raft_enable: Annotated[bool, OFF] = False
    beats: Annotated[int, UNUSED] = 1
    pass_phrase: Annotated[str, Option(java=False, secret=True)] = ""
    speed_max: Annotated[int, Option(java=False, key="speed.MAX")] = 3
    listen_port: Annotated[int, Option(high=65_535)] = 8


# --- what there is --------------------------------------------------------------------------------


def test_own_fields_come_before_inherited_ones() -> None:
    assert list(fields_of(EchoConfig)) == [
        "loudness", "isPolite", "mood", "pairs", "logPath", "raftEnable", "beats", "passPhrase",
        "speed.MAX", "configBlackList", "listenPort",
    ]  # fmt: skip


def test_names_are_spelled_in_camel_case() -> None:
    assert camel_case("server_socket_snd_buf_size") == "serverSocketSndBufSize"


def test_items_are_text_as_java_writes_it() -> None:
    items = dict(EchoConfig().items())
    assert items["isPolite"] == "true"
    assert items["logPath"] == "log"
    assert items["listenPort"] == "8"


def test_keys_without_effect_are_shown_with_the_default_or_what_was_given() -> None:
    config = EchoConfig()
    assert dict(config.items())["threadNums"] == "8"
    config.load({"olderKey": "9", "cpuNums": "2", "adminPassword": "hunter2"})
    items = dict(config.items())
    assert (items["threadNums"], items["cpuNums"]) == ("9", "2")


def test_secrets_are_never_shown() -> None:
    config = EchoConfig()
    config.load({"passPhrase": "hunter2", "adminPassword": "hunter2"})
    assert "hunter2" not in f"{dict(config.items())} {dict(config.items(java_only=True))}"
    assert "given" not in repr(config)


def test_java_tools_see_only_keys_of_java() -> None:
    assert "speed.MAX" in dict(EchoConfig().items())
    assert "speed.MAX" not in dict(EchoConfig().items(java_only=True))


def test_important_items_are_those_declared_so() -> None:
    assert dict(EchoConfig().items(important_only=True)) == {"loudness": "5"}


# --- property files -------------------------------------------------------------------------------


def test_values_are_typed_and_stripped() -> None:
    config = EchoConfig()
    config.load({"loudness": " -3 ", "isPolite": "FALSE", "logPath": "/l ", "speed.MAX": "4"})
    assert (config.loudness, config.is_polite) == (-3, False)
    assert (config.log_path, config.speed_max) == (Path("/l"), 4)


def test_older_spelling_means_the_key() -> None:
    config = EchoConfig()
    assert config.load({"loudnes": "1"}) == []
    assert config.loudness == 1
    assert config.given == {"loudness": "1"}


def test_keys_that_do_nothing_are_named_as_they_were_written() -> None:
    properties = {"beats": "2", "loudness": "1", "olderKey": "x", "cpuNums": "-"}
    assert EchoConfig().load(properties) == ["beats", "olderKey", "cpuNums"]


def test_command_line_leaves_the_file_as_it_is() -> None:
    config = EchoConfig()
    config.load({"listenPort": "1"})
    config.override({"listenPort": "2", "threadNums": "2"})
    assert config.listen_port == 2
    assert config.given == {"listenPort": "1"}


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("loudness", "12", "loudness is '12'; write an integer of -3..11"),
        ("loudness", "loud", "loudness is 'loud'; write an integer of -3..11"),
        ("loudness", "", "loudness is ''; write an integer of -3..11"),
        ("isPolite", "yes", "isPolite is 'yes'; it can only be true or false"),
        ("raftEnable", "true", "raftEnable is 'true'; it can only be false"),
        ("mood", "sad", "mood is 'sad'; it can only be calm or glad: others are not kind"),
        ("pairs", "3", "pairs is '3'; write an even number"),
        ("logPath", " ", "logPath is empty; write the path of a file"),
        ("logPath", "a\0b", r"logPath is 'a\x00b'; write 4096 printable characters at most"),
        ("mode", "x", "unknown key 'mode'; did you mean mood?"),
        ("threadNum", "x", "unknown key 'threadNum'; did you mean threadNums?"),
        ("zzzzzzz", "x", "unknown key 'zzzzzzz'; echo -p lists all keys"),
    ],
)
def test_bad_key_or_value_is_one_line_that_says_what_would_do(
    key: str, text: str, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        EchoConfig().load({key: text})
    assert str(caught.value) == said


def test_long_texts_are_refused_and_not_repeated() -> None:
    for key, text in (("logPath", "x" * (TEXT_CHARS_MAX + 1)), ("k" * 5_000, "x")):
        with pytest.raises(ConfigError) as caught:
            EchoConfig().load({key: text})
        assert len(str(caught.value)) < 200


def test_file_with_an_unknown_key_changes_nothing() -> None:
    config = EchoConfig()
    with pytest.raises(ConfigError):
        config.load({"loudness": "1", "nonsense": "1"})
    assert config == EchoConfig()


# --- run time -------------------------------------------------------------------------------------


def test_changeable_fields_change() -> None:
    config = EchoConfig()
    config.update(config.check_update({"loudnes": "9", "isPolite": "false"}))
    assert (config.loudness, config.is_polite) == (9, False)


@pytest.mark.parametrize("key", ["listenPort", "logPath", "beats", "olderKey", "adminPassword"])
def test_other_keys_do_not_change_at_run_time(key: str) -> None:
    with pytest.raises(RequestError, match="may not change at run time") as caught:
        EchoConfig().check_update({key: "1"})
    assert caught.value.code == 16


def test_bad_value_is_refused_at_run_time_too() -> None:
    with pytest.raises(RequestError, match="write an even number") as caught:
        EchoConfig().check_update({"pairs": "3"})
    assert caught.value.code == 1


def test_operator_may_forbid_more_under_any_spelling() -> None:
    config = EchoConfig()
    config.load({"configBlackList": "configBlackList;loudness"})
    for key in ("loudness", "loudnes"):
        with pytest.raises(RequestError) as caught:
            config.check_update({key: "1"})
        assert caught.value.code == 16
