"""Seen on 5.5.0 (and #3473, #6984): delayed messages are delivered again after every kill.

Progress is saved every ten seconds there: 2,459 extra copies of 1,657 messages in 20 kills.
"""

from pathlib import Path

from fault.broker.test_delays import run_delays


async def test_kills_in_the_middle_of_delivery_bring_no_second_copy(tmp_path: Path) -> None:
    """Five kills, of which most come between two saves."""
    report = await run_delays(tmp_path, 1_000, 5)
    assert report.counts["duplicate"] == 0
    assert report.read == 1_000
