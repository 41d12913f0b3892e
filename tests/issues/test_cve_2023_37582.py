"""CVE-2023-37582: whoever could change a configuration said where it is written, and what.

Java's first remedy was a list with a misspelt key, and a test with the same misspelling. Here the
keys come from the fields themselves.
"""

from pathlib import Path

import pytest

from roketto.broker.config import FIELDS as BROKER_FIELDS
from roketto.broker.config import BrokerConfig
from roketto.config_file import ConfigFile
from roketto.namesrv.config import FIELDS as NAMESRV_FIELDS
from roketto.namesrv.config import NamesrvConfig
from roketto.options import Config
from roketto.protocol.errors import RequestError
from roketto.protocol.properties_text import format_properties

PATHS = [
    (config, key)
    for config, fields in ((NamesrvConfig, NAMESRV_FIELDS), (BrokerConfig, BROKER_FIELDS))
    for key, found in fields.items()
    if found.kind is Path or "path" in key.lower() or "dir" in key.lower()
]
SPELLINGS = ["configStorePathName", "configstorepath", " configStorePath", "configStorePath\\t"]


class Rig:
    """A configuration that is kept in one file of a directory."""

    def __init__(self, kind: type[Config], folder: Path) -> None:
        self.folder = folder
        self.config = kind()
        self.before = dict(self.config.items())
        self.file = ConfigFile(self.config, lambda: folder / "kept", {})

    async def refuse(self, text: str) -> None:
        with pytest.raises(RequestError):
            await self.file.update(text.encode(), lambda changed: None)
        assert dict(self.config.items()) == self.before
        assert list(self.folder.iterdir()) == [], "something was written"


def test_the_paths_of_both_servers_are_among_those_tried() -> None:
    """The key that Java's list missed is one of them."""
    keys = {key for _, key in PATHS}
    assert {"configStorePath", "kvConfigPath", "brokerConfigPath", "storePathRootDir"} <= keys


@pytest.mark.parametrize(("kind", "key"), PATHS)
async def test_no_path_changes_by_request(tmp_path: Path, kind: type[Config], key: str) -> None:
    """Alone, and with what is to be written there beside it."""
    rig = Rig(kind, tmp_path)
    target = str(tmp_path / "owned")
    await rig.refuse(format_properties({key: target}))
    good = "orderMessageEnable" if kind is NamesrvConfig else "traceOn"
    for order in ((good, key), (key, good)):
        await rig.refuse(format_properties({it: "true" if it == good else target for it in order}))


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("kind", [NamesrvConfig, BrokerConfig])
async def test_no_spelling_of_a_path_changes_by_request(
    tmp_path: Path, kind: type[Config], spelling: str
) -> None:
    """Nor one with blanks, which properties leave out, or with another case."""
    await Rig(kind, tmp_path).refuse(f"{spelling}={tmp_path / 'owned'}\n")


async def test_the_list_of_what_may_not_change_may_not_change(tmp_path: Path) -> None:
    """configBlackList, by which Java was told to keep the others."""
    for kind in (NamesrvConfig, BrokerConfig):
        await Rig(kind, tmp_path).refuse("configBlackList=x\n")
