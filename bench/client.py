"""The client against Java's and against others in Python, in one run, at our broker and Java's."""

from collections.abc import Callable, Sequence
from typing import Final

from broker_servers import JAVA_HEAP_MB as BROKER_HEAP_MB
from client_consume import measure_consume
from client_java import JAVA_HEAP_MB
from client_others import measure_others
from client_rig import ClientRig
from client_send import measure_send
from client_sizes import QUICK, Sizes
from report import Report
from roketto.compiled import is_compiled

SECTIONS: Final[dict[str, Callable[[Report, ClientRig], None]]] = {
    "send": measure_send,
    "consume": measure_consume,
    "others": measure_others,
}


def measure_client(
    java_version: str, *, quick: bool, sections: Sequence[str] = ()
) -> dict[str, object]:
    """Print what each section finds, and return all of it."""
    report = Report()
    sizes = QUICK if quick else Sizes()
    compiled = is_compiled()
    print(f"\nclient against Java {java_version}'s, compiled: {compiled}", flush=True)
    with ClientRig(sizes, java_version) as rig:
        if not sections or "consume" in sections:
            rig.start_java_consumer()
        for name in sections or SECTIONS:
            SECTIONS[name](report, rig)
    return {
        "java_version": java_version,
        "java_heap_mb": {"broker": BROKER_HEAP_MB, "client": JAVA_HEAP_MB},
        "compiled": compiled,
        "rounds": sizes.rounds,
        "figures": report.result,
    }
