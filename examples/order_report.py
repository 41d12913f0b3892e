"""A report: consumes the topic ``order-stats`` with the Python client, as a table and as a plot.

python examples/order_report.py --name-server 127.0.0.1:9876 --plot orders.png
"""

import argparse
import asyncio
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from order_stream import STATS_TOPIC
from roketto.client import ClientError, LitePullConsumer

_POLL_MS = 500
_POLL_MESSAGES = 1_000


@dataclass(frozen=True, slots=True)
class Window:
    """What was ordered from a country in ten seconds."""

    begin: datetime
    country: str
    orders: int
    items: int
    revenue: Decimal

    @classmethod
    def parse(cls, body: bytes) -> "Window":
        told = json.loads(body, parse_float=Decimal)
        begin = datetime.fromisoformat(told["from"])
        revenue = Decimal(told["revenue"])
        return cls(begin, told["country"], told["orders"], told["items"], revenue)


async def consume(name_server: str, enough: int | None = None, wait_s: float = 3.0) -> list[Window]:
    """All windows from the beginning of the topic on, until there are enough or no more come."""
    found: list[Window] = []
    async with LitePullConsumer("order-report", name_server) as consumer:
        queues = await consumer.fetch_subscribe_queues(STATS_TOPIC)
        consumer.assign(queues)
        for queue in queues:
            await consumer.seek_to_begin(queue)
        came_s = time.monotonic()
        while (enough is None or len(found) < enough) and time.monotonic() - came_s < wait_s:
            messages = await consumer.poll(timeout_ms=_POLL_MS, max_messages=_POLL_MESSAGES)
            found += [Window.parse(message.body) for message in messages]
            if messages:
                came_s = time.monotonic()
    return sorted(found, key=lambda window: (window.begin, window.country))


def table(found: Iterable[Window]) -> Table:
    """A line for each country, and one for all."""
    by_country: dict[str, list[Window]] = defaultdict(list)
    for window in found:
        by_country[window.country].append(window)
    made = Table("country", title="Orders by country", box=box.SIMPLE_HEAD)
    for heading in ("windows", "orders", "items", "revenue", "most in 10 s"):
        made.add_column(heading, justify="right")
    for country, some in sorted(by_country.items()):
        made.add_row(country, *_figures(some))
    made.add_section()
    made.add_row("all", *_figures([window for some in by_country.values() for window in some]))
    return made


def _figures(some: Sequence[Window]) -> list[str]:
    return [
        f"{len(some):,}", f"{sum(one.orders for one in some):,}",
        f"{sum(one.items for one in some):,}", f"{sum(one.revenue for one in some):,.2f}",
        f"{max((one.orders for one in some), default=0):,}",
    ]  # fmt: skip


def plot(found: Sequence[Window], path: Path) -> None:
    """Orders of every ten seconds, a line for each country, as a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.dates import DateFormatter
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.add_subplot()
    for country in sorted({window.country for window in found}):
        some = [window for window in found if window.country == country]
        axes.plot([one.begin for one in some], [one.orders for one in some], marker="o",
                  markersize=3, label=country)  # fmt: skip
    axes.set_title("Orders in windows of 10 seconds, by country")
    axes.set_ylabel("orders")
    axes.set_ylim(bottom=0)
    formatter: Any = DateFormatter  # which has no types
    axes.xaxis.set_major_formatter(formatter("%H:%M:%S"))
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    figure.savefig(path, dpi=120)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--name-server", default="127.0.0.1:9876", help="%(default)s by default")
    parser.add_argument("--plot", type=Path, help="where to draw it, as a PNG")
    options = parser.parse_args(arguments)
    try:
        found = asyncio.run(consume(options.name_server))
    except ClientError as error:
        print(f"order_report: {error}", file=sys.stderr)
        return 1
    Console().print(table(found))
    if options.plot and found:
        plot(found, options.plot)
        print(f"drawn: {options.plot}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
