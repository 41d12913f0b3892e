"""The sink's options: defaults, bounds, names in any case, and mistakes that say what is right."""

import pickle

import pytest

from roketto.spark.option_values import OptionError
from roketto.spark.sink_options import AT_LEAST_ONCE, TRANSACTIONAL, SinkOptions

GIVEN = {"nameServer": "10.0.0.5:9876", "topic": "Orders"}


def test_without_a_word_delivery_is_at_least_once_as_with_kafka() -> None:
    options = SinkOptions.of(GIVEN, {})
    assert options.delivery == AT_LEAST_ONCE
    assert options.topic == "Orders"
    assert options.connection.name_servers == "10.0.0.5:9876"
    assert options.sink_id is None


def test_options_travel_to_executors_and_names_count_in_any_case() -> None:
    options = SinkOptions.of(
        {**GIVEN, "DELIVERY": "Transactional", "sinkid": "orders-7", "batchbytes": "4096"}, {}
    )
    assert options.delivery == TRANSACTIONAL
    assert (options.sink_id, options.batch_bytes) == ("orders-7", 4096)
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("delivry", "transactional", "did you mean 'delivery'"),
        ("delivery", "exactly-once", "at-least-once, idempotent, transactional"),
        ("topic", "no spaces", "no spaces"),
        ("sinkId", "a/b", "letters, digits, - and _"),
        ("batchBytes", "5", "from 1024 to 4194304"),
        ("inFlight", "0", "from 1 to 64"),
        ("producerGroup", "gr up", "illegal characters"),
    ],
)
def test_a_mistake_is_named_with_what_is_right(name: str, value: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        SinkOptions.of({**GIVEN, name: value}, {})
    assert said in str(caught.value)
