"""Headers of staged batches, which are published once a sink has decided; only our brokers know.

docs/staged.md describes the four requests. A sink is whoever writes batches exactly once, such as a
query of Spark; ``sink_id`` names it, and ``query_id`` whose numbers its batches have.
"""

from roketto.protocol.headers.base import I32, I64, Header, RpcHeader, TopicHeader


class StageBatchRequest(TopicHeader, kw_only=True):
    """20481: keep messages for a queue where nobody consumes them yet; the body is a batch."""

    sink_id: str
    batch_id: I64
    topic: str
    queue_id: I32
    """Below zero: the broker chooses one."""


class StageBatchResponse(Header, kw_only=True):
    """20481: where the piece lies, by which it is published, and what is in it."""

    log_offset: I64
    size: I32
    message_count: I32
    queue_id: I32


class SinkStateRequest(RpcHeader, kw_only=True):
    """20482: how far a sink is on this broker."""

    sink_id: str


class SinkStateResponse(Header, kw_only=True):
    """20482: the last batch that was decided, -1 without one; the body is that decision."""

    batch_id: I64
    query_id: str | None = None
    published_batch_id: I64
    """The last batch that this broker has published, all of its pieces here; -1 without one."""
    is_published: bool
    """Whether the last batch that was decided is published here."""


class DecideStagedRequest(RpcHeader, kw_only=True):
    """20483: a batch is to be published; the body says of which pieces of which brokers."""

    sink_id: str
    batch_id: I64
    query_id: str


class DecideStagedResponse(Header, kw_only=True):
    """20483: the decision that counts, which is in the body unless it is the one of the request."""

    batch_id: I64
    query_id: str | None = None
    published_batch_id: I64
    is_published: bool
    is_new: bool
    """Whether it was this request that has decided."""


class PublishStagedRequest(RpcHeader, kw_only=True):
    """20484: let the pieces of a batch be consumed; the body names those of this broker."""

    sink_id: str
    batch_id: I64
    query_id: str


class PublishStagedResponse(Header, kw_only=True):
    """20484: all of it is published."""

    message_count: I64
    """Messages of the batch on this broker; 0 if it was published before."""
    is_new: bool
    """Whether anything was left to publish when the request came."""
