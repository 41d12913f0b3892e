"""A name server is told what it lacks, at once or when it is time, and never skips a version."""

from roketto.broker.registrar_agenda import Agenda, Deed, Work

WHOLE = Work(Deed.WHOLE)
QUESTION = Work(Deed.QUESTION)
PERIOD_S = 30.0


def changed(*topics: str) -> Work:
    return Work(Deed.CHANGED, topics)


def take(agenda: Agenda, now_s: float = 0.0, *, is_forced: bool = True) -> Work | None:
    return agenda.take(now_s, is_forced=is_forced)


def known(now_s: float = 0.0) -> Agenda:
    agenda = Agenda(now_s)
    assert take(agenda, now_s) == WHOLE
    agenda.succeed(WHOLE, now_s, PERIOD_S)
    return agenda


def test_the_first_thing_told_is_everything() -> None:
    agenda = Agenda(5.0)
    agenda.announce("T")
    assert take(agenda, 5.0) == WHOLE
    agenda.succeed(WHOLE, 5.0, PERIOD_S)
    assert take(agenda, 5.0) is None


def test_everything_is_told_again_every_period() -> None:
    agenda = known()
    assert take(agenda, 29.9) is None
    assert take(agenda, 30.0) == WHOLE


def test_without_force_the_version_is_asked_for() -> None:
    agenda = known()
    assert take(agenda, 30.0, is_forced=False) == QUESTION
    agenda.succeed(QUESTION, 30.0, PERIOD_S)
    assert agenda.due_s == 60.0


def test_changes_of_one_turn_are_told_together_and_once() -> None:
    agenda = known()
    for topic in ("A", "B", "A"):
        agenda.announce(topic)
    assert take(agenda, 1.0) == changed("A", "B")
    agenda.succeed(changed("A", "B"), 1.0, PERIOD_S)
    assert take(agenda, 1.0) is None


def test_a_change_does_not_put_off_the_period() -> None:
    agenda = known()
    agenda.announce("A")
    agenda.succeed(changed("A"), 20.0, PERIOD_S)
    assert agenda.due_s == 30.0


def test_a_topic_that_is_gone_makes_everything_due() -> None:
    agenda = known()
    agenda.announce("A")
    agenda.announce(None)
    agenda.announce("B")
    assert take(agenda, 1.0) == WHOLE
    agenda.succeed(WHOLE, 1.0, PERIOD_S)
    assert take(agenda, 1.0) is None


def test_what_is_announced_meanwhile_comes_next() -> None:
    agenda = known()
    agenda.announce("A")
    work = take(agenda, 1.0)
    agenda.announce("B")
    assert work is not None
    agenda.succeed(work, 2.0, PERIOD_S)
    assert take(agenda, 2.0) == changed("B")


def test_a_question_forgets_no_change() -> None:
    agenda = known()
    assert take(agenda, 30.0, is_forced=False) == QUESTION
    agenda.announce("A")
    agenda.succeed(QUESTION, 30.0, PERIOD_S)
    assert take(agenda, 30.0) == changed("A")


def test_after_a_failure_everything_is_told_and_not_a_part() -> None:
    agenda = known()
    agenda.announce("A")
    take(agenda, 1.0)
    agenda.fail(1.0)
    agenda.announce("B")
    assert take(agenda, 1.5) is None
    assert take(agenda, 2.0) == WHOLE


def test_failures_are_retried_ever_later_up_to_five_seconds() -> None:
    agenda, now_s, delays = Agenda(0.0), 0.0, []
    for _ in range(5):
        assert take(agenda, now_s) == WHOLE
        agenda.fail(now_s)
        delays.append(agenda.due_s - now_s)
        now_s = agenda.due_s
    assert delays == [1, 2, 4, 5, 5]
    take(agenda, now_s)
    agenda.succeed(WHOLE, now_s, PERIOD_S)
    agenda.fail(now_s)
    assert agenda.due_s == now_s + 1


def test_refusals_are_retried_ever_later_up_to_the_period() -> None:
    agenda, now_s, delays = Agenda(0.0), 0.0, []
    for _ in range(7):
        assert take(agenda, now_s) == WHOLE
        agenda.refuse(now_s, PERIOD_S)
        delays.append(agenda.due_s - now_s)
        now_s = agenda.due_s
    assert delays == [1, 2, 4, 8, 16, 30, 30]


def test_a_refused_part_is_followed_by_everything_at_once() -> None:
    agenda = known()
    agenda.announce("A")
    work = take(agenda, 1.0)
    assert work == changed("A")
    agenda.retry(1.0)
    assert take(agenda, 1.0) == WHOLE


def test_a_lost_connection_is_made_again_at_once_but_not_in_a_circle() -> None:
    agenda = known(10.0)
    agenda.lose(25.0)
    assert not agenda.is_known
    assert take(agenda, 25.0) == WHOLE
    agenda.succeed(WHOLE, 25.1, PERIOD_S)
    agenda.lose(25.2)
    assert take(agenda, 25.9) is None
    assert take(agenda, 26.0) == WHOLE


def test_losing_what_never_knew_us_changes_nothing() -> None:
    agenda = Agenda(0.0)
    take(agenda, 0.0)
    agenda.fail(0.0)
    agenda.lose(0.1)
    assert agenda.due_s == 1.0
