"""Where this process is: the stacks of its threads and tasks, for an operator who asks."""

import asyncio
import io
import sys
import threading
import traceback
from typing import Final

__all__ = ["stacks"]

_CHARS_MAX: Final = 256 * 1024
_TASKS_MAX: Final = 1_000


def stacks() -> str:
    """The stacks of all threads, then those of the tasks of this loop, as far as there is room."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    text = io.StringIO()
    for number, frame in sys._current_frames().items():
        print(f"Thread {names.get(number, number)}:", file=text)
        traceback.print_stack(frame, file=text)
    for task in list(asyncio.all_tasks())[:_TASKS_MAX]:
        task.print_stack(limit=16, file=text)
        if text.tell() > _CHARS_MAX:
            break
    return text.getvalue()[:_CHARS_MAX]
