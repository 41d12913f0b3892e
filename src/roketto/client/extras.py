"""Parts of the client that need a library which is only installed for them."""

from importlib import import_module
from typing import Any

__all__ = ["load_extra"]


def load_extra(module: str, name: str, *, library: str, extra: str) -> Any:
    """Something of a module that imports a library; ImportError says how to get that."""
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        raise ImportError(
            f"{name} needs {library}, which is not installed: pip install 'roketto[{extra}]'"
        ) from error
