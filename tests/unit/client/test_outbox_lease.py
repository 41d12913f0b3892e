"""One relay has the lease at a time, whatever the clocks of machines say."""

from roketto.client.outbox_lease import Lease, make_holder_name
from roketto.client.outbox_store import Holder


class Row:
    """The row of the lease, in memory."""

    def __init__(self) -> None:
        self.row = Holder("", 0)

    def holder(self) -> Holder:
        return self.row

    def hold(self, name: str, known: Holder) -> bool:
        if self.row != known:
            return False
        self.row = Holder(name, known.beat + 1)
        return True

    def renew(self, name: str) -> bool:
        return self.row.name == name and self.hold(name, self.row)

    def release(self, name: str) -> None:
        if self.row.name == name:
            self.row = Holder("", self.row.beat + 1)


class Clock:
    """Of one machine; that of another has nothing to do with it."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def test_who_renews_keeps_it_and_others_wait() -> None:
    row, clocks = Row(), (Clock(5_000.0), Clock(-70.0))
    one, two = (Lease(name, 10.0, clock) for name, clock in zip("ab", clocks, strict=True))
    assert one.step(row)
    for _ in range(20):
        for clock in clocks:
            clock.now_s += 3.0
        assert one.step(row)
        assert not two.step(row)


def test_who_falls_silent_has_lost_it_before_another_takes_it() -> None:
    row, clocks = Row(), (Clock(5_000.0), Clock(-70.0))
    one, two = (Lease(name, 10.0, clock) for name, clock in zip("ab", clocks, strict=True))
    assert one.step(row)
    waited_s = 0.0
    while not two.step(row):
        assert waited_s < 15
        for clock in clocks:
            clock.now_s += 0.5
        waited_s += 0.5
    assert waited_s > 10
    assert not one.is_held
    assert not one.step(row), "it comes back and sees that it is no longer its own"
    assert two.is_held


def test_who_stops_gives_it_away_at_once() -> None:
    row, clock = Row(), Clock(0.0)
    one, two, three = (Lease(name, 10.0, clock) for name in "abc")
    assert one.step(row)
    assert not two.step(row)
    one.release(row)
    assert not one.is_held
    assert two.step(row)
    assert not three.step(row)
    three.release(row)
    assert two.step(row), "who does not have it cannot give it away"


def test_of_two_who_see_it_free_one_gets_it() -> None:
    row, clock = Row(), Clock(0.0)
    seen = row.holder()
    assert row.hold("a", seen)
    assert not row.hold("b", seen)
    assert not Lease("b", 10.0, clock).step(row)
    assert make_holder_name("10.0.0.1") != make_holder_name("10.0.0.1")
