"""What can go wrong for an operator, beside what can for every client."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from roketto.client.errors import ClientError

if TYPE_CHECKING:
    from roketto.admin.fleet import Broker

__all__ = [
    "ClusterNotFoundError", "GroupNotFoundError", "GroupOfflineError", "MessageNotFoundError",
    "NoProgressError", "PartlyFailedError",
]  # fmt: skip


class ClusterNotFoundError(ClientError):
    """No cluster, or no broker, of that name is registered."""


class GroupNotFoundError(ClientError):
    """A broker that was asked has no such group."""


class GroupOfflineError(ClientError):
    """No member of a group is connected to any broker that was asked."""


class NoProgressError(ClientError):
    """Brokers keep no offsets of a group: it never consumed, or each of its members has its own."""

    def __init__(self, group: str, *, is_broadcasting: bool) -> None:
        why = (
            "its members all get everything, and each keeps its own"
            if is_broadcasting
            else "none of its members is online, and none has consumed yet"
        )
        super().__init__(f"brokers have no offsets of group {group}: {why}")
        self.group = group
        self.is_broadcasting = is_broadcasting


class MessageNotFoundError(ClientError):
    """Everyone who could have the message has answered, and nobody has it."""


class PartlyFailedError(ClientError):
    """Of several servers or clients that were asked some have failed, or all.

    ``failures`` says who and why. ``partial`` is what the call would have returned if there were
    only the others: a sum or a list in it is smaller than the truth.
    """

    def __init__(
        self, what: str, failures: Mapping["Broker | str", ClientError], count: int, partial: object
    ) -> None:
        details = "; ".join(f"{who}: {error}" for who, error in failures.items())
        super().__init__(f"{what}: {len(failures)} of {count} failed: {details}")
        self.failures = failures
        self.partial = partial
