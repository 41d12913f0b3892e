"""A process that writes to a store until it is killed.

    python -m unit.storetool.writer ROOT

Prints "ready" when the first messages are there.
"""

import os
import sys
from itertools import count
from pathlib import Path

from roketto.store.store import Store
from unit.storetool.stores import SETTINGS, fill

READY_AFTER = 300
TICK_EVERY = 30


def main(root: Path) -> None:
    store = Store(root, SETTINGS)
    store.open(os.getpid())
    for number in count(0, 3):
        fill(store, 3, number)
        if number % TICK_EVERY == 0:
            store.tick()
        if number == READY_AFTER:
            os.write(1, b"ready\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
