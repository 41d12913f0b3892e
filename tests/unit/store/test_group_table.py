"""Groups are kept by name, with what each may not read, in Java's file."""

from pathlib import Path

import pytest

from roketto.protocol.bodies.groups import GroupRetryPolicyType, SubscriptionGroupConfig
from roketto.store import group_table
from roketto.store.errors import TableFullError
from roketto.store.files import Files
from roketto.store.group_table import GroupTable

GOLDEN = Path(__file__).parents[2] / "golden" / "store"


def group(name: str, retries: int = 16) -> SubscriptionGroupConfig:
    return SubscriptionGroupConfig(group_name=name, retry_max_times=retries)


def test_groups_are_found_again_after_a_restart(tmp_path: Path) -> None:
    """Put, replaced, removed and saved."""
    table = GroupTable(Files(), tmp_path)
    table.put(group("G"))
    table.put(group("G", 3))
    table.put(group("H"))
    assert table.remove("H") == group("H")
    assert table.remove("H") is None
    table.save_if_changed()
    assert (tmp_path / "subscriptionGroup.json").exists()
    again = GroupTable(Files(), tmp_path)
    assert again.load() is None
    assert again.groups == {"G": group("G", 3)}
    assert again.get("G") == group("G", 3)
    assert again.get("H") is None


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_the_groups_of_a_java_broker_are_read(version: str) -> None:
    """With the retries that were set there."""
    table = GroupTable(Files(), GOLDEN / version)
    assert table.load() is None
    found = table.get("GoldenRetry")
    assert found is not None
    if version == "5.5.0":
        assert found.group_retry_policy.type is GroupRetryPolicyType.EXPONENTIAL
        assert found.group_retry_policy.exponential_retry_policy is not None
        assert found.group_retry_policy.exponential_retry_policy.max == 60_000
    else:
        assert found.retry_max_times == 3


def test_what_a_group_may_not_read_is_kept_by_topic(tmp_path: Path) -> None:
    """Allowing one topic again leaves the others forbidden, which Java forgets."""
    table = GroupTable(Files(), tmp_path)
    table.forbid("G", "T", 1)
    table.forbid("G", "U", 3)
    version = table.body.data_version.counter
    table.forbid("G", "U", 3)
    table.forbid("G", "V", 0)
    assert table.body.data_version.counter == version
    table.forbid("G", "U", 2)
    table.forbid("G", "T", 0)
    table.save_if_changed()
    again = GroupTable(Files(), tmp_path)
    assert again.load() is None
    assert (again.forbidden("G", "T"), again.forbidden("G", "U")) == (0, 2)
    again.forbid("G", "U", 0)
    assert again.body.forbidden_table == {}
    assert again.is_changed


def test_a_group_takes_what_it_may_not_read_with_it(tmp_path: Path) -> None:
    """Also if the group itself was never configured."""
    table = GroupTable(Files(), tmp_path)
    table.forbid("G", "T", 1)
    table.save_if_changed()
    assert table.remove("G") is None
    assert table.is_changed
    assert table.forbidden("G", "T") == 0


def test_a_table_takes_so_many_groups_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so many topics that a group may not read."""
    monkeypatch.setattr(group_table, "GROUPS_MAX", 1)
    monkeypatch.setattr(group_table, "FORBIDDEN_MAX", 1)
    table = GroupTable(Files(), tmp_path)
    table.put(group("G"))
    with pytest.raises(TableFullError, match="has 1 entries"):
        table.put(group("H"))
    table.forbid("G", "T", 1)
    table.forbid("G", "T", 2)
    with pytest.raises(TableFullError, match="has 1 entries"):
        table.forbid("G", "U", 1)
    with pytest.raises(TableFullError, match="has 1 entries"):
        table.forbid("H", "T", 1)
    assert table.body.forbidden_table == {"G": {"T": 2}}
