"""The listener: the end of every batch of our topics is committed, and of nothing else."""

import json
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql.streaming.listener import QueryProgressEvent

from roketto.protocol.bodies.route import MessageQueue
from roketto.spark.listener import GroupOffsetListener
from roketto.spark.offsets import StreamOffset
from roketto.spark.options import OptionError
from unit.spark.fake_cluster import T0, T1, FakeCluster

OPTIONS = {"nameServer": "h:1", "topic": "T", "group": "g", "commitOffsets": "true"}


def progress(*ends: object, name: str = "q") -> QueryProgressEvent:
    sources = [SimpleNamespace(endOffset=end) for end in ends]
    said = SimpleNamespace(name=name, id="7", batchId=1, sources=sources)
    return cast("QueryProgressEvent", SimpleNamespace(progress=said))


def end_of() -> str:
    offsets = {T0: 5, T1: 6, MessageQueue("b", 0, "Other"): 9}
    return json.dumps(StreamOffset(offsets).to_json())


def test_offsets_of_the_chosen_topics_are_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCluster.put_in_place(monkeypatch)
    listener = GroupOffsetListener(OPTIONS)
    listener.onQueryProgress(progress('{"foreign": 1}', "17", None, end_of()))
    assert fake.groups == {"g": {T0: 5, T1: 6}}


def test_other_queries_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCluster.put_in_place(monkeypatch)
    GroupOffsetListener(OPTIONS, query="mine").onQueryProgress(progress(end_of()))
    assert fake.groups == {}
    GroupOffsetListener(OPTIONS, query="7").onQueryProgress(progress(end_of()))
    assert "g" in fake.groups


def test_a_listener_without_a_group_is_refused() -> None:
    with pytest.raises(OptionError, match="name it"):
        GroupOffsetListener({"nameServer": "h:1", "topic": "T"})
