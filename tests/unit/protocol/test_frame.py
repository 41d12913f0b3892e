"""Framing: every way bytes can be cut gives the same frames, every lie about lengths is refused."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.errors import FrameError, FrameTooLargeError
from roketto.protocol.frame import FrameDecoder, frame_prefix, split_frame, whole_frame
from roketto.protocol.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX


def make_frame(header: bytes = b"{}", body: bytes = b"", serialization: int = 0) -> bytes:
    return frame_prefix(serialization, len(header), len(body)) + header + body


frames = st.builds(
    make_frame, st.binary(max_size=40), st.binary(max_size=40), st.sampled_from([0, 1])
)


@given(st.lists(frames, max_size=6), st.data())
def test_frames_do_not_depend_on_how_the_stream_is_cut(
    sent: list[bytes], data: st.DataObject
) -> None:
    """However TCP delivers the bytes, the same frames come out and nothing is left."""
    stream = b"".join(sent)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8).map(sorted))
    decoder = FrameDecoder()
    received = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += [bytes(frame) for frame in decoder.feed(stream[start:end])]
    assert received == [frame[4:] for frame in sent]
    assert decoder.pending_bytes == 0


def test_byte_by_byte_delivery_holds_only_the_bytes_of_the_frame() -> None:
    """A drip of single bytes costs the frame's size, not an object per byte."""
    frame = make_frame(b"h" * 100, b"b" * 1000)
    decoder = FrameDecoder()
    for at, byte in enumerate(frame[:-1]):
        assert decoder.feed(bytes([byte])) == []
        assert decoder.pending_bytes == at + 1
    assert [bytes(got) for got in decoder.feed(frame[-1:])] == [frame[4:]]
    assert decoder.pending_bytes == 0


def test_a_complete_frame_is_a_view_of_the_bytes_received() -> None:
    """Nothing is copied when a read holds whole frames."""
    received = make_frame(body=b"x" * 50) * 2
    assert all(frame.obj is received for frame in FrameDecoder().feed(received))


def test_the_tail_of_a_read_waits_for_its_rest() -> None:
    """A read with one and a half frames gives one, and the other with the next read."""
    frame = make_frame(body=b"body")
    decoder = FrameDecoder()
    assert len(decoder.feed(frame + frame[:3])) == 1
    assert decoder.pending_bytes == 3
    assert [bytes(got) for got in decoder.feed(frame[3:] + frame)] == [frame[4:], frame[4:]]


@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_length_without_room_for_the_header_length_is_refused(length: int) -> None:
    """The four bytes of serialisation and header length are part of every frame."""
    with pytest.raises(FrameError, match=f"length {length} leaves no room"):
        FrameDecoder().feed(struct.pack(">I", length))


@pytest.mark.parametrize("length", [FRAME_BYTES_MAX - 3, 2**31 - 1, 2**31, 2**32 - 1])
def test_an_oversized_length_is_refused_before_anything_is_kept(length: int) -> None:
    """The limit counts the length field; negative lengths of Java are large ones here."""
    decoder = FrameDecoder()
    with pytest.raises(FrameTooLargeError, match="exceeds the limit of 16777216"):
        decoder.feed(struct.pack(">I", length))
    assert decoder.pending_bytes == 0


def test_the_largest_frame_is_accepted() -> None:
    """Exactly 16 MiB with the length field passes, as it does in Java."""
    frame = make_frame(b"", bytes(FRAME_BYTES_MAX - 8))
    assert len(frame) == FRAME_BYTES_MAX
    assert [len(got) for got in FrameDecoder().feed(frame)] == [FRAME_BYTES_MAX - 4]


def test_frames_before_a_bad_length_do_not_hide_it() -> None:
    """A good frame in front of a bad one does not save the connection."""
    with pytest.raises(FrameError):
        FrameDecoder().feed(make_frame() + bytes(4))


@given(st.binary(max_size=60), st.binary(max_size=60), st.sampled_from([0, 1]))
def test_split_returns_what_the_prefix_was_made_from(header: bytes, body: bytes, kind: int) -> None:
    """split_frame undoes frame_prefix."""
    frame = memoryview(make_frame(header, body, kind))[4:]
    serialization, got_header, got_body = split_frame(frame)
    assert (serialization, bytes(got_header), bytes(got_body)) == (kind, header, body)


def test_a_header_longer_than_its_frame_is_refused() -> None:
    """The 24-bit header length is checked against the bytes that are there."""
    with pytest.raises(FrameError, match="header of 9 bytes exceeds its frame of 12 bytes"):
        split_frame(memoryview(struct.pack(">I", 9) + bytes(8)))


def test_an_unknown_serialisation_is_refused() -> None:
    """Types other than 0 and 1 do not exist."""
    with pytest.raises(FrameError, match="unknown serialisation type 2"):
        split_frame(memoryview(struct.pack(">I", 2 << 24)))


def test_a_frame_too_short_for_a_header_length_is_refused() -> None:
    """split_frame does not rely on its caller for the minimum."""
    with pytest.raises(FrameError, match="frame of 3 bytes has no header length"):
        split_frame(memoryview(b"abc"))


def test_a_header_that_does_not_fit_24_bits_is_not_written() -> None:
    """Rather an error here than a frame that reads as something else there."""
    assert frame_prefix(0, HEADER_BYTES_MAX, 0)[5:] == b"\xff\xff\xff"
    with pytest.raises(FrameError, match="exceeds the limit of 16777215"):
        frame_prefix(0, HEADER_BYTES_MAX + 1, 0)


@given(frames)
def test_a_frame_can_be_made_whole_again(sent: bytes) -> None:
    """The length field that the decoder takes off comes back."""
    [frame] = FrameDecoder().feed(sent)
    assert whole_frame(frame) == sent
