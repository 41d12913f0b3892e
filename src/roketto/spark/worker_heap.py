"""What a Python worker of Spark has imported, out of sight of its garbage collector.

Spark lets a worker collect garbage after each task, and that looks at all that was ever imported
there: ten milliseconds and more, which small tasks of a stream pay again and again. What is there
when the first task ends stays as long as the worker does, and need not be looked at.
"""

import gc

from pyspark import TaskContext

__all__ = ["settle_worker"]


class _Process:
    is_settled = False


def settle_worker() -> None:
    """To be called when a task ends; only the first of a worker does anything.

    Outside of tasks nothing is done: programs have their own ideas of their memory.
    """
    if _Process.is_settled or TaskContext.get() is None:
        return
    _Process.is_settled = True
    gc.collect()
    gc.freeze()
