"""Each frame is shown to the lane that may know it, and to no other."""

from pathlib import Path

from roketto.broker.lanes import Lanes
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from unit.broker.pull_rig import PullRig
from unit.broker.send_rig import SendRig
from unit.broker.test_batch_lane import frame_of as batch_frame
from unit.broker.test_pull_lane import FIELDS as PULL
from unit.broker.test_pull_lane import frame_of as pull_frame
from unit.broker.test_send_lane import FIELDS as SEND
from unit.broker.test_send_lane import frame_of as send_frame


def ask(lanes: Lanes, rig: SendRig | PullRig, frame: memoryview) -> bool:
    return lanes.answer(rig.connection.as_connection, bytes(frame), 0, len(frame))


def test_a_send_goes_to_the_lane_of_sends(tmp_path: Path) -> None:
    """It is stored and answered, as soon as its kind is known."""
    rig = SendRig(tmp_path / "store")
    rig.context.topics.target("T", "TBW102", 4, False)
    lanes = Lanes(rig.context)
    assert [ask(lanes, rig, send_frame(dict(SEND))) for _ in range(2)] == [False, True]
    assert rig.connection.written
    assert rig.store.queue("T", 1) is not None
    rig.close()


def test_a_batch_goes_to_the_lane_of_batches(tmp_path: Path) -> None:
    """The same for all of its messages."""
    rig = SendRig(tmp_path / "store")
    rig.context.topics.target("T", "TBW102", 4, False)
    lanes = Lanes(rig.context)
    assert [ask(lanes, rig, batch_frame({})) for _ in range(2)] == [False, True]
    assert rig.context.stats.put.count == 3
    rig.close()


def test_a_pull_goes_to_the_lane_of_pulls(tmp_path: Path) -> None:
    """It is answered once its kind is known, and whatever else begins like one is not."""
    rig = PullRig(tmp_path / "store")
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G"))
    rig.send()
    lanes = Lanes(rig.context)
    assert not ask(lanes, rig, pull_frame(dict(PULL), code=105))
    assert not ask(lanes, rig, memoryview(b'\0\0\0\x08{"code":'))
    assert rig.connection.written == b""
    assert [ask(lanes, rig, pull_frame(dict(PULL))) for _ in range(2)] == [False, True]
    assert rig.connection.written
    rig.close()
