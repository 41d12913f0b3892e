"""The broker's benchmark: its generators believe no broker, and a quick look has every figure."""

import json
import os
import shutil
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from interop.peer import PeerUnavailableError
from interop.peer.fetch import fetch_jars
from interop.peer.java import find_jdk
from interop.peer.outcome import skip_or_fail
from roketto.protocol.command import Command, decode_command, encode_command
from roketto.protocol.properties import decode_properties
from roketto.protocol.record import Record, encode_record

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
_TIMEOUT_S = 280

Answer = Callable[[Command], Sequence[Command] | None]
"""What a broker says to a request, with what it kept back before; None: it hangs up."""


@contextmanager
def fake_broker(answer: Answer) -> Iterator[int]:
    """A server on a free port that answers as told; one connection at a time has its turn."""
    lock = threading.Lock()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while length := self.rfile.read(4):
                request = decode_command(memoryview(self.rfile.read(int.from_bytes(length))))
                with lock:
                    answers = answer(request)
                if answers is None:
                    return
                for command in answers:
                    self.wfile.write(encode_command(command))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            serving.join()


@pytest.fixture(scope="module")
def generators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both, compiled with every warning an error."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: install gcc or clang")
    folder = tmp_path_factory.mktemp("generators")
    for name in ("broker_load", "broker_latency"):
        command = [compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
        subprocess.run([*command, "-o", folder / name, BENCH / f"{name}.c"], check=True)
    return folder


def generate(
    program: Path, port: int, words: Sequence[object], frames: Sequence[bytes]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, "127.0.0.1", str(port), *map(str, words)],
        input=b"".join(frames).decode("latin-1"), encoding="latin-1",
        capture_output=True, timeout=30, check=False,
    )  # fmt: skip


def load_words(connections: int, in_flight: int, requests: int, messages: int = 0) -> list[object]:
    return [connections, in_flight, 0, 60, messages, os.getpid(), requests]


def send_frame(queue: int, body: bytes = b"a body") -> bytes:
    properties = f"UNIQ_KEY\x01{'0' * 32}\x02WAIT\x01true\x02"
    return encode_command(Command(310, {"e": str(queue), "i": properties}, body, 100_000_000))


def pull_frame(queue: int, offset: int) -> bytes:
    fields = {"queueId": str(queue), "queueOffset": str(offset), "topic": "T"}
    return encode_command(Command(11, fields, b"", 100_000_000))


def messages_of(request: Command, count: int) -> bytes:
    assert request.ext is not None
    first = int(request.ext["queueOffset"])
    records = [Record("T", b"a body" * 4, queue_offset=first + number) for number in range(count)]
    return b"".join(map(encode_record, records))


def test_every_request_is_sent_once_and_answered_in_any_order(generators: Path) -> None:
    """The frames take turns; no unique key and no opaque of a connection comes twice."""
    seen: list[Command] = []
    held: list[Command] = []

    def answer(request: Command) -> Sequence[Command]:
        seen.append(Command(request.code, request.ext, bytes(request.body), request.opaque))
        held.append(request.answer())
        if len(held) < 4 and len(seen) < 100:
            return []
        answers = held[::-1]
        held.clear()
        return answers

    with fake_broker(answer) as port:
        frames = [send_frame(queue) for queue in range(3)]
        done = generate(generators / "broker_load", port, load_words(1, 4, 100), frames)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["answered_in_all"] == 100
    fields = [request.ext or {} for request in seen]
    assert [field["e"] for field in fields] == [str(number % 3) for number in range(100)]
    keys = {decode_properties(field["i"].encode())["UNIQ_KEY"] for field in fields}
    assert len(keys) == 100
    assert len({request.opaque for request in seen}) == 100
    assert {bytes(request.body) for request in seen} == {b"a body"}


def test_many_connections_share_the_requests(generators: Path) -> None:
    """Each has its own opaques, and the number in all is exact."""
    with fake_broker(lambda request: [request.answer()]) as port:
        frames = [send_frame(0)]
        done = generate(generators / "broker_load", port, load_words(5, 3, 1_000), frames)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["answered"] == figures["answered_in_all"] == 1_000
    assert 0 < figures["p50_us"] <= figures["p99_us"]


