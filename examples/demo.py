"""The main job of this release, end to end: a name server, a broker that registers, its routes.

./dev demo               with the Java original as the broker, if a JDK can be had
./dev demo --no-java     with a registration sent by Roketto's own client
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from interop.peer import Peer, PeerUnavailableError
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.registration import RegisterBrokerBody, encode_registration
from roketto.protocol.bodies.route import TopicRouteData
from roketto.protocol.bodies.topics import TopicConfig, TopicConfigAndMappingSerializeWrapper
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import encode_header
from roketto.protocol.headers.namesrv import RegisterBrokerRequest
from roketto.remoting.loop import run
from roketto.remoting.pool import Pool
from servers import name_server

JAVA_VERSION = "5.5.0"
TOPIC = "orders"
QUEUES = 4
_ROUTE_WAIT_S = 20.0


class DemoError(Exception):
    """A step did not end as it should."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--no-java", action="store_true", help="do not start the Java broker")
    options = parser.parse_args(arguments)
    started_s = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="roketto-demo-") as folder:
            step("A name server starts", "mqnamesrv -c namesrv.conf")
            with name_server(Path(folder)) as server:
                print(f"    {server.banner}\n    ready after {server.start_s:.2f} s")
                if options.no_java or not java_part(server.address):
                    run(python_part(server.address))
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    print(f"\nEverything is stopped. That took {time.monotonic() - started_s:.1f} s.")
    return 0


def step(text: str, command: str = "") -> None:
    print(f"\n==> {text}", flush=True)
    if command:
        print(f"    $ {command}", flush=True)


def java_part(address: str) -> bool:
    """Let the Java original register; False if it cannot be had here."""
    step(f"The original Java broker {JAVA_VERSION}, unmodified, registers with it",
         f"mqbroker -n {address}")  # fmt: skip
    print("    (the first time it is fetched from Maven Central, about 95 MB)", flush=True)
    try:
        peer = Peer(JAVA_VERSION)
    except PeerUnavailableError as reason:
        print(f"    not here: {str(reason).splitlines()[0]}")
        return False
    with peer:
        broker = peer.broker([address])
        print(f"    {broker.name} serves at {broker.address}")
        step("Java's mqadmin creates a topic through it",
             f"mqadmin updateTopic -t {TOPIC} -c {broker.cluster} -r {QUEUES} -w {QUEUES} "
             f"-n {address}")  # fmt: skip
        created = peer.mqadmin(
            "updateTopic", "-t", TOPIC, "-c", broker.cluster,
            "-r", str(QUEUES), "-w", str(QUEUES), name_server=address,
        )  # fmt: skip
        print_indented(created.splitlines()[0])
        run(show_route(address))
        step("Java's mqadmin sees the cluster", f"mqadmin clusterList -n {address}")
        print_indented(peer.mqadmin("clusterList", name_server=address))
    return True


async def python_part(address: str) -> None:
    """Register a broker with Roketto's own client and show the route."""
    step("A broker is registered by Roketto's own client")
    header = RegisterBrokerRequest(
        broker_name="broker-a", broker_addr="127.0.0.1:10911", cluster_name="DefaultCluster",
        ha_server_addr="127.0.0.1:10912", broker_id=0,
    )  # fmt: skip
    topics = {
        name: TopicConfig(topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
        for name in (TOPIC, "TBW102")
    }
    body = RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigAndMappingSerializeWrapper(
            topic_config_table=topics
        )
    )
    pool = Pool()
    try:
        request = Command(
            RequestCode.REGISTER_BROKER, encode_header(header), encode_registration(body)
        )
        answer = await pool.request(address, request, 3_000)
        if answer.code != ResponseCode.SUCCESS:
            raise DemoError(f"the registration was refused: {answer.remark}")
        await show_route(address)
    finally:
        await pool.close()


async def show_route(address: str) -> None:
    """Ask the name server where the topic lives, as every client does before it sends."""
    step(f"Any client asks the name server where {TOPIC!r} lives")
    pool = Pool()
    deadline_s = time.monotonic() + _ROUTE_WAIT_S
    try:
        while True:
            request = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC})
            answer = await pool.request(address, request, 3_000)
            if answer.code == ResponseCode.SUCCESS:
                break
            if time.monotonic() > deadline_s:
                raise DemoError(f"no route for {TOPIC} within {_ROUTE_WAIT_S:g} s: {answer.remark}")
            await asyncio.sleep(0.1)
    finally:
        await pool.close()
    route = decode_body(TopicRouteData, answer.body)
    addresses = {broker.broker_name: broker.broker_addrs for broker in route.broker_datas}
    print(f"    {'broker':16} {'master':24} {'read queues':>11} {'write queues':>12} {'perm':>4}")
    for queue in route.queue_datas:
        master = addresses[queue.broker_name].get(0, "none")
        print(
            f"    {queue.broker_name:16} {master:24} {queue.read_queue_nums:11} "
            f"{queue.write_queue_nums:12} {queue.perm:4}"
        )


def print_indented(text: str) -> None:
    for line in text.rstrip().splitlines():
        print(f"    {line.rstrip()}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
