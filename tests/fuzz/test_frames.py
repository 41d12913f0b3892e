"""Damaged frames in process: a value or a documented error, nothing else, and no memory kept."""

import resource

import pytest

from fuzz.decoding import decode_stream
from fuzz.mutation import Mutator
from interop.peer import VERSIONS
from interop.peer.golden import read_golden
from roketto.protocol.errors import ProtocolError

FRAMES_PER_SEED = 50_000
MEMORY_GROWTH_KB_MAX = 64 * 1024
"""Far above one frame's worth, far below what fifty thousand kept frames would take."""


def corpus() -> list[bytes]:
    """Every frame that was captured from the Java peer."""
    return [golden.frame for version in VERSIONS for golden in read_golden(version)]


def run(seed: int, count: int) -> tuple[int, int]:
    """Decode ``count`` damaged frames; return how many were sound and how many refused."""
    mutator = Mutator(corpus(), seed)
    sound = refused = 0
    for number in range(count):
        frame = mutator.next()
        try:
            sound += decode_stream(frame)
        except ProtocolError:
            refused += 1
        except BaseException as error:
            error.add_note(f"seed {seed}, frame {number}: {frame.hex()}")
            raise
    return sound, refused


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_damaged_frames_give_values_or_documented_errors(seed: int) -> None:
    """4 x 50,000 mutated frames, all the way through headers and bodies."""
    run(seed, 1_000)  # lazily built decoders are not growth
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sound, refused = run(seed, FRAMES_PER_SEED)
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    assert sound > FRAMES_PER_SEED // 10, "the mutations are too harsh to test the deeper codecs"
    assert refused > FRAMES_PER_SEED // 10, "the mutations are too soft to test the framing"
    assert grown_kb < MEMORY_GROWTH_KB_MAX
    print(f"seed {seed}: {FRAMES_PER_SEED} frames, {sound} values, {refused} refused")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_more_damaged_frames(seed: int) -> None:
    """The long tier: forty more seeds of the same."""
    run(seed, 10 * FRAMES_PER_SEED)


def test_equal_seeds_give_equal_frames() -> None:
    """A failing seed can be replayed."""
    first, second = Mutator(corpus(), 7), Mutator(corpus(), 7)
    assert [first.next() for _ in range(200)] == [second.next() for _ in range(200)]
