"""Offsets of groups: what is committed is found again, and nonsense moves nothing."""

from pathlib import Path

import pytest

from roketto.broker import offsets as offsets_module
from roketto.broker.offsets import Offsets
from roketto.store.files import Files
from roketto.store.offset_table import ConsumeOffsetTable


def load(tmp_path: Path) -> Offsets:
    table = ConsumeOffsetTable(Files(), tmp_path)
    assert table.load() is None
    return Offsets(table)


@pytest.fixture
def offsets(tmp_path: Path) -> Offsets:
    return load(tmp_path)


def test_a_committed_offset_is_found(offsets: Offsets) -> None:
    """Of its topic, group and queue, and of no other."""
    offsets.commit("T", "G", 1, 7)
    assert offsets.get("T", "G", 1) == 7
    assert offsets.get("T", "G", 0) is None
    assert offsets.get("T", "H", 1) is None
    assert offsets.offsets("T", "G") == {1: 7}


def test_offsets_outlive_the_process(offsets: Offsets, tmp_path: Path) -> None:
    """Once saved; and there is nothing to save twice."""
    offsets.commit("T", "G", 1, 7)
    assert offsets.save()
    assert not offsets.save()
    assert load(tmp_path).get("T", "G", 1) == 7


@pytest.mark.parametrize(("queue_id", "offset"), [(1, -1), (1, -(2**63)), (-1, 9)])
def test_nonsense_moves_nothing(offsets: Offsets, queue_id: int, offset: int) -> None:
    """Clients that have consumed nothing commit -1; their group must not begin anew."""
    offsets.commit("T", "G", 1, 7)
    offsets.commit("T", "G", queue_id, offset)
    assert offsets.offsets("T", "G") == {1: 7}


def test_a_negative_offset_of_an_old_file_counts_as_none(tmp_path: Path) -> None:
    """A Java broker stores what clients commit, and answers as if there were nothing."""
    table = ConsumeOffsetTable(Files(), tmp_path)
    table.put("T", "G", 0, -1)
    offsets = Offsets(table)
    assert offsets.get("T", "G", 0) is None
    assert offsets.pulled("T", "G", 0) is None


def test_an_offset_may_go_back_and_is_told(
    offsets: Offsets, caplog: pytest.LogCaptureFixture
) -> None:
    """A reset is a commit like any other; the log names who did it."""
    offsets.commit("T", "G", 0, 7, "10.0.0.1:5")
    offsets.commit("T", "G", 0, 3, "10.0.0.1:5")
    assert offsets.get("T", "G", 0) == 3
    assert "10.0.0.1:5 moves group G back in queue 0 of topic T: from 7 to 3" in caplog.text


def test_what_was_pulled_is_known_beside_what_was_committed(offsets: Offsets) -> None:
    """Where nobody has pulled, the commit stands in."""
    offsets.commit("T", "G", 0, 3)
    assert offsets.pulled("T", "G", 0) == 3
    offsets.note_pulled("T", "G", 0, 9)
    assert (offsets.pulled("T", "G", 0), offsets.get("T", "G", 0)) == (9, 3)


