"""Of a batch for a topic that takes each message once, only what is new is stored."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.properties import encode_properties
from roketto.store.put_status import PutRefusedError
from unit.broker.dedup_rig import DedupRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[DedupRig]:
    rig = DedupRig(tmp_path / "store")
    yield rig
    rig.close()


def send_batch(rig: DedupRig, numbers: str, queue: str = "1") -> dict[str, str]:
    """Send messages with these ids, one letter each; what is answered."""
    items = [
        BatchItem(number.encode(), encode_properties({} if number == "-" else {"UNIQ_KEY": number}))
        for number in numbers
    ]
    answer = rig.send(
        body=encode_batch(items), properties={"UNIQ_KEY": "batch"}, m="true", e=queue,
        code=RequestCode.SEND_BATCH_MESSAGE,
    )  # fmt: skip
    assert isinstance(answer, Command)
    assert answer.code == 0
    assert answer.ext is not None
    return answer.ext


def bodies(rig: DedupRig, queue_id: int = 1) -> str:
    return "".join(bytes(record.body).decode() for record in rig.records(queue_id=queue_id))


def test_a_batch_that_comes_again_is_answered_as_before(rig: DedupRig) -> None:
    """Ids, queue and offset of the first, also after a kill and for another queue."""
    send_batch(rig, "x")
    first = send_batch(rig, "abc")
    assert send_batch(rig, "abc", queue="2") == first
    rig.kill()
    assert send_batch(rig, "abc", queue="3") == first
    assert (bodies(rig), rig.count()) == ("xabc", 4)
    assert first["queueOffset"] == "1"
    assert first["transactionId"] == "batch"
    ids = [record.offset_id for record in rig.records()]
    assert first["msgId"] == ",".join(ids[1:])


def test_what_is_new_of_a_batch_is_stored(rig: DedupRig) -> None:
    """The ids of all are told in their order; the place is that of the first message."""
    first = send_batch(rig, "ad", queue="0")
    mixed = send_batch(rig, "abcd")
    assert (bodies(rig, 0), bodies(rig, 1)) == ("ad", "bc")
    told = mixed["msgId"].split(",")
    assert [told[0], told[3]] == first["msgId"].split(",")
    assert told[1:3] == [record.offset_id for record in rig.records()]
    assert (mixed["queueId"], mixed["queueOffset"]) == ("0", "0")
    later = send_batch(rig, "ea")
    assert (later["queueId"], later["queueOffset"]) == ("1", "2")
    assert bodies(rig) == "bce"
    assert rig.duplicates == 3


def test_messages_of_one_batch_and_those_without_ids_are_all_stored(rig: DedupRig) -> None:
    """The producer has put them there side by side."""
    send_batch(rig, "aa--")
    assert bodies(rig) == "aa--"
    send_batch(rig, "a-")
    assert bodies(rig) == "aa---"


def test_a_batch_and_a_single_message_have_the_same_ids(rig: DedupRig) -> None:
    """A producer may try again in another way."""
    send_batch(rig, "ab")
    rig.send(properties={"UNIQ_KEY": "a"})
    rig.send(properties={"UNIQ_KEY": "c"})
    send_batch(rig, "bc")
    assert rig.count() == 3


@pytest.mark.parametrize("body", [b"", b"no batch", encode_batch([BatchItem(b"a")])[:-1]])
def test_what_is_no_batch_is_refused_as_everywhere(rig: DedupRig, body: bytes) -> None:
    """By the store, with nothing written."""
    with pytest.raises(PutRefusedError):
        rig.handle(rig.request(body=body, m="true", code=RequestCode.SEND_BATCH_MESSAGE))
    assert rig.count() == 0
