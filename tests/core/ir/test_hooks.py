"""Hooks name functions of higher packages, each of a known signature."""

from __future__ import annotations

import importlib
from dataclasses import fields
from typing import get_type_hints

from explorer.core.ir.function import CallRules, call_rules
from explorer.core.ir.hooks import Hooks, hooks


def test_every_hook_names_a_function_that_is_there() -> None:
    """The function is imported when the hook is called."""
    for table in (hooks, call_rules):
        for field in fields(table):
            module, _, name = getattr(table, field.name).__qualname__.partition(":")
            assert callable(getattr(importlib.import_module(module), name)), field.name


def test_every_hook_has_a_signature() -> None:
    """A type checker checks calls through hooks, and the functions that fill them: none is a bare Callable."""
    for table in (Hooks, CallRules):
        for name, signature in get_type_hints(table, vars(importlib.import_module(table.__module__))).items():
            assert signature.__doc__, name
            assert getattr(signature, "_is_protocol", False), name  # typing.is_protocol is of Python 3.13
