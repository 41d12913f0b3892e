"""A shop: sends a stream of orders to the topic ``orders``, with the Python client.

roketto up &
python examples/order_stream.py --orders 20000 --seconds 20

Each order is stored once, even if the broker is killed in between: the topic has a dedup window, so
that an order which is sent again because nobody has answered is recognised.
"""

import argparse
import asyncio
import json
import math
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

from roketto.admin import Admin
from roketto.client import ClientError, Message, Producer

TOPIC = "orders"
STATS_TOPIC = "order-stats"
QUEUES = 4
PRODUCTS = {
    "tea": ("drinks", "3.50"), "coffee": ("drinks", "4.20"), "soup": ("food", "7.90"),
    "cake": ("food", "5.60"), "salad": ("food", "9.80"),
}  # fmt: skip
"""Product -> its category and its price."""
COUNTRIES = {
    "CH": "Switzerland", "IT": "Italy", "JP": "Japan", "PE": "Peru", "SE": "Sweden",
}  # fmt: skip

_CHUNK = 100
"""Orders that are sent at the same time. None overtakes another by more than this."""
_SHOP_SECONDS = 300.0
"""The time of the shop that a stream covers, however quickly it is sent."""
_WAVE_S = 240.0
_SAY_S = 5.0
_PAUSE_S = 0.2
_GIVE_UP_S = 30.0


@dataclass(frozen=True, slots=True)
class Order:
    """What somebody wants, and when they said so."""

    order: int
    product: str
    country: str
    quantity: int
    ordered_at: str

    @property
    def time(self) -> datetime:
        return datetime.fromisoformat(self.ordered_at)

    def message(self) -> Message:
        return Message(
            TOPIC, json.dumps(asdict(self)).encode(), tags=PRODUCTS[self.product][0],
            keys=[f"order-{self.order}"],
        )  # fmt: skip


def orders(count: int, begin: datetime, seed: int = 7) -> Iterator[Order]:
    """So many orders of five minutes, and one a minute later; the same ones for the same seed."""
    chance = random.Random(seed)
    names = list(COUNTRIES)
    for number in range(count):
        at_s = _SHOP_SECONDS * number / count
        waves = [
            1.3 + math.sin(math.tau * (at_s / _WAVE_S + place / len(names)))
            for place in range(len(names))
        ]
        yield Order(
            number, chance.choice(list(PRODUCTS)), chance.choices(names, waves)[0],
            chance.randint(1, 4), _text(begin + timedelta(seconds=at_s)),
        )  # fmt: skip
    late = begin + timedelta(seconds=_SHOP_SECONDS + 60)
    yield Order(count, "tea", names[0], 1, _text(late))


def _text(when: datetime) -> str:
    return when.isoformat(timespec="milliseconds")


async def make_topics(name_server: str) -> None:
    """Those of orders, which keeps each of them once, and of what becomes of them."""
    await _make_topic(name_server, TOPIC, {"dedup.window.seconds": "600", "dedup.by": "KEYS"})
    await _make_topic(name_server, STATS_TOPIC, {})


async def _make_topic(name_server: str, topic: str, attributes: dict[str, str]) -> None:
    """Make a topic if there is none, and wait until name servers know it."""
    async with Admin(name_server) as admin:
        if topic not in await admin.topics.names():
            await admin.topics.create(
                topic, read_queues=QUEUES, write_queues=QUEUES, attributes=attributes
            )
        deadline_s = time.monotonic() + _GIVE_UP_S
        while topic not in await admin.topics.names():
            if time.monotonic() > deadline_s:
                raise ClientError(
                    f"topic {topic} is not known {_GIVE_UP_S:.0f} s after it was made"
                )
            await asyncio.sleep(0.05)


async def stream(name_server: str, some: Sequence[Order], seconds: float) -> None:
    """Send them one chunk behind the other, in so much time; say how far it is."""
    await make_topics(name_server)
    started_s = said_s = time.monotonic()
    async with Producer("shop", name_server) as producer:
        for begin in range(0, len(some), _CHUNK):
            chunk = some[begin : begin + _CHUNK]
            await asyncio.gather(*(_send(producer, order) for order in chunk))
            sent = begin + len(chunk)
            due_s = started_s + seconds * sent / len(some)
            if time.monotonic() - said_s >= _SAY_S or sent == len(some):
                said_s = time.monotonic()
                print(f"{sent} orders are acknowledged", flush=True)
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))


async def _send(producer: Producer, order: Order) -> None:
    """Send one until it is acknowledged; the topic knows an order that it has."""
    message = order.message()
    deadline_s = time.monotonic() + _GIVE_UP_S
    while True:
        try:
            await producer.send(message)
        except ClientError:
            if time.monotonic() > deadline_s:
                raise
            await asyncio.sleep(_PAUSE_S)
        else:
            return


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--name-server", default="127.0.0.1:9876", help="%(default)s by default")
    parser.add_argument("--orders", type=int, default=20_000, help="%(default)s by default")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long it takes to send")
    parser.add_argument("--begin", type=datetime.fromisoformat, default=datetime.now(UTC),
                        help="the time of the first order; now, if it is left out")  # fmt: skip
    options = parser.parse_args(arguments)
    some = list(orders(options.orders, options.begin))
    try:
        asyncio.run(stream(options.name_server, some, options.seconds))
    except ClientError as error:
        print(f"order_stream: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
