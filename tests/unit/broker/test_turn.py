"""A turn is over after so many messages, or so many bytes."""

from roketto.broker.turn import TURN_BYTES_MAX, TURN_MESSAGES_MAX, Turn


def test_a_turn_is_over_after_so_many_messages() -> None:
    turn = Turn()
    for _ in range(TURN_MESSAGES_MAX):
        assert not turn.is_over
        turn.take(1)
    assert turn.is_over


def test_a_turn_is_over_after_so_many_bytes() -> None:
    turn = Turn()
    turn.take(TURN_BYTES_MAX - 1)
    assert not turn.is_over
    turn.take(1)
    assert turn.is_over