def test_pulls_that_are_remembered_have_a_bound(
    offsets: Offsets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those known go on being noted, others are not."""
    monkeypatch.setattr(offsets_module, "PULLED_MAX", 1)
    offsets.note_pulled("T", "G", 0, 1)
    offsets.note_pulled("T", "G", 1, 1)
    offsets.note_pulled("T", "G", 0, 2)
    assert offsets.pulled("T", "G", 0) == 2
    assert offsets.pulled("T", "G", 1) is None


def test_topics_and_groups_are_found_by_each_other(offsets: Offsets) -> None:
    """Tools ask which groups a topic has, and which topics a group."""
    offsets.commit("T", "G", 0, 1)
    offsets.commit("T", "H", 0, 1)
    offsets.commit("U", "G", 0, 1)
    assert offsets.topics_of("G") == ["T", "U"]
    assert offsets.groups_of("T") == ["G", "H"]
    assert offsets.topics_by_group() == {"G": ["T", "U"], "H": ["T"]}


def test_a_deleted_topic_takes_its_offsets_along(offsets: Offsets) -> None:
    """Also those of pulls, and no others."""
    for topic in ("T", "U"):
        offsets.commit(topic, "G", 0, 1)
        offsets.note_pulled(topic, "G", 0, 2)
    offsets.remove_topic("T")
    assert offsets.pulled("T", "G", 0) is None
    assert (offsets.get("U", "G", 0), offsets.pulled("U", "G", 0)) == (1, 2)


def test_a_deleted_group_takes_its_offsets_along(offsets: Offsets) -> None:
    """Also those of pulls, and no others."""
    for group in ("G", "H"):
        offsets.commit("T", group, 0, 1)
        offsets.note_pulled("T", group, 0, 2)
    offsets.remove_group("G")
    assert offsets.pulled("T", "G", 0) is None
    assert (offsets.get("T", "H", 0), offsets.pulled("T", "H", 0)) == (1, 2)
    assert offsets.wrapper().offset_table == {"T@H": {0: 1}}


# --- resets ---------------------------------------------------------------------------------------


def test_a_reset_counts_at_once_and_until_it_was_told(offsets: Offsets) -> None:
    """What a group commits before it has heard of it is of before; what it was sent it was sent."""
    offsets.commit("T", "G", 0, 9)
    offsets.note_pulled("T", "G", 0, 12)
    offsets.reset("T", "G", 0, 4)
    assert (offsets.get("T", "G", 0), offsets.pulled("T", "G", 0)) == (4, 12)
    offsets.commit("T", "G", 0, 10)
    assert offsets.get("T", "G", 0) == 4
    assert offsets.has_reset("T", "G", 0)
    assert offsets.take_reset("T", "G", 0) == 4
    assert offsets.take_reset("T", "G", 0) is None
    assert not offsets.has_reset("T", "G", 0)
    offsets.commit("T", "G", 0, 5)
    assert offsets.get("T", "G", 0) == 5


def test_a_reset_is_of_one_queue_and_outlives_the_process(offsets: Offsets, tmp_path: Path) -> None:
    """Nobody has to be told after a start: whoever consumes asks then."""
    offsets.reset("T", "G", 1, 4)
    for topic, group, queue_id in (("T", "G", 0), ("U", "G", 1), ("T", "H", 1)):
        assert not offsets.has_reset(topic, group, queue_id)
        assert offsets.take_reset(topic, group, queue_id) is None
        offsets.commit(topic, group, queue_id, 7)
        assert offsets.get(topic, group, queue_id) == 7
    assert offsets.save()
    again = load(tmp_path)
    assert again.get("T", "G", 1) == 4
    assert not again.has_reset("T", "G", 1)


@pytest.mark.parametrize("remove", ["remove_topic", "remove_group"])
def test_what_is_deleted_takes_its_resets_along(offsets: Offsets, remove: str) -> None:
    """Those of others stay."""
    offsets.reset("T", "G", 0, 4)
    offsets.reset("U", "H", 0, 4)
    getattr(offsets, remove)("T" if remove == "remove_topic" else "G")
    assert not offsets.has_reset("T", "G", 0)
    assert offsets.has_reset("U", "H", 0)


def test_a_group_is_given_the_offsets_of_another(offsets: Offsets) -> None:
    """In the topic, in place of all that it had there; resets of before included."""
    for queue_id in (0, 1):
        offsets.commit("T", "G", queue_id, 5 + queue_id)
    offsets.commit("T", "H", 7, 7)
    offsets.reset("T", "H", 1, 2)
    offsets.clone("T", "G", "H")
    assert offsets.offsets("T", "H") == offsets.offsets("T", "G") == {0: 5, 1: 6}
    assert not offsets.has_reset("T", "H", 1)
    offsets.clone("T", "G", "G")
    offsets.clone("T", "nobody", "G")
    offsets.clone("U", "G", "H")
    assert offsets.offsets("T", "G") == {0: 5, 1: 6}
    assert offsets.offsets("U", "H") == {}


def test_slaves_fetch_which_topics_each_group_has(offsets: Offsets) -> None:
    """Beside the offsets."""
    for topic, group in (("T", "G"), ("U", "G"), ("T", "H")):
        offsets.commit(topic, group, 0, 1)
    body = offsets.wrapper()
    assert body.group_topic_map == {"G": ["T", "U"], "H": ["T"]}
    assert len(body.offset_table) == 3
