"""What the connections of a server do together: requests under way, bytes read and written."""


class Load:
    """Shared by all connections of a server.

    Requests are counted only while their answers are waited for; they have a bound.
    """

    __slots__ = ("bytes_in", "bytes_out", "in_flight", "in_flight_max")

    def __init__(self, in_flight_max: int) -> None:
        self.in_flight: int = 0
        self.in_flight_max: int = in_flight_max
        self.bytes_in: int = 0
        self.bytes_out: int = 0
        """Of frames, with their lengths; TLS makes more of them."""

    @property
    def is_full(self) -> bool:
        """Whether no more requests may be taken."""
        return self.in_flight >= self.in_flight_max

    def text(self) -> str:
        """The remark of a refusal; clients look for Java's words in front."""
        return (
            "[OVERLOAD]system busy, start flow control for a while: "
            f"{self.in_flight} requests are waiting, the bound is {self.in_flight_max}"
        )
