"""Functions imported at the first call, because their packages are higher or optional."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any


def late(path: str) -> Any:
    """Return the function with the path ``module:name``, whose module is imported at the first call."""
    module, _, name = path.partition(":")

    load = cache(lambda: import_module(module))

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(load(), name)(*arguments, **options)

    call.__qualname__ = path
    return call
