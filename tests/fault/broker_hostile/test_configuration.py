"""S10: requests change only options that say so, within their ranges, and write nowhere else."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from fault.broker.wire import ask, connected
from fault.broker_hostile.target import Target, target
from fault.broker_hostile.watched import trust_operators
from roketto.broker.cli import main as mqbroker
from roketto.broker.config import FIELDS
from roketto.broker.java_keys import KEYS_WITHOUT_EFFECT, OTHER_SPELLINGS
from roketto.options import parse_value
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.limits import CONFIG_UPDATE_BYTES_MAX
from roketto.protocol.properties_text import format_properties, parse_properties
from roketto.remoting.connection import Connection
from unit.hostile import HOSTILE_VALUES

GOOD: Final = ("0", "1", "7", "50", "10000", "true", "false", "04;16")
"""What some options take and others do not."""

KEYS: Final = (*FIELDS, *KEYS_WITHOUT_EFFECT, *OTHER_SPELLINGS)


def update(text: str | bytes) -> Command:
    body = text.encode() if isinstance(text, str) else text
    return Command(RequestCode.UPDATE_BROKER_CONFIG, body=body)


async def shown(connection: Connection) -> dict[str, str]:
    answer = await ask(connection, Command(RequestCode.GET_BROKER_CONFIG))
    return parse_properties(bytes(answer.body).decode())


async def update_all(
    connection: Connection, pairs: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Send each pair in a request of its own, in this order; those that were accepted."""
    accepted: list[tuple[str, str]] = []
    for begin in range(0, len(pairs), 100):
        part = pairs[begin : begin + 100]
        requests = (update(format_properties({key: value})) for key, value in part)
        answers = await asyncio.gather(*(ask(connection, request) for request in requests))
        for pair, answer in zip(part, answers, strict=True):
            assert answer.code in (
                ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR,
            ), (pair, answer.code)  # fmt: skip
            if answer.code == ResponseCode.SUCCESS:
                accepted.append(pair)
    return accepted


async def test_only_what_may_change_changes(tmp_path: Path) -> None:
    """Every key of Java's with paths, shell text, addresses and numbers of all sizes."""
    owned = tmp_path / "owned"
    hostile = (*HOSTILE_VALUES, str(owned), f"$(touch {owned})", f"`touch {owned}`", f"x; >{owned}")
    pairs = [(key, value) for key in KEYS for value in (*hostile, *GOOD)]
    with target(tmp_path) as broker:
        async with connected(broker.address) as connection:
            before = await shown(connection)
            given = parse_properties(broker.config_file.read_text())
            accepted = await update_all(connection, pairs)
            changes: dict[str, str] = {}
            for key, value in accepted:
                found = FIELDS[key]
                assert found.option.changeable, key
                parsed = parse_value(key, value, found)  # ConfigError: out of its range
                changes[key] = str(parsed).lower() if found.kind is bool else str(parsed)
            assert set(changes) == {key for key, it in FIELDS.items() if it.option.changeable}
            assert await shown(connection) == before | changes
        kept = parse_properties(broker.config_file.read_text())
        assert kept == given | dict(accepted)
    assert not owned.exists()
    assert mqbroker(["-p", "-c", str(broker.config_file)]) == 0, "a restart would fail"


async def test_texts_that_are_no_properties_change_nothing(tmp_path: Path) -> None:
    """Too long, of too many keys, with lines smuggled in, or no text at all: all or nothing."""
    good = "fileReservedTime=1\n"
    many = "".join(f"key{number}=1\n" for number in range(4_000))
    with target(tmp_path) as broker:
        async with connected(broker.address) as connection:
            before = await shown(connection)
            for text in (
                good + "#" * CONFIG_UPDATE_BYTES_MAX,
                good + many,
                good + "brokerConfigPath=/tmp/owned\n",
                good + "broker\\\nConfigPath=/tmp/owned\n",
                good + "broker\\u0043onfigPath=/tmp/owned\n",
                good + "\\u00zz=1\n",
                "deleteWhen=04\\nbrokerConfigPath=/tmp/owned\n",
                "deleteWhen=04\\u000astorePathRootDir=/tmp/owned\n",
                b"fileReservedTime=1\n\xff\xfe\x00=\x00",
                good + "=\n",
                good + "brokerPermission\n",
            ):
                answer = await ask(connection, update(text))
                assert answer.code != ResponseCode.SUCCESS, text[:80]
            assert await shown(connection) == before


async def attack_by_path(broker: Target, path: Path) -> None:
    """What CVE-2023-37582 did: say where the configuration is kept, then what is in it."""
    async with connected(broker.address) as connection:
        await ask(connection, update(f"brokerConfigPath={path}\n"))
        await ask(connection, update("fileReservedTime=7\n"))


async def test_a_broker_that_lets_all_options_change_is_found_out(tmp_path: Path) -> None:
    """The watch works: with the list left out, a file is written where the request says."""
    with target(tmp_path, bug=trust_operators) as broker:
        await attack_by_path(broker, tmp_path / "owned" / "cron")
        assert (tmp_path / "owned" / "cron").exists()
        with pytest.raises(AssertionError, match="owned"):
            broker.check_untouched()
