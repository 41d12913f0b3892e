"""How many requests wait for their answers in the whole process, and how many may."""


class Load:
    """Shared by all connections of a server; counted only for handlers that wait."""

    __slots__ = ("in_flight", "in_flight_max")

    def __init__(self, in_flight_max: int) -> None:
        self.in_flight = 0
        self.in_flight_max = in_flight_max

    def text(self) -> str:
        """The remark of a refusal; clients look for Java's words in front."""
        return (
            "[OVERLOAD]system busy, start flow control for a while: "
            f"{self.in_flight} requests are waiting, the bound is {self.in_flight_max}"
        )
