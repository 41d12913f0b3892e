"""Runs a test with an argument ``header_class`` once for each class of the file's ``FAMILY``."""

import pytest

from unit.protocol.headers.peer import WITHOUT_JAVA_CLASS, headers_of


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "header_class" in metafunc.fixturenames:
        classes = [
            cls
            for cls in headers_of(metafunc.module.FAMILY)
            if cls.__name__ not in WITHOUT_JAVA_CLASS
        ]
        metafunc.parametrize("header_class", classes, ids=lambda cls: cls.__name__)
