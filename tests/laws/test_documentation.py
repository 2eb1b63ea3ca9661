"""Facets are documented once, where they are declared; every other public method says what it does."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import pytest

import explorer
from explorer.core.ir.function import CallRules, call_rules
from explorer.core.ir.hooks import Hooks, hooks
from explorer.grad.call_gradient import call_gradient
from explorer.plan.batching.vectorize import batch_call

PACKAGES = ("core", "ops", "grad", "data")


def modules() -> list[ModuleType]:
    results = []
    for package in PACKAGES:
        root = importlib.import_module(f"explorer.{package}")
        results += [
            importlib.import_module(f"{root.__name__}.{info.name}") for info in pkgutil.walk_packages(root.__path__)
        ]
    return results


def undocumented(cls: type) -> list[str]:
    """Public methods and properties of a class that have no docstring, and override none that has one."""
    results = []
    for name, member in vars(cls).items():
        call: Any = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if name.startswith("_") or not inspect.isfunction(call) or call.__doc__:
            continue
        inherited = [vars(base)[name] for base in cls.__mro__[1:] if name in vars(base)]
        if not any((getattr(member, "__func__", member)).__doc__ for member in inherited):
            results.append(f"{cls.__qualname__}.{name}")
    return results


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.__name__)
def test_everything_public_is_documented(module: ModuleType) -> None:
    assert module.__doc__
    missing = []
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(value):
            missing += undocumented(value)
        if (inspect.isclass(value) or inspect.isfunction(value)) and not name.startswith("_") and not value.__doc__:
            missing.append(name)
    assert not missing


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


def test_docstrings_name_the_thing() -> None:
    """A docstring begins with a verb or a noun of the field, not with a relative clause ("What was given")."""
    clause = re.compile(r"(What|Who|Whom|Whose|That|Which|Where|When) ")
    results = []
    for path in sorted(Path(explorer.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                results += [f"{path.name}: {text.splitlines()[0]}"] if clause.match(text) else []
    assert not results
