"""What every send needs and no send changes: the broker's own properties and ids."""

import os
import random
from collections.abc import Callable
from datetime import datetime, tzinfo

from roketto.broker.config import BrokerConfig
from roketto.protocol.ids import UniqueIds


class Sending:
    """Made once for a broker; ``configure`` again when its configuration has changed."""

    __slots__ = (
        "_clock_ms", "_ids", "id_prefix", "own_properties", "region", "store_host",
        "trace",
    )  # fmt: skip

    def __init__(
        self,
        config: BrokerConfig,
        store_host: bytes,
        clock_ms: Callable[[], int],
        zone: tzinfo | None = None,
    ) -> None:
        self.store_host: bytes = store_host
        self.id_prefix: str = store_host.hex().upper()
        """How every message id of this broker begins; the log offset follows, as 16 digits."""
        self._clock_ms = clock_ms
        local = zone or datetime.now().astimezone().tzinfo
        assert local is not None
        self._ids = UniqueIds(store_host[:-4], os.getpid(), random.getrandbits(32), local)
        self.configure(config)

    def configure(self, config: BrokerConfig) -> None:
        """Take over what may change at run time."""
        self.region: str = config.region_id
        self.trace: str = "true" if config.trace_on else "false"
        cluster = config.broker_cluster_name
        self.own_properties: bytes = (
            f"MSG_REGION\x01{self.region}\x02TRACE_ON\x01{self.trace}\x02CLUSTER\x01{cluster}\x02"
        ).encode()
        """What the broker adds to the properties of every message that is sent to it."""

    def next_unique_id(self) -> str:
        """An id for a message whose producer gave it none."""
        return self._ids.next_id(self._clock_ms())