def test_refusals_are_counted_apart(generators: Path) -> None:
    """Code 2 says that the broker is busy: no success, and no reason to end."""
    numbers = iter(range(1_000))
    with fake_broker(lambda request: [request.answer(2 if next(numbers) % 2 else 0)]) as port:
        done = generate(generators / "broker_load", port, load_words(1, 1, 50), [send_frame(0)])
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert (figures["answered"], figures["refused"]) == (25, 25)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda request: [request.answer(14, remark="no room")], "a request failed"),
        (lambda request: [request.answer(14, remark="no room")], "no room"),
        (lambda request: [Command(0, opaque=request.opaque + 1, flag=1)], "nobody asked"),
        (lambda request: [request.answer(), request.answer()], "nobody asked"),
        (lambda request: None, "the broker closed a connection"),
    ],
)
def test_a_failed_send_ends_the_run(generators: Path, answer: Answer, text: str) -> None:
    """It says what the broker answered."""
    with fake_broker(answer) as port:
        frames = [send_frame(0)]
        done = generate(generators / "broker_load", port, load_words(1, 1, 1_000), frames)
    assert done.returncode == 1
    assert text in done.stderr


def test_pulls_are_counted_by_their_messages(generators: Path) -> None:
    """All that were asked for, from the offset that was asked for."""
    with fake_broker(lambda request: [request.answer(body=messages_of(request, 32))]) as port:
        frames = [pull_frame(0, 0), pull_frame(1, 9_984)]
        done = generate(generators / "broker_load", port, load_words(2, 2, 100, 32), frames)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["answered"] == 100


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda request: [request.answer(body=messages_of(request, 31))], "31 messages instead"),
        (lambda request: [request.answer(body=messages_of(request, 33))], "33 messages instead"),
        (lambda request: [request.answer(body=messages_of(request, 32)[:-1])], "is no message"),
        (lambda request: [request.answer(body=b"x" * 4_000)], "is no message"),
        (lambda request: [request.answer()], "0 messages instead"),
        (lambda request: [request.answer(19)], "a request failed"),
        (
            lambda request: [
                request.answer(body=messages_of(Command(11, {"queueOffset": "1"}), 32))
            ],
            "of another offset",
        ),
    ],
)
def test_a_pull_that_brings_anything_else_ends_the_run(
    generators: Path, answer: Answer, text: str
) -> None:
    """Fewer messages, more, damaged ones, none, those of another place."""
    with fake_broker(answer) as port:
        frames = [pull_frame(0, 0)]
        done = generate(generators / "broker_load", port, load_words(1, 1, 9, 32), frames)
    assert done.returncode == 1
    assert text in done.stderr


HALF_ID = f"7F00000100002A9F{4_711:016X}"


def end_frame() -> bytes:
    fields = {
        "producerGroup": "P", "commitLogOffset": "@L", "msgId": "@K", "commitOrRollback": "8",
        "tranStateTableOffset": "@Q",
    }  # fmt: skip
    return encode_command(Command(37, fields, b"", 100_000_000))


def answer_half(request: Command) -> Command:
    assert request.ext is not None
    key = decode_properties(request.ext["i"].encode())["UNIQ_KEY"]
    place = {"msgId": HALF_ID, "queueId": request.ext["e"], "queueOffset": "12"}
    return request.answer(0, {**place, "transactionId": key})


def test_each_transaction_is_ended_once_by_what_its_half_message_was_told(
    generators: Path,
) -> None:
    """The end names the place and the key of its half message; then the next one follows."""
    halves: dict[str, str] = {}
    ends: list[dict[str, str]] = []

    def answer(request: Command) -> Sequence[Command]:
        assert request.ext is not None
        if request.code == 310:
            told = answer_half(request)
            assert told.ext is not None
            halves[told.ext["transactionId"]] = request.ext["e"]
            return [told]
        ends.append(dict(request.ext))
        return [request.answer()]

    with fake_broker(answer) as port:
        frames = [send_frame(0), end_frame(), send_frame(1), end_frame()]
        done = generate(generators / "broker_load", port, load_words(3, 4, 100, -1), frames)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["answered_in_all"] == 100
    assert len(halves) == 100
    assert [*halves.values()].count("0") == 50
    assert {end["msgId"] for end in ends} == set(halves)
    assert len(ends) == 100
    assert {(end["commitLogOffset"], end["tranStateTableOffset"]) for end in ends} == {
        ("4711", "12")
    }


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda request: [request.answer()], "a half message has no place"),
        (
            lambda request: [
                answer_half(request) if request.code == 310 else request.answer(1, remark="gone")
            ],
            "gone",
        ),
    ],
)
def test_a_transaction_that_fails_ends_the_run(generators: Path, answer: Answer, text: str) -> None:
    """Its half message without a place, or its end refused."""
    with fake_broker(answer) as port:
        frames = [send_frame(0), end_frame()]
        done = generate(generators / "broker_load", port, load_words(1, 1, 9, -1), frames)
    assert done.returncode == 1
    assert text in done.stderr


