"""An option does what its declaration says: it is read where it has an effect, and only there."""

import ast
from functools import cache
from pathlib import Path

import pytest

from roketto.broker.config import BrokerConfig
from roketto.namesrv.config import NamesrvConfig
from roketto.options import Config, fields_of

PACKAGE = Path(__file__).parents[2] / "src" / "roketto"

PROGRAMS = {
    NamesrvConfig: ("namesrv", "server_options.py", "options.py"),
    BrokerConfig: ("broker", "server_options.py", "options.py"),
}
"""Where the options of a server may be read."""

ONE_MEANING = {
    "store_path_commit_log", "read_only_commit_log_store_paths", "message_store_plug_in",
    "broker_role",
}  # fmt: skip
"""What can be written there means one thing only, so nobody has to ask."""


@cache
def names_read(*parts: str) -> frozenset[str]:
    """Every attribute and every literal name that the sources of a program read."""
    paths = [PACKAGE / part for part in parts]
    sources = [
        file for path in paths for file in ([path] if path.is_file() else path.rglob("*.py"))
    ]
    nodes = [node for source in sources for node in ast.walk(ast.parse(source.read_text()))]
    attributes = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    literals = {
        node.value for node in nodes if isinstance(node, ast.Constant) and type(node.value) is str
    }
    return frozenset(attributes | literals)


CASES = [(config, key) for config in PROGRAMS for key in fields_of(config)]


@pytest.mark.parametrize(("config", "key"), CASES)
def test_an_option_is_read_where_it_has_an_effect(config: type[Config], key: str) -> None:
    """Change ``effective`` in the declaration when this fails, or read the option."""
    name, _, option = fields_of(config)[key]
    if len(option.choices) != 1 and name not in ONE_MEANING:
        is_read = name in names_read(*PROGRAMS[config])
        assert is_read == option.effective, f"{key} is {'' if is_read else 'not '}read"


def test_the_walk_can_tell_what_is_read() -> None:
    assert "listen_port" in names_read("broker")
    assert "server_worker_threads" not in names_read("broker")
