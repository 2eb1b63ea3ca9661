"""Hooks refer to functions of higher packages with declared signatures."""

from __future__ import annotations

import importlib
from dataclasses import fields
from typing import get_type_hints

from explorer.core.ir.function import CallRules, call_rules
from explorer.core.ir.hooks import Hooks, hooks


def test_every_hook_refers_to_an_existing_function() -> None:
    """The function is imported when the hook is called."""
    for table in (hooks, call_rules):
        for field in fields(table):
            module, _, name = getattr(table, field.name).__qualname__.partition(":")
            assert callable(getattr(importlib.import_module(module), name)), field.name


def test_every_hook_has_a_signature() -> None:
    """Type checkers check calls of hooks and the functions behind them, since no hook is a bare Callable."""
    for table in (Hooks, CallRules):
        for name, signature in get_type_hints(table, vars(importlib.import_module(table.__module__))).items():
            assert signature.__doc__, name
            assert getattr(signature, "_is_protocol", False), name  # typing.is_protocol exists since Python 3.13
