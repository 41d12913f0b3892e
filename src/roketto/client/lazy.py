"""Names of a package that are imported when somebody asks for them: it is quick to import."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["lazily"]


def lazily(package: str, where: "Mapping[str, str]") -> "Callable[[str], object]":
    """The ``__getattr__`` of a package whose names are in the modules that ``where`` tells."""

    def find(name: str) -> object:
        module = where.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        import importlib
        import sys

        found: object = getattr(importlib.import_module(module), name)
        setattr(sys.modules[package], name, found)  # the next time nobody asks
        return found

    return find
