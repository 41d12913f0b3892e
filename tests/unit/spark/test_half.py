"""Half messages of a sink: their requests, where they are, and the list of them in a decision."""

import random

import pytest

from roketto.client.errors import UnreadableError
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.command import Command
from roketto.protocol.ids import encode_offset_id
from roketto.protocol.properties import decode_properties
from roketto.spark.half import HalfDecision, HalfOutlet, half_marks, merge_halves
from roketto.spark.rows import Single
from roketto.spark.sink_options import SinkError
from roketto.spark.written import Half

QUEUE = MessageQueue("broker-a", 3, "Orders")
ROW = Single("Orders", None, 5, b"body", half_marks("spark") + "UNIQ_KEY\x01ID\x02", "ID")


def test_a_half_message_says_that_it_is_one_in_properties_and_flag() -> None:
    command = HalfOutlet("spark").command(ROW, QUEUE, "broker-a")
    assert command.ext is not None
    assert (command.ext["f"], command.ext["e"], command.ext["h"]) == ("4", "3", "5")
    said = decode_properties(command.ext["i"].encode())
    assert (said["TRAN_MSG"], said["PGROUP"], said["UNIQ_KEY"]) == ("true", "spark", "ID")
    assert int(said["CHECK_IMMUNITY_TIME_IN_SECONDS"]) >= 3_600


def test_an_answer_says_where_the_half_message_is() -> None:
    place = encode_offset_id(bytes([10, 0, 0, 5, 0, 0, 0x2A, 0x9F]), 4_711)
    answer = Command(0, {"queueOffset": "12", "msgId": place, "queueId": "3"})
    outlet = HalfOutlet("spark")
    found = outlet.read(ROW, QUEUE, "10.0.0.5:10911", answer)
    assert found == Half("broker-a", "Orders", 3, 12, 4_711, "ID")
    with pytest.raises(UnreadableError, match="where is the half message"):
        outlet.read(ROW, QUEUE, "10.0.0.5:10911", Command(0, {"queueOffset": "12"}))


def test_a_decision_reads_back_with_each_queue_in_order() -> None:
    tasks = [[Half("a", "T", 0, 5, 500, "x"), Half("a", "T", 1, 6, 600, "y")],
             [Half("a", "T", 0, 2, 200, "z")]]  # fmt: skip
    decision = HalfDecision(7, "query", merge_halves(tasks))
    read = HalfDecision.decode("T", decision.encode())
    assert read == decision
    assert read.halves["a"]["T"]["0"] == [[5, 500, "x"], [2, 200, "z"]]


def test_a_message_that_is_no_decision_is_told_with_its_topic() -> None:
    with pytest.raises(SinkError, match="last message of topic Sink is no decision"):
        HalfDecision.decode("Sink", b"hello")


def test_a_batch_of_too_many_rows_is_refused_with_the_option_that_helps() -> None:
    chance = random.Random(5)
    halves = [
        Half("a", "T", 0, number, chance.getrandbits(60), chance.randbytes(24).hex())
        for number in range(140_000)
    ]
    with pytest.raises(SinkError, match="maxOffsetsPerTrigger"):
        HalfDecision(7, "query", merge_halves([halves])).encode()
