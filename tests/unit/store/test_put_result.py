"""What a put tells: where messages end in the log, and the ids that follow from where they are."""

from roketto.protocol.hosts import encode_host
from roketto.protocol.ids import encode_offset_id
from roketto.store.put_result import BatchResult, PutResult

HOST = encode_host("10.0.0.1", 10911)


def test_a_message_ends_where_its_bytes_do() -> None:
    """And its id says where it begins."""
    result = PutResult(7, 1_000, 200, 5, HOST)
    assert result.end == 1_200
    assert result.message_id == encode_offset_id(HOST, 1_000)


def test_messages_of_a_batch_lie_one_behind_the_other() -> None:
    """Each has an id of its own, in order."""
    result = BatchResult(7, 1_000, [200, 300, 50], 5, HOST)
    assert result.end == 1_550
    ids = [encode_offset_id(HOST, at) for at in (1_000, 1_200, 1_500)]
    assert result.message_ids == ids
    assert result.joined_message_ids == ",".join(ids)
