"""Hooks are filled when explorer is imported, each by a function of a known signature."""

from __future__ import annotations

import importlib
from typing import get_type_hints

import explorer
from explorer.core.ir.function import CallRules, call_rules
from explorer.core.ir.hooks import Hooks, hooks
from explorer.gradients.call_gradient import call_gradient
from explorer.plan.batching.vectorize import batch_call


def test_every_hook_is_filled() -> None:
    assert explorer
    assert hooks.missing() == []
    assert call_rules == CallRules(call_gradient, batch_call)


def test_every_hook_has_a_signature() -> None:
    """A type checker checks calls through hooks, and the functions that fill them: none is a bare Callable."""
    for table in (Hooks, CallRules):
        for name, signature in get_type_hints(table, vars(importlib.import_module(table.__module__))).items():
            assert signature.__doc__, name
            assert getattr(signature, "_is_protocol", False), name  # typing.is_protocol is of Python 3.13
