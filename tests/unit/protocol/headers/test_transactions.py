"""Proves that the headers of transactions are the peer's."""

from roketto.protocol.headers import transactions
from roketto.protocol.headers.base import Header, decode_header
from unit.protocol.headers.peer import check_ext, check_fields, check_fields_of_4, check_fresh

FAMILY = transactions


def test_fields_are_those_of_the_peer(header_class: type[Header]) -> None:
    check_fields(header_class)
    check_fields_of_4(header_class)


def test_ext_fields_travel_as_the_peer_writes_them(header_class: type[Header]) -> None:
    check_ext(header_class)
    check_fresh(header_class)


def test_the_end_of_a_transaction_names_both_places_of_the_half_message() -> None:
    ext = {
        "producerGroup": "p",
        "tranStateTableOffset": "4",
        "commitLogOffset": "4096",
        "commitOrRollback": "8",
        "msgId": "m",
    }
    request = decode_header(transactions.EndTransactionRequest, ext)
    assert (request.half_queue_offset, request.log_offset) == (4, 4096)
    assert request.from_transaction_check is False
    assert request.topic is None
