"""Other clients in Python: those that run, in turns with ours, and why the others do not."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from broker_frames import java_command
from broker_rig import fill
from broker_servers import JAVA, Server
from client_install import NotInstalledError, install
from client_java import THREADS
from client_marks import Figures
from client_process import ClientFailedError, ClientProcess
from client_proxy import Proxy, start_proxy
from client_rig import BROKERS, ClientRig, Contender
from client_sizes import BODY_BYTES, QUEUES
from client_table import add_client, begin_table
from client_turns import consume_turn, consume_words, send_turn, send_words
from interop.peer import PeerFailedError, PeerUnavailableError
from interop.peer.fetch import fetch_jars
from interop.peer.java import find_jdk
from report import Report
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.codes import RequestCode

RATIO_LEAST: Final = 3.0
SEND_TOPIC: Final = "ClientOthersSend"
CONSUME_TOPIC: Final = "ClientOthersBacklog"
OURS_SENDS: Final = f"ours, asyncio, {THREADS} in flight"
OURS_CONSUMES: Final = "ours, push, async def, one by one"

_OURS: Final = "client_ours.py"
_JPYPE_JAVA: Final = "4.9.7"
"""pyrocketmq wants the classes of RocketMQ 4."""
_CONSUME_TIMEOUT_S: Final = 25.0
_WITHOUT_SITE: Final = ("-S",)
"""They see what was installed for them, and not what we have."""


@dataclass(frozen=True, slots=True)
class Other:
    """A package, our program for it, and what that can do: the name of a line, and its mode."""

    package: str
    requirements: Sequence[str]
    program: str
    sends: dict[str, str]
    consumes: dict[str, str]
    has_proxy: bool = False
    note: str = ""


OTHERS: Final = (
    Other(
        "rocketmq-python-client",
        ("rocketmq-python-client==5.1.2",),
        "client_grpc.py",
        {
            f"rocketmq-python-client, {THREADS} threads": "send-threads",
            f"rocketmq-python-client, {THREADS} futures": "send-futures",
        },
        {
            "rocketmq-python-client, push": "consume-push",
            "rocketmq-python-client, simple": "consume-simple",
        },
        has_proxy=True,
        note="gRPC, through Java's proxy, whose time is with the broker's",
    ),
    Other(
        "rocketmq",
        ("rocketmq==0.4.4",),
        "client_cpp.py",
        {f"rocketmq, {THREADS} threads": "send-threads"},
        {"rocketmq, push": "consume-push"},
        note="a client in C++, called through ctypes",
    ),
    Other(
        "pyrocketmq",
        ("pyrocketmq==0.3.4", "JPype1==1.5.2"),
        "client_jpype.py",
        {f"pyrocketmq, {THREADS} threads": "send-threads"},
        {"pyrocketmq, push": "consume-push"},
        note="Java's client of 4.9.7 in a JVM within the process",
    ),
)


@dataclass(frozen=True, slots=True)
class Ready:
    """Another client that is installed: how it is started, and where it can work."""

    other: Other
    folder: Path
    home: str
    words: Sequence[str]
    proxy: Proxy | None

    @property
    def brokers(self) -> Sequence[str]:
        return [JAVA] if self.proxy else BROKERS

    def run(
        self, mode: str, topic: str, rest: Sequence[str], server: Server,
        measure: Callable[[ClientProcess, Server, Sequence[int]], Figures],
    ) -> Figures:  # fmt: skip
        """One turn of it."""
        address = self.proxy.address if self.proxy else server.name_server
        beside = [self.proxy.pid] if self.proxy else []
        words = [self.other.program, mode, address, topic, *self.words, *rest]
        with self.proxy.working() if self.proxy else nullcontext():
            process = ClientProcess(
                words, [str(self.folder)], _WITHOUT_SITE, variables={"HOME": self.home}
            )
            return measure(process, server, beside)


def measure_others(report: Report, rig: ClientRig) -> None:
    with ExitStack() as stack:
        report.begin("others", "other clients in Python (installing and trying them …)")
        ready = [found for other in OTHERS if (found := _prepare(report, rig, other, stack))]
        backlog = rig.sizes.other_backlog
        for server in rig.pair:
            server.create_topic(SEND_TOPIC, QUEUES)
            server.create_topic(CONSUME_TOPIC, QUEUES)
            fill(server, CONSUME_TOPIC, backlog)
        ours = Contender(OURS_SENDS, partial(_our_sends, rig))
        _compare(report, rig, f"sends of {BODY_BYTES} B", ours, ready, _sends)
        ours = Contender(OURS_CONSUMES, partial(_we_consume, rig))
        _compare(report, rig, f"a backlog of {backlog:,} messages", ours, ready, _consumes)


def _prepare(report: Report, rig: ClientRig, other: Other, stack: ExitStack) -> Ready | None:
    """Install it and start what it needs, or say why that cannot be."""
    try:
        folder = install(other.requirements)
        words: list[str] = []
        if other.program == "client_jpype.py":
            jdk = find_jdk()
            words = [str(jdk.home), str(fetch_jars(jdk, _JPYPE_JAVA))]
        proxy = None
        if other.has_proxy:
            proxy = stack.enter_context(start_proxy(rig.java_version, rig.pair.java))
    except (NotInstalledError, PeerUnavailableError, PeerFailedError) as why:
        report.lack(other.package, str(why).splitlines()[0])
        return None
    # They log into the home of whoever runs them.
    home = TemporaryDirectory(prefix="roketto-bench-", ignore_cleanup_errors=True)
    return Ready(other, folder, stack.enter_context(home), words, proxy)


def _compare(
    report: Report, rig: ClientRig, title: str, ours: Contender, ready: Sequence[Ready],
    contenders_of: Callable[[ClientRig, Ready], list[Contender]],
) -> None:  # fmt: skip
    begin_table(report, "others", title)

    def lack(contender: Contender, why: ClientFailedError) -> None:
        if contender is ours:
            raise why
        said = str(why).splitlines()
        report.lack(contender.name, f"{said[0]}; {said[-1]}" if len(said) > 1 else said[0])

    theirs = {
        contender.name: (contender, one.other.note)
        for one in ready
        for contender in contenders_of(rig, one)
    }
    contenders = [ours, *(contender for contender, _ in theirs.values())]
    found = rig.take_turns(contenders, rig.sizes.other_rounds, lack)
    add_client(report, ours.name, found)
    for name in [name for name in found if name != ours.name]:
        add_client(
            report, name, found, of=ours.name, to=name, said="ours",
            least=RATIO_LEAST, promised_at=BROKERS, note=theirs[name][1],
        )  # fmt: skip


# --- their turns ----------------------------------------------------------------------------------


def _sends(rig: ClientRig, ready: Ready) -> list[Contender]:
    def turn(mode: str, server: Server) -> Figures:
        words = send_words(at_once=THREADS)
        return ready.run(mode, SEND_TOPIC, words, server, partial(_measure_sends, rig))

    modes = ready.other.sends.items()
    return [Contender(name, partial(turn, mode), ready.brokers) for name, mode in modes]


def _consumes(rig: ClientRig, ready: Ready) -> list[Contender]:
    def turn(mode: str, server: Server) -> Figures:
        sizes = rig.sizes
        group = rig.new_group()
        _create_group(server, group)
        words = consume_words(group, sizes.other_backlog, sizes.other_consume_s)
        return ready.run(mode, CONSUME_TOPIC, words, server, _measure_consumption)

    modes = ready.other.consumes.items()
    return [Contender(name, partial(turn, mode), ready.brokers) for name, mode in modes]


def _create_group(server: Server, group: str) -> None:
    """A proxy knows no group that nobody has made."""
    body = encode_body(SubscriptionGroupConfig(group_name=group))
    server.ask(java_command(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body))


def _measure_sends(
    rig: ClientRig, process: ClientProcess, server: Server, beside: Sequence[int]
) -> Figures:
    ramp_s, seconds = rig.sizes.other_ramp_s, rig.sizes.other_round_s
    is_ours = process.program == _OURS
    return send_turn(
        process, server, SEND_TOPIC, ramp_s, seconds, beside=beside, may_fail=not is_ours
    )


def _measure_consumption(process: ClientProcess, server: Server, beside: Sequence[int]) -> Figures:
    return consume_turn(process, server, beside=beside, timeout_s=_CONSUME_TIMEOUT_S)


# --- ours, beside them ----------------------------------------------------------------------------


def _our_sends(rig: ClientRig, server: Server) -> Figures:
    words = ["send-asyncio", server.name_server, SEND_TOPIC, *send_words(at_once=THREADS)]
    return _measure_sends(rig, ClientProcess([_OURS, *words]), server, [])


def _we_consume(rig: ClientRig, server: Server) -> Figures:
    words = ["consume-asyncio", server.name_server, CONSUME_TOPIC]
    words += consume_words(rig.new_group(), rig.sizes.other_backlog)
    return consume_turn(ClientProcess([_OURS, *words]), server)
