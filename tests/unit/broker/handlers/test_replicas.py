"""A broker that is its only replica says so, and how far its log goes."""

from pathlib import Path

import pytest

from roketto.broker.handlers.replicas import ROUTES
from roketto.protocol.bodies.ha import HAClientRuntimeInfo, HARuntimeInfo
from roketto.protocol.errors import RequestError
from unit.broker.clients_rig import ClientsRig, route


def test_a_master_tells_how_far_its_log_goes(tmp_path: Path) -> None:
    """And that nobody follows it; a slave's part is there and empty, as from Java."""
    rig = ClientsRig(tmp_path)
    rig.send(3)
    assert rig.read(HARuntimeInfo, route(ROUTES, 907), {}) == HARuntimeInfo(
        ha_client_runtime_info=HAClientRuntimeInfo(),
        master=True,
        master_commit_log_max_offset=rig.store.log.max_offset,
    )
    assert rig.store.log.max_offset > 0
    rig.close()


def test_the_flush_offset_of_a_master_is_not_to_be_set(tmp_path: Path) -> None:
    """It is answered, as by Java, if it is a request at all."""
    rig = ClientsRig(tmp_path)
    assert rig.ask(route(ROUTES, 908), {"masterFlushOffset": 7}).code == 0
    with pytest.raises(RequestError, match="masterFlushOffset"):
        rig.ask(route(ROUTES, 908), {})
    rig.close()
