"""Rows to messages: encoded rows read back as batches, in the queues that Java would choose."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from roketto.client.selectors import hash_of_key
from roketto.protocol.batch import decode_batch
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.properties import decode_properties
from roketto.spark.row_ids import RepeatedIds
from roketto.spark.row_schema import SinkSchema
from roketto.spark.rows import Part, RowEncoder, Single
from roketto.spark.sink_options import SinkError
from unit.spark.sink_types import struct

TEXTS = pa.map_(pa.string(), pa.string())
QUEUES = [MessageQueue(broker, number, "Orders") for broker in ("a", "b") for number in range(4)]


def encoder(topic: str | None = "Orders", *, kinds: dict[str, str], **more: Any) -> RowEncoder:
    schema = SinkSchema(struct(**kinds), topic)
    return RowEncoder(schema, RepeatedIds("s", 1, 0), lambda _: QUEUES, topic=topic, **more)


def read(part: Part) -> list[tuple[bytes, dict[str, str], int]]:
    data = b"".join(part.items.to_pylist())
    return [
        (bytes(item.body), decode_properties(item.properties_raw), item.flag)
        for item in decode_batch(data)
    ]


def test_rows_become_items_of_a_batch_with_all_their_properties() -> None:
    kinds = {
        "keys": "string", "tags": "string", "body": "string", "flag": "int",
        "properties": "map<string,string>",
    }  # fmt: skip
    batch = pa.record_batch(
        {
            "keys": pa.array(["k1", None, ""]),
            "tags": pa.array(["a", "b", None]),
            "body": pa.array(["one", "zwölf", "3"]),
            "flag": pa.array([7, None, -1], pa.int32()),
            "properties": pa.array([[("x", "1"), ("ü", "2")], None, []], TEXTS),
        }
    )
    rows = encoder(kinds=kinds)
    (part,), singles = rows.encode(batch)
    assert (part.topic, part.queue, singles) == ("Orders", None, [])
    ids = RepeatedIds("s", 1, 0).prefix
    assert read(part) == [
        (
            b"one",
            {"UNIQ_KEY": f"{ids}{0:012X}", "TAGS": "a", "KEYS": "k1", "x": "1", "ü": "2"},
            7,
        ),
        ("zwölf".encode(), {"UNIQ_KEY": f"{ids}{1:012X}", "TAGS": "b"}, 0),
        (b"3", {"UNIQ_KEY": f"{ids}{2:012X}"}, -1),
    ]
    rows.encode(batch.slice(1, 2))
    assert rows.row_count == 5


def test_a_slice_of_an_arrow_batch_is_encoded_as_what_it_shows() -> None:
    kinds = {"keys": "string", "body": "binary", "properties": "map<string,string>"}
    batch = pa.record_batch(
        {
            "keys": pa.array([f"k{number}" for number in range(9)]),
            "body": pa.array([b"%d" % number for number in range(9)]),
            "properties": pa.array([[("n", str(number))] for number in range(9)], TEXTS),
        }
    )
    (part,), _ = encoder(kinds=kinds).encode(batch.slice(4, 3))
    found = [(body, said["KEYS"], said["n"]) for body, said, _ in read(part)]
    assert found == [(b"4", "k4", "4"), (b"5", "k5", "5"), (b"6", "k6", "6")]


@pytest.mark.parametrize("keys", [[f"order-{n}" for n in range(500)], ["ключ", "x" * 300, "", "y"]])
def test_rows_of_a_sharding_key_go_where_the_client_sends_them_in_order(keys: list[str]) -> None:
    batch = pa.record_batch(
        {"shardingKey": pa.array(keys), "body": pa.array([b"%d" % n for n in range(len(keys))])}
    )
    parts, _ = encoder(kinds={"shardingKey": "string", "body": "binary"}).encode(batch)
    found = 0
    for part in parts:
        rows = [int(body) for body, _, _ in read(part)]
        found += len(rows)
        assert rows == sorted(rows)
        for row in rows:
            key = keys[row]
            assert part.queue == (QUEUES[hash_of_key(key, len(QUEUES))] if key else None)
    assert found == len(keys)


def test_topics_and_queue_ids_of_columns_count_and_brokers_take_turns() -> None:
    kinds = {"topic": "string", "queueId": "int", "body": "binary"}
    batch = pa.record_batch(
        {
            "topic": pa.array(["Orders", "Bills", "Orders"]),
            "queueId": pa.array([3, None, 3], pa.int32()),
            "body": pa.array([b"1", b"2", b"3"]),
        }
    )
    rows = encoder(None, kinds=kinds)
    first, _ = rows.encode(batch)
    places = {(part.topic, part.queue): [body for body, _, _ in read(part)] for part in first}
    assert places == {("Orders", QUEUES[3]): [b"1", b"3"], ("Bills", None): [b"2"]}
    second, _ = rows.encode(batch)
    assert ("Orders", QUEUES[7]) in {(part.topic, part.queue) for part in second}


def test_delayed_rows_go_alone_and_others_together() -> None:
    kinds = {"body": "binary", "delayLevel": "int", "deliverTimestamp": "timestamp"}
    when = datetime(2030, 1, 1, tzinfo=UTC)
    batch = pa.record_batch(
        {
            "body": pa.array([b"1", b"2", b"3", b"4"]),
            "delayLevel": pa.array([None, 3, 0, None], pa.int32()),
            "deliverTimestamp": pa.array([None, None, None, when], pa.timestamp("us", "UTC")),
        }
    )
    (part,), singles = encoder(kinds=kinds).encode(batch)
    assert [body for body, _, _ in read(part)] == [b"1", b"3"]
    said = [decode_properties(one.properties.encode()) for one in singles]
    assert [one.body for one in singles] == [b"2", b"4"]
    assert said[0]["DELAY"] == "3"
    assert said[1]["TIMER_DELIVER_MS"] == str(int(when.timestamp() * 1000))
    assert said[0]["UNIQ_KEY"] == singles[0].message_id
    with pytest.raises(SinkError, match="2 rows of 4 have delayLevel"):
        encoder(kinds=kinds, allows_delays=False).encode(batch)


def test_half_messages_go_one_by_one_with_their_marks() -> None:
    batch = pa.record_batch({"body": pa.array([b"1", b"2"])})
    rows = encoder(kinds={"body": "binary"}, marks="TRAN_MSG\x01true\x02", is_alone=True)
    parts, singles = rows.encode(batch)
    assert not parts
    assert [type(one) for one in singles] == [Single, Single]
    assert decode_properties(singles[1].properties.encode()) == {
        "TRAN_MSG": "true", "UNIQ_KEY": singles[1].message_id,
    }  # fmt: skip


BAD = [
    ({"body": pa.array([b"x", None])}, {"body": "binary"}, "body is null in 1 rows of 2"),
    ({"body": pa.array([b"x", b""])}, {"body": "binary"}, "body has 0 bytes in row 1"),
    (
        {"body": pa.array([b"x" * (4 * 1024 * 1024 + 1)])}, {"body": "binary"},
        "takes 1 to 4194304",
    ),
    (
        {"body": pa.array([b"x"]), "keys": pa.array(["a\x01b"])},
        {"body": "binary", "keys": "string"}, "column keys has a character 0x01",
    ),
    (
        {"body": pa.array([b"x"]), "properties": pa.array([[("TAGS", "a")]], TEXTS)},
        {"body": "binary", "properties": "map<string,string>"}, "property TAGS is the client's own",
    ),
    (
        {"body": pa.array([b"x"]), "properties": pa.array([[("a", None)]], TEXTS)},
        {"body": "binary", "properties": "map<string,string>"}, "empty or null value",
    ),
    (
        {"body": pa.array([b"x"]), "keys": pa.array(["k" * 40_000])},
        {"body": "binary", "keys": "string"}, "a message takes 32767",
    ),
    (
        {"body": pa.array([b"x"]), "queueId": pa.array([9], pa.int32())},
        {"body": "binary", "queueId": "int"}, "has the queues 0 to 3",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "kinds", "said"), BAD, ids=[case[2] for case in BAD])
def test_a_row_that_is_no_message_is_named_with_the_remedy(
    columns: dict[str, Any], kinds: dict[str, str], said: str
) -> None:
    with pytest.raises(SinkError) as caught:
        encoder(kinds=kinds).encode(pa.record_batch(columns))
    assert said in str(caught.value)


def test_a_row_without_topic_is_refused_unless_an_option_names_one() -> None:
    columns = {"body": pa.array([b"x"]), "topic": pa.array([None], pa.string())}
    kinds = {"body": "binary", "topic": "string"}
    with pytest.raises(SinkError, match="1 rows of 1 have no topic"):
        encoder(None, kinds=kinds).encode(pa.record_batch(columns))
    (part,), _ = encoder("Orders", kinds=kinds).encode(pa.record_batch(columns))
    assert part.topic == "Orders"
