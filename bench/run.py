"""Measure what we promise, against the Java original in the same run, and keep the figures.

./dev bench                       everything, about an hour
./dev bench codec                 one part: codec, namesrv, store, broker, client, spark
./dev bench store --only flush    one section of it; broker, client and spark have sections, too
./dev bench broker --seconds 10   longer rounds
./dev bench broker --itself       the Java broker against itself: how even the rounds are
./dev bench mypyc                 what compiling the store gives; only when it is asked for
./dev bench --quick               short rounds, for a first look
./dev bench store --source        the source as it is, without compiled modules

Figures of whole runs that are not quick are kept in bench/results, or where --keep says.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

from broker import SECTIONS as BROKER_SECTIONS
from broker import measure_broker
from broker_servers import JAVA, ROKETTO, BrokerFailedError
from client import SECTIONS as CLIENT_SECTIONS
from client import measure_client
from client_process import ClientFailedError
from codec import codec_costs
from interop.peer import PeerFailedError, PeerUnavailableError
from load import LoadError
from mypyc_gain import CompilerMissingError, measure_mypyc
from namesrv import compare
from spark import SECTIONS as SPARK_SECTIONS
from spark import measure_spark
from spark_process import SparkJobError
from spark_sides import RowsMissingError
from store import SECTIONS as STORE_SECTIONS
from store import measure_store

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
JAVA_VERSION = "5.5.0"


def main(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    if options.only and (len(options.parts) != 1 or options.parts[0] not in SECTIONS):
        parser.error(f"--only is for a section of ./dev bench {' or '.join(SECTIONS)}")
    for part in options.parts if options.only else ():
        if wrong := set(options.only) - set(SECTIONS[part]):
            there = ", ".join(SECTIONS[part])
            parser.error(f"--only {', '.join(sorted(wrong))}: for {part} there are {there}")
    if (options.seconds or options.itself) and options.parts != ["broker"]:
        parser.error("--seconds and --itself are for ./dev bench broker")
    is_whole = not (options.quick or options.only or options.itself)
    for name in options.parts or [part for part in PARTS if part not in ON_DEMAND]:
        try:
            result = PARTS[name](options)
        except (PeerUnavailableError, CompilerMissingError, LoadError) as reason:
            print(f"{name}: not measured, {reason}", file=sys.stderr)
            return 1
        except (
            BrokerFailedError, ClientFailedError, PeerFailedError, SparkJobError, RowsMissingError,
        ) as reason:  # fmt: skip
            print(f"{name}: ended, {reason}", file=sys.stderr)
            return 1
        if options.keep or is_whole:
            keep(name, result, options.keep or RESULTS)
    return 0


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.splitlines()[0])
    add = parser.add_argument
    sections = sorted({name for of_part in SECTIONS.values() for name in of_part})
    add("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    add("--quick", action="store_true", help="short rounds, not kept by itself")
    add("--only", action="append", default=[], choices=sections, help="a section of a part")
    add("--seconds", type=float, help="how long a round of the broker's loads is")
    add("--itself", action="store_true", help="let Java's broker stand for ours")
    add("--keep", type=Path, metavar="FOLDER", help="where the figures are kept")
    return parser


def codec(options: argparse.Namespace) -> dict[str, object]:
    costs = codec_costs()
    print(f"\n{'codec':52} {'ns per operation':>16}")
    for name, cost in costs.items():
        print(f"{name:52} {cost:16,.0f}")
    return {"nanoseconds": costs}


def namesrv(options: argparse.Namespace) -> dict[str, object]:
    seconds, warm_up_s, rounds = (1.0, 3.0, 1) if options.quick else (5.0, 25.0, 3)
    print(f"\nname server, GET_ROUTEINFO_BY_TOPIC, against Java {JAVA_VERSION} (warming it up …)")
    result = compare(JAVA_VERSION, seconds, warm_up_s, rounds)
    columns = f"{'requests/s':>12} {'p50 µs':>8} {'p99 µs':>8} {'CPU':>5} {'generator':>9}  limit"
    print(f"{'connections x in flight':24} {'server':8} {columns}")
    loads: dict[str, dict[str, dict[str, float | str]]] = result["loads"]  # type: ignore[assignment]
    for load, figures in loads.items():
        for server in ("java", "roketto"):
            row = figures[server]
            print(
                f"{load:24} {server:8} {row['requests_per_s']:12,.0f} {row['p50_us']:8,.0f} "
                f"{row['p99_us']:8,.0f} {row['server_cpu']:5.2f} {row['generator_cpu']:9.2f}  "
                f"{row['limit']}"
            )
        print(f"{load:24} {'ratio':8} {figures['ratio']:11.2f}x")
    for name, unit in (("start_s", "s"), ("resident_mb", "MB")):
        figure: dict[str, float] = result[name]  # type: ignore[assignment]
        print(f"{name:24} roketto {figure['roketto']:.2f} {unit}, java {figure['java']:.2f} {unit}")
    return result


def store(options: argparse.Namespace) -> dict[str, object]:
    return measure_store(quick=options.quick, sections=options.only)


def broker(options: argparse.Namespace) -> dict[str, object]:
    return measure_broker(
        JAVA_VERSION,
        quick=options.quick,
        sections=options.only,
        seconds=options.seconds,
        ours=JAVA if options.itself else ROKETTO,
    )


def client(options: argparse.Namespace) -> dict[str, object]:
    return measure_client(JAVA_VERSION, quick=options.quick, sections=options.only)


def spark(options: argparse.Namespace) -> dict[str, object]:
    return measure_spark(quick=options.quick, sections=options.only)


def mypyc(options: argparse.Namespace) -> dict[str, object]:
    return measure_mypyc(quick=options.quick)


def keep(name: str, result: dict[str, object], folder: Path) -> None:
    """Write the figures with the machine they come from; a figure alone means little."""
    folder.mkdir(parents=True, exist_ok=True)
    machine = {
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "system": platform.system(),
    }
    measured = {"measured": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine}
    path = folder / f"{name}.json"
    path.write_text(json.dumps(measured | result, indent=2) + "\n")
    print(f"kept in {path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}")


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, object]]] = {
    "codec": codec,
    "namesrv": namesrv,
    "store": store,
    "broker": broker,
    "client": client,
    "spark": spark,
    "mypyc": mypyc,
}
ON_DEMAND = {"mypyc"}
"""Parts that run only when they are named."""
SECTIONS: dict[str, Collection[str]] = {
    "store": STORE_SECTIONS,
    "broker": BROKER_SECTIONS,
    "client": CLIENT_SECTIONS,
    "spark": SPARK_SECTIONS,
}
"""Parts of which a section can be run alone."""

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
