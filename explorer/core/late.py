"""Lazy functions, whose packages (higher or optional ones) are imported at the first call."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def late(path: str) -> Any:
    """Return the function ``module:name``, whose module is imported when it is called."""
    module, _, name = path.partition(":")

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*arguments, **options)

    call.__qualname__ = path
    return call