class OneQueue:
    """A broker with one queue: sends are kept, a long poll is answered when there is something."""

    def __init__(self, lost: int = -1) -> None:
        self._messages: list[bytes] = []
        self._lost = lost
        self._taken = 0

    def __call__(self, request: Command) -> Sequence[Command]:
        if request.code == 310:
            self._taken += 1
            if self._taken != self._lost:
                record = Record("T", bytes(request.body), queue_offset=len(self._messages))
                self._messages.append(encode_record(record))
            return [request.answer()]
        assert request.ext is not None
        found = self._messages[int(request.ext["queueOffset"]) :][:32]
        return [request.answer(0 if found else 19, body=b"".join(found))]


def test_the_latency_of_every_message_is_measured(generators: Path) -> None:
    """As many as were due in the measured time, at the rate that was asked for."""
    with fake_broker(OneQueue()) as port:
        frames = [send_frame(0, b"x" * 128), pull_frame(0, 0)]
        words = [500, 1, 0.1, 0.4, os.getpid()]
        done = generate(generators / "broker_latency", port, words, frames)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["answered"] == 200
    assert 0 < figures["p50_us"] <= figures["p99_us"]


@pytest.mark.slow
def test_a_message_that_does_not_come_ends_the_run(generators: Path) -> None:
    """It was acknowledged, and ten seconds later no poll has brought it."""
    with fake_broker(OneQueue(lost=20)) as port:
        frames = [send_frame(0, b"x" * 128), pull_frame(0, 0)]
        words = [500, 1, 0, 0.1, os.getpid()]
        done = generate(generators / "broker_latency", port, words, frames)
    assert done.returncode == 1
    assert "49 messages came; 50 were sent, 50 acknowledged, 0 refused" in done.stderr


def test_options_that_do_not_fit_are_refused() -> None:
    """A section of another part, and what only the broker has."""
    for words in (["store", "--only", "push"], ["codec", "--seconds", "1"], ["store", "--itself"]):
        done = run_bench(words, BENCH)
        assert done.returncode == 2, words
        assert "for" in done.stderr


def run_bench(words: Sequence[str], scratch: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT / "tests")}
    return subprocess.run(
        [sys.executable, "run.py", *words],
        cwd=BENCH, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
    )  # fmt: skip


@pytest.mark.peer
@pytest.mark.slow
def test_a_quick_look_at_the_broker_has_every_figure(tmp_path: Path) -> None:
    """Both brokers start, do all that is asked of them, and are compared."""
    try:
        fetch_jars(find_jdk(), "5.5.0")
    except PeerUnavailableError as unavailable:
        skip_or_fail(unavailable)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = run_bench(["broker", "--quick", "--keep", str(tmp_path / "kept")], scratch)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "kept" / "broker.json").read_text())
    assert result["java_version"] == "5.5.0"
    assert result["compiled"] in (True, False)
    figures = result["figures"]
    compared = [
        *(figures["pull"][f"pull of 32, {load}"] for load in ("1x1", "16x4")),
        *(figures["send"][f"send 128 B, {load}"] for load in ("1x1", "64x16")),
        *(figures["batch"][f"batch of 32, {load}"] for load in ("1x1", "16x4")),
        *(figures["flush"][f"SYNC_FLUSH, {load}"] for load in ("64x1", "64x16")),
        *(figures["queues"][f"{queues} queues, 64x16"] for queues in (8, 200)),
        figures["latency"]["end to end"],
        figures["timers"]["timer send, 16x1"],
        figures["transactions"]["transaction, 16x1"],
    ]
    for figure in compared:
        for server in ("roketto", "java"):
            assert figure[server]["messages_per_s"] > 0
            assert figure[server]["p99_us"] >= figure[server]["p50_us"] > 0
        assert figure["ratio"]["value"] > 0
    for section, name in (("start", "start"), ("push", "consumed")):
        for server in ("roketto", "java"):
            assert figures[section][f"{server}: {name}"]["value"] > 0
    for load in ("1x1", "64x16"):
        assert figures["once"][f"{load}: share of the rate without a window"]["value"] > 0
    assert figures["memory"]["roketto: resident under load, its own"]["value"] > 0
    for name in ("java", "roketto"):
        assert figures["admin"][f"{name}: progress of all groups (317)"]["value"] > 0
        assert figures["operator"][f"{name}: questions in a round"]["value"] > 0
    assert figures["operator"]["roketto: p99 with an operator, of that without"]["at_most"] == 1.2
    assert figures["stats"]["send without statistics"]["value"] > 0
    assert figures["stats"]["statistics, share of a send"]["at_most"] == 3.0
    for server in ("roketto", "java"):
        assert figures["pending"][f"{server}: late, p99"]["value"] >= 0
    assert [path.name for path in scratch.iterdir() if "ports" not in path.name] == []
