"""#9249: a delayed message whose delivery failed was passed by: the next try began behind it."""

from pathlib import Path

from roketto.protocol.record import Record
from roketto.store.put_status import PutRefusedError, PutStatus
from roketto.store.store import PutResult
from unit.broker.send_rig import SendRig
from unit.broker.test_delays import bodies, deliver, restart, send


def fail_every_second(rig: SendRig) -> list[Record]:
    """Let the store refuse every second copy; those that were tried."""
    kept = rig.delays._put
    tried: list[Record] = []

    def put(record: Record) -> PutResult:
        tried.append(record)
        if len(tried) % 2 == 0:
            raise PutRefusedError(PutStatus.SERVICE_NOT_AVAILABLE, "the disk is full")
        return kept(record)

    rig.delays._put = put
    return tried


def test_a_delivery_that_fails_is_tried_again_with_the_same_message(tmp_path: Path) -> None:
    """Every second one fails, and now and then the broker is killed: all come, in their order."""
    rig = SendRig(tmp_path / "store")
    rig.delays.start()
    count = 40
    for number in range(count):
        send(rig, 1, b"%d" % number)
    rig.pass_ms(1_000)
    failures = 0
    for _ in range(5):
        tried = fail_every_second(rig)
        for _ in range(7):
            rig.delays.step()
        failures += len(tried) // 2
        restart(rig)
    assert failures > count // 2
    deliver(rig)
    assert bodies(rig) == [b"%d" % number for number in range(count)]
    rig.close()
