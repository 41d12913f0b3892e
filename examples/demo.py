"""The main job of this release, end to end: servers, messages, Java clients, a kill -9.

./dev demo               with the unmodified Java client and mqadmin, if a JDK can be had
./dev demo --no-java     with Roketto's own connections only
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from interop.peer import Peer, PeerUnavailableError
from interop.peer.ports import PortLease, lease_ports
from interop.peer.servers import BROKER_PORTS
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.route import TopicRouteData
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import encode_header
from roketto.protocol.headers.pull import PullMessageRequest
from roketto.protocol.headers.send import SendMessageV2Request
from roketto.protocol.record import Record, decode_records
from roketto.remoting.loop import run
from roketto.remoting.pool import Pool
from servers import ServerProcess, broker, name_server

JAVA_VERSION = "5.5.0"
TOPIC = "orders"
QUEUES = 4
ORDERS = 1_000
_PULL_COUNT = 32
_PULL_WITH_SUBSCRIPTION = 4
_REQUEST_MS = 5_000


class DemoError(Exception):
    """A step did not end as it should."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--no-java", action="store_true", help="do not use the Java client")
    options = parser.parse_args(arguments)
    started_s = time.monotonic()
    lease = lease_ports(BROKER_PORTS)
    try:
        with tempfile.TemporaryDirectory(prefix="roketto-demo-") as name:
            folder = Path(name)
            step("A name server starts", "mqnamesrv")
            with name_server(folder) as names:
                show(names)
                messages_part(folder, names, lease, with_java=not options.no_java)
                restart_part(folder, names, lease)
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    finally:
        lease.release()
    print(f"\nEverything is stopped. That took {time.monotonic() - started_s:.1f} s.")
    return 0


def step(text: str, command: str = "") -> None:
    print(f"\n==> {text}", flush=True)
    if command:
        print(f"    $ {command}", flush=True)


def show(server: ServerProcess) -> None:
    print(f"    {server.banner}")
    print(f"    ready after {server.start_s:.2f} s, {server.resident_kb() / 1024:.0f} MB resident")


def messages_part(folder: Path, names: ServerProcess, lease: PortLease, *, with_java: bool) -> None:
    """A broker, messages of ours, messages of Java's; then the broker is killed."""
    step("A broker starts and registers", f"mqbroker -n {names.address} -c broker.conf")
    with broker(folder, [names.address], lease=lease) as server:
        show(server)
        run(our_messages(names.address))
        if with_java:
            java_part(names.address)
        step("The broker is killed without warning", f"kill -9 {server.popen.pid}")
        server.popen.kill()
        print(f"    it ended with signal {-server.popen.wait()}")


def restart_part(folder: Path, names: ServerProcess, lease: PortLease) -> None:
    """Start it again on the same files: whatever was acknowledged is there."""
    step("It is started again on the same store", f"mqbroker -n {names.address} -c broker.conf")
    with broker(folder, [names.address], lease=lease) as server:
        show(server)
        found = run(pull_all(server.address))
        print(f"    {len(found)} orders are there, of {ORDERS} that were acknowledged")
        if len(found) != ORDERS:
            raise DemoError(f"{ORDERS - len(found)} acknowledged orders are lost")


async def our_messages(names: str) -> None:
    """Create a topic by sending to it, ask for its route, and read everything back."""
    pool = Pool()
    try:
        step(f"{ORDERS} orders are sent; the first one creates the topic {TOPIC!r}")
        address = await master_of(pool, names, "TBW102")
        started_s = time.monotonic()
        sends = [send(pool, address, number) for number in range(ORDERS)]
        queues = Counter(await asyncio.gather(*sends))
        taken_s = time.monotonic() - started_s
        print(f"    all acknowledged after {taken_s * 1000:.0f} ms")
        print(f"    {'queue':>9} {'orders':>9}")
        for queue, count in sorted(queues.items()):
            print(f"    {queue:9} {count:9}")
        step("A consumer pulls them")
        found = await pull_all(address)
        print(f"    {len(found)} orders, the first of them {found[0].body!r}")
    finally:
        await pool.close()


async def master_of(pool: Pool, names: str, topic: str) -> str:
    """Ask the name server which broker takes messages of a topic, as every client does."""
    route = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    answer = await pool.request(names, route, _REQUEST_MS)
    if answer.code != ResponseCode.SUCCESS:
        raise DemoError(f"no route for {topic}: {answer.remark}")
    return decode_body(TopicRouteData, answer.body).broker_datas[0].broker_addrs[0]


async def send(pool: Pool, address: str, number: int) -> int:
    """Send one order; the queue that it went to."""
    queue_id = number % QUEUES
    header = SendMessageV2Request(
        producer_group="demo", topic=TOPIC, default_topic="TBW102",
        default_topic_queue_nums=QUEUES, queue_id=queue_id, sys_flag=0,
        born_timestamp=int(time.time() * 1000), flag=0, properties=f"KEYS\x01order-{number}\x02",
    )  # fmt: skip
    body = json.dumps({"order": number, "amount": number * 10}).encode()
    request = Command(RequestCode.SEND_MESSAGE_V2, encode_header(header), body)
    answer = await pool.request(address, request, _REQUEST_MS)
    if answer.code != ResponseCode.SUCCESS:
        raise DemoError(f"order {number} was refused: {answer.remark}")
    return queue_id


async def pull_all(address: str) -> list[Record]:
    """Every message of the topic's queues, from their beginning."""
    pool = Pool()
    found: list[Record] = []
    try:
        for queue_id in range(QUEUES):
            offset = 0
            while True:
                header = PullMessageRequest(
                    consumer_group="demo", topic=TOPIC, queue_id=queue_id, queue_offset=offset,
                    max_msg_nums=_PULL_COUNT, sys_flag=_PULL_WITH_SUBSCRIPTION, consume_offset=0,
                    suspend_timeout_ms=0, subscription="*", sub_version=0,
                )  # fmt: skip
                request = Command(RequestCode.PULL_MESSAGE, encode_header(header))
                answer = await pool.request(address, request, _REQUEST_MS)
                if answer.code != ResponseCode.SUCCESS:
                    break
                records = decode_records(answer.body, strict=True)
                found += records
                offset = records[-1].queue_offset + 1
    finally:
        await pool.close()
    return found


def java_part(names: str) -> None:
    """Let unmodified Java programs use the broker; tell if there is no Java here."""
    step(f"The unmodified Java client {JAVA_VERSION} sends and consumes through it")
    print("    (the first time it is fetched from Maven Central, about 95 MB)", flush=True)
    try:
        peer = Peer(JAVA_VERSION)
    except PeerUnavailableError as reason:
        print(f"    not here: {str(reason).splitlines()[0]}")
        return
    with peer:
        done = peer.run("SendReceive", names, "from-java", "100")
        print(f"    {done.strip()}")
        step("Java's mqadmin sees the cluster", f"mqadmin clusterList -n {names}")
        print_indented(peer.mqadmin("clusterList", name_server=names))
        step("and the queues", f"mqadmin topicStatus -t {TOPIC} -n {names}")
        print_indented(peer.mqadmin("topicStatus", "-t", TOPIC, name_server=names))


def print_indented(text: str) -> None:
    for line in text.rstrip().splitlines():
        print(f"    {line.rstrip()}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
