"""Lazy functions, whose packages are higher or optional and therefore imported at the first call."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def late(path: str) -> Any:
    """Return the function with the path ``module:name``, whose module is imported on the first call."""
    module, _, name = path.partition(":")

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*arguments, **options)

    call.__qualname__ = path
    return call
