"""Java consumers that want some messages only: by tags, and by SQL92 over properties."""

import pytest

from interop.broker.clients import Clients
from interop.peer import ClientError

TAGS = ["TagA", "TagB", "TagC", "Aa", "BB", "标签", ""]
"""The fourth and the fifth have the same hash, which is all that a broker compares."""


def send_tagged(clients: Clients, topic: str) -> None:
    asked = [{"body": f"{tag} {n}", "tags": tag} for n in range(4) for tag in TAGS]
    clients.send(topic, asked)


@pytest.mark.parametrize(
    ("name", "expression", "wanted"),
    [
        ("One", "TagA", ["TagA"]),
        ("Many", "TagA || TagC||标签", ["TagA", "TagC", "标签"]),
        ("Collision", "Aa", ["Aa"]),
        ("All", "*", TAGS),
    ],
)
def test_tags_choose_messages(
    clients: Clients, name: str, expression: str, wanted: list[str]
) -> None:
    """Exactly the messages of these tags, also where another tag has the same hash."""
    topic = f"Tags{name}"
    send_tagged(clients, topic)
    clients.send(topic, [{"body": "end", "tags": wanted[0], "hash": "x"}], "selector")
    with clients.push(topic, topic, tags=expression) as consumer:
        consumer.received(4 * len(wanted) + 1)
        bodies = sorted(one.body for one in consumer.stop())
    assert bodies == sorted([*(f"{tag} {n}" for n in range(4) for tag in wanted), "end"])


PRODUCTS = [
    {"body": f"product {n}", "tags": f"T{n % 3}",
     "properties": {"price": str(n * 5), "region": ["Hangzhou", "北京", "Berlin"][n % 3],
                    **({"rare": "yes"} if n % 7 == 0 else {})}}
    for n in range(24)
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expression", "wanted"),
    [
        ("Number", "price > 50 AND price <= 80", {11, 12, 13, 14, 15, 16}),
        ("Text", "region = '北京'", set(range(1, 24, 3))),
        ("Between", "price BETWEEN 10 AND 20 OR rare IS NOT NULL", {0, 2, 3, 4, 7, 14, 21}),
        ("In", "region IN ('Berlin', 'Paris') AND price < 60", {2, 5, 8, 11}),
        ("Tags", "TAGS = 'T0' AND NOT (price < 90)", {18, 21}),
        ("Null", "rare IS NULL AND price >= 95", {19, 20, 22, 23}),
    ],
)
def test_sql_chooses_messages(
    clients: Clients, name: str, expression: str, wanted: set[int]
) -> None:
    """Exactly the messages whose properties satisfy the expression."""
    topic = f"Sql{name}"
    clients.send(topic, PRODUCTS)
    with clients.push(topic, topic, sql=expression) as consumer:
        consumer.received(len(wanted))
        # What is sent now is delivered after all that is there: nothing else came before it.
        number = min(wanted)
        clients.send(topic, [PRODUCTS[number]] * 4)
        consumer.received(len(wanted) + 4)
        bodies = sorted(one.body for one in consumer.stop())
    assert bodies == sorted([f"product {n}" for n in wanted] + [f"product {number}"] * 4)


def test_wrong_sql_is_refused_when_the_consumer_starts(clients: Clients) -> None:
    """The broker is asked whether it understands, and says that it does not."""
    clients.send("SqlWrong", ["anything"])
    clients.drain("SqlWrong", 1)  # a client of 4.9 asks no broker of a topic without a route
    with pytest.raises(ClientError) as raised:
        clients.push("SqlWrong", "SqlWrong", sql="price >> 5")
    assert (raised.value.kind, raised.value.code) == ("MQClientException", 23)
