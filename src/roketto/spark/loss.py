"""Data loss: messages that should be read and are gone, an error or a line in the log."""

import logging

__all__ = ["DataLossError", "report_loss"]

log = logging.getLogger(__name__)

_REMEDY = (
    "messages were removed by retention before they were read, or the topic was made anew; set"
    " failOnDataLoss to false to go on with what is there"
)


class DataLossError(Exception):
    """Messages that should be read are gone, and the source was told not to go on without them."""


def report_loss(fails: bool, text: str) -> None:
    """Raise, or say so and let the caller go on with what there is."""
    if fails:
        raise DataLossError(f"{text}: {_REMEDY}")
    log.warning("%s: that is passed over, as failOnDataLoss is false", text)
