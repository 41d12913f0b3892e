"""Headers of transactions: the end of one, the question about one, the second chance of one."""

from msgspec import field

from roketto.protocol.headers.base import I32, I64, Header, RpcHeader


class EndTransactionRequest(RpcHeader, kw_only=True):
    """37, one-way: commit or roll back a half message."""

    topic: str | None = None
    producer_group: str
    half_queue_offset: I64 = field(name="tranStateTableOffset")
    """The queue offset in the half topic."""
    log_offset: I64 = field(name="commitLogOffset")
    commit_or_rollback: I32
    """The transaction bits of the system flag: 0 unknown, 8 commit, 12 roll back."""
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None


class CheckTransactionStateRequest(RpcHeader, kw_only=True):
    """39, one-way, from the broker to a producer: what became of this half message?"""

    topic: str | None = None
    half_queue_offset: I64 = field(name="tranStateTableOffset")
    log_offset: I64 = field(name="commitLogOffset")
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHalfMessageRequest(Header, kw_only=True):
    """323: ask again about a half message that was given up."""

    topic: str | None = None
    msg_id: str | None = None
