"""The main job, end to end: servers, a stream of orders, a Spark pipeline, kill -9, Java clients.

./dev demo               all of it, in less than two minutes
./dev demo --no-java     what needs no Java: neither Spark nor the Java client

Each step says what it shows, and what you would type to do the same. The programs are those in
examples/: order_stream.py, orders_pipeline.py and order_report.py run by themselves, too.
"""

import argparse
import asyncio
import importlib.util
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from rich.console import Console

from demo_programs import DemoError, Program, Programs
from interop.peer import Peer, PeerUnavailableError
from interop.peer.ports import PortLease, lease_ports
from interop.peer.servers import BROKER_PORTS
from order_report import Window, consume, plot, table
from order_stream import COUNTRIES, PRODUCTS, TOPIC, Order, orders
from roketto.admin import Admin, NoProgressError
from roketto.remoting.loop import run
from servers import ServerProcess, broker, name_server

JAVA_VERSION = "5.5.0"
STREAM = 20_000, 40.0
"""Orders, and in how many seconds they are sent: Spark takes some ten of these to start, twice."""
STREAM_WITHOUT_SPARK = 2_000, 2.0
FIRST_RESULTS = 10
WINDOW_S = 10
LATENESS_S = 30
"""As in orders_pipeline.py."""
_WAIT_S = 180.0
"""For a step on a machine that is busy with something else."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--no-java", action="store_true", help="neither Spark nor the Java client")
    parser.add_argument("--no-spark", action="store_true", help="leave the Spark pipeline out")
    parser.add_argument("--plot", type=Path, default=Path("order-stats.png"),
                        help="where the plot is drawn; %(default)s by default")  # fmt: skip
    options = parser.parse_args(arguments)
    started_s = time.monotonic()
    lease = lease_ports(BROKER_PORTS)
    try:
        with tempfile.TemporaryDirectory(prefix="roketto-demo-") as name, Programs() as programs:
            folder = Path(name)
            step("A name server starts: it knows which broker has which topic", "mqnamesrv")
            with name_server(folder) as names:
                show(names)
                Demo(options, folder, names, lease, programs).play()
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        lease.release()
    print(f"\nEverything is stopped. That took {time.monotonic() - started_s:.0f} s.")
    return 0


def step(text: str, *commands: str) -> None:
    print(f"\n==> {text}", flush=True)
    for command in commands:
        print(f"    $ {command}", flush=True)


def tell(text: str) -> None:
    print(f"    {text}", flush=True)


def show(server: ServerProcess) -> None:
    tell(server.banner)
    tell(f"ready after {server.start_s:.2f} s, {server.resident_kb() / 1024:.0f} MB resident")


class Demo:
    """The acts of the play; servers and programs end with it."""

    def __init__(
        self,
        options: argparse.Namespace,
        folder: Path,
        names: ServerProcess,
        lease: PortLease,
        programs: Programs,
    ) -> None:
        self._plot: Path = options.plot
        self._with_java = not options.no_java
        self._folder = folder
        self._names = names.address
        self._lease = lease
        self._programs = programs
        self._has_spark = self._with_java and not options.no_spark and has_spark()
        count, self._seconds = STREAM if self._has_spark else STREAM_WITHOUT_SPARK
        self._begin = datetime.now(UTC).replace(microsecond=0)
        self._begin -= timedelta(seconds=self._begin.second % WINDOW_S)
        self._orders = list(orders(count, self._begin))
        self._pipeline: Program | None = None

    def play(self) -> None:
        start_broker = f"mqbroker -n {self._names} -c broker.conf"
        step("A broker starts and registers there: it keeps the messages", start_broker)
        with broker(self._folder, [self._names], lease=self._lease) as server:
            show(server)
            shop = self._open_shop()
            if self._has_spark:
                self._kill_pipeline()
            else:
                shop.wait(_WAIT_S)
            step("The broker is killed, too, without warning", f"kill -9 {server.popen.pid}")
            server.popen.kill()
            tell(f"it ended with signal {-server.popen.wait()}")
        step("It is started again on the same files", start_broker)
        with broker(self._folder, [self._names], lease=self._lease) as server:
            show(server)
            shop.wait(_WAIT_S)
            self._count_orders()
            if self._pipeline is not None:
                self._report(self._pipeline)
            if self._with_java:
                java_part(self._names, has_groups=self._has_spark)

    # --- orders -----------------------------------------------------------------------------------

    def _open_shop(self) -> Program:
        """The stream of orders, as a program of its own."""
        command = [
            "examples/order_stream.py", "--name-server", self._names, "--orders",
            str(len(self._orders) - 1), "--seconds", f"{self._seconds:.0f}", "--begin",
            self._begin.isoformat(),
        ]  # fmt: skip
        step(
            f"A shop sends orders with the Python client: {len(self._orders)} in"
            f" {self._seconds:.0f} s, of five minutes of its time",
            f"python {shlex.join(command[:-2])}",
        )
        return self._programs.start("shop", command)

    def _count_orders(self) -> None:
        """Whatever was acknowledged is there, and nothing is there twice."""

        async def count() -> int:
            async with Admin(self._names) as admin:
                status = await admin.topics.status(TOPIC)
                return sum(queue.count for queue in status.queues)

        found = run(count())
        tell(f"{found} orders are there, of {len(self._orders)} that were acknowledged")
        if found != len(self._orders):
            raise DemoError(f"there should be {len(self._orders)} orders, each of them once")

    # --- the pipeline -----------------------------------------------------------------------------

    def _kill_pipeline(self) -> None:
        """Start the pipeline, look at first results, kill it, start it again."""
        command = [
            "examples/orders_pipeline.py", "--name-server", self._names, "--checkpoint",
            str(self._folder / "checkpoint"),
        ]  # fmt: skip
        step(
            "A Spark pipeline reads the topic as a stream: it parses orders, looks prices up,"
            " counts them\n    in windows of 10 s by country, and writes each window to the topic"
            " order-stats exactly once;\n    a second query keeps all orders in Parquet files"
            " (docs/spark.md)",
            f"python {shlex.join(command)}",
        )
        pipeline = self._programs.start("pipeline", command)
        pipeline.wait_for("stats: batch", _WAIT_S)
        first = run(consume(self._names, FIRST_RESULTS, _WAIT_S))
        if len(first) < FIRST_RESULTS:
            raise DemoError(f"{len(first)} results came in {_WAIT_S:.0f} s")
        tell(f"the first results: {shown(first[0])}; {shown(first[1])}; ...")
        step(
            "The pipeline is killed in the middle of it, driver, JVM and all",
            f"kill -9 -- -{pipeline.pid}",
        )
        tell(f"it ended with signal {pipeline.kill()}")
        step(
            "It is started again with its checkpoint, and goes on where it was",
            f"python {shlex.join(command)}",
        )
        self._pipeline = self._programs.start("pipeline", command)
        self._pipeline.wait_for("stats: batch", _WAIT_S)

    async def _archived(self) -> None:
        """Wait until the archive has all orders: its lag, as every consumer group has one."""
        deadline_s = time.monotonic() + _WAIT_S
        async with Admin(self._names) as admin:
            while time.monotonic() < deadline_s:
                try:
                    if (await admin.groups.progress("orders-archive", TOPIC)).lag == 0:
                        return
                except NoProgressError:
                    pass  # it has not committed anything yet
                await asyncio.sleep(0.2)
        raise DemoError(f"the archive is still behind after {_WAIT_S:.0f} s")

    def _report(self, pipeline: Program) -> None:
        """Consume all results, compare them with what was sent, show them."""
        expected = windows_of(self._orders)
        step("All windows that have ended are waited for, and the pipeline is told to stop",
             f"kill -TERM {pipeline.pid}")  # fmt: skip
        run(consume(self._names, len(expected), _WAIT_S))
        run(self._archived())
        pipeline.stop(_WAIT_S)
        step(
            "The results are consumed with the Python client",
            f"python examples/order_report.py --name-server {self._names} --plot {self._plot}",
        )
        found = run(consume(self._names))
        Console().print(table(found))
        check(found, expected)
        counted = sum(window.orders for window in found)
        tell(
            f"{counted} orders are counted, each once, over two kill -9. The last one sent is of"
            " a minute later;\n    its window is still open, as others may come for it"
        )
        try:
            plot(found, self._plot)
        except ImportError:
            tell("there is no matplotlib here to draw with: pip install matplotlib")
        else:
            tell(f"drawn: {self._plot.resolve()}")


def has_spark() -> bool:
    """Whether the pipeline can run here; the reason is told if not."""
    missing = [name for name in ("pyspark", "pyarrow") if importlib.util.find_spec(name) is None]
    if missing:
        step("Spark is not here, and so the pipeline is left out")
        tell(f"there is no {' and no '.join(missing)}: pip install '.[spark]'")
        return False
    from roketto.spark import JavaNotFoundError, find_java

    try:
        find_java(say=tell)
    except JavaNotFoundError as error:
        step("There is no Java for Spark, and so the pipeline is left out")
        tell(str(error))
        return False
    return True


def windows_of(some: Sequence[Order]) -> dict[tuple[datetime, str], Window]:
    """What the pipeline should find: the windows that are complete, from the orders themselves."""
    counts: Counter[tuple[datetime, str]] = Counter()
    items: Counter[tuple[datetime, str]] = Counter()
    revenue: dict[tuple[datetime, str], Decimal] = {}
    for order in some:
        begin = order.time.replace(microsecond=0)
        begin -= timedelta(seconds=begin.second % WINDOW_S)
        key = begin, COUNTRIES[order.country]
        counts[key] += 1
        items[key] += order.quantity
        price = Decimal(PRODUCTS[order.product][1])
        revenue[key] = revenue.get(key, Decimal()) + order.quantity * price
    watermark = some[-1].time - timedelta(seconds=LATENESS_S)
    return {
        (begin, country): Window(begin, country, counts[begin, country], items[begin, country],
                                 revenue[begin, country])
        for begin, country in counts
        if begin + timedelta(seconds=WINDOW_S) <= watermark
    }  # fmt: skip


def check(found: Sequence[Window], expected: dict[tuple[datetime, str], Window]) -> None:
    """Every window once, with the right figures."""
    twice = len(found) - len({(window.begin, window.country) for window in found})
    if twice:
        raise DemoError(f"{twice} results came twice")
    wrong = [one for one in found if expected.get((one.begin, one.country)) != one]
    if wrong:
        raise DemoError(f"{len(wrong)} results are wrong, the first of them {wrong[0]}")
    if len(found) != len(expected):
        raise DemoError(f"{len(expected) - len(found)} results are missing of {len(expected)}")


def shown(window: Window) -> str:
    return f"{window.begin:%H:%M:%S} {window.country} {window.orders} orders"


def java_part(names: str, *, has_groups: bool) -> None:
    """Let unmodified Java programs use the broker; tell if there is no Java here."""
    step(f"The unmodified Java client {JAVA_VERSION} sends and consumes through the same broker")
    tell("(the first time it is fetched from Maven Central, about 95 MB)")
    try:
        peer = Peer(JAVA_VERSION)
    except PeerUnavailableError as reason:
        tell(f"not here: {str(reason).splitlines()[0]}")
        return
    with peer:
        tell(peer.run("SendReceive", names, "from-java", "100").strip())
        step("Java's mqadmin sees the cluster", f"mqadmin clusterList -n {names}")
        print_indented(peer.mqadmin("clusterList", name_server=names))
        if has_groups:
            step(
                "and how far the pipeline is, as a consumer group",
                f"mqadmin consumerProgress -g orders-stats -t {TOPIC} -n {names}",
            )
            group = ["-g", "orders-stats", "-t", TOPIC]
            print_indented(peer.mqadmin("consumerProgress", *group, name_server=names))


def print_indented(text: str) -> None:
    for line in text.rstrip().splitlines():
        tell(line.rstrip())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
