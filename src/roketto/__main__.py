"""The command ``roketto``: one subcommand for each program."""

import argparse
import sys
from collections.abc import Callable

from roketto import __version__


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="roketto", description="RocketMQ in Python.")
    parser.add_argument("--version", action="version", version=f"roketto {__version__}")
    parser.add_argument("program", choices=PROGRAMS, help="what to run; --help after it tells more")
    given = sys.argv[1:] if arguments is None else arguments
    # Only the first word is ours: what follows belongs to the program.
    return PROGRAMS[parser.parse_args(given[:1]).program](given[1:])


def _namesrv(arguments: list[str]) -> int:
    from roketto.namesrv.cli import main as namesrv

    return namesrv(arguments)


def _broker(arguments: list[str]) -> int:
    from roketto.broker.cli import main as broker

    return broker(arguments)


def _up(arguments: list[str]) -> int:
    from roketto.up import main as up

    return up(arguments)


def _store(arguments: list[str]) -> int:
    from roketto.storetool.cli import main as store

    return store(arguments)


PROGRAMS: dict[str, Callable[[list[str]], int]] = {
    "up": _up,
    "namesrv": _namesrv,
    "broker": _broker,
    "store": _store,
}
"""Programs are imported when they are run, so that each starts as quickly as it can."""

if __name__ == "__main__":
    sys.exit(main())
