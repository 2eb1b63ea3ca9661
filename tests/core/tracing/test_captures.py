"""Dependencies of a traced body: attributes of classes, and explicitly noted ones."""

from __future__ import annotations

import builtins
import os
from builtins import eval as evaluated
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.tracing.captures import note
from tests.support.refusals import refused


class Scaled:
    factor = 2.0

    def of(self, x: ex.Expr) -> ex.Expr:
        return x * self.factor


def test_attributes_of_classes_and_methods_are_watched() -> None:
    """A body is traced again after an attribute of a used object's class was rebound."""
    held = Scaled()

    @ex.function
    def f(x: ex.Expr) -> ex.Expr:
        return held.of(x)

    assert ex.evaluate(f(np.ones(1))) == 2
    Scaled.factor = 3.0
    try:
        assert ex.evaluate(f(np.ones(1))) == 3
        assert ex.evaluate(f(np.ones(1))) == 3
        assert f.traces == 2
    finally:
        Scaled.factor = 2.0


def test_noted_dependencies_are_inherited_through_functions_traced_before() -> None:
    """A body depends on everything noted while it, or a function that it calls, was traced."""

    held = {"factor": ex.tensor(2.0)}

    @ex.function
    def inner(x: ex.Expr) -> ex.Expr:
        note(lambda: held["factor"])
        return x * held["factor"]

    inner(np.ones(1))

    @ex.function
    def outer(x: ex.Expr) -> ex.Expr:
        return inner(x) + 1

    assert ex.evaluate(outer(np.ones(1))) == 3
    held["factor"] = ex.tensor(5.0)
    assert ex.evaluate(outer(np.ones(1))) == 6


class Stubborn(type):
    def __getattr__(cls, name: str) -> Any:
        raise KeyError(name)


class Odd(metaclass=Stubborn):
    pass


def test_a_class_whose_metaclass_raises_can_be_captured() -> None:
    """Its ``__getattr__`` raises another error than AttributeError, so it is not looked up."""
    held = Odd()

    @ex.function
    def f(x: ex.Expr) -> ex.Expr:
        return x if held is None or Odd is None else x * 2

    assert ex.evaluate(f(np.ones(1))) == 2
    for value, reason in ((Odd, "KeyError"), (held, "object")):
        with refused(ex.OperandError, reason):
            ex.tensor(value)


number = 2.0


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x * builtins.eval("number"),
        lambda x: x * evaluated("number"),
        lambda x: x * builtins.globals()["number"],
    ],
)
def test_variables_without_a_name_in_the_code_raise_an_error_however_they_are_read(body: Callable[..., Any]) -> None:
    with pytest.raises(ex.DeclarationError, match=r"uses (eval|globals)"):
        ex.function(body)(np.ones(1))


@pytest.mark.skipif(not os.supports_bytes_environ, reason="needs an environment of bytes")
def test_the_environment_is_also_watched_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    variables, read = os.environb, os.getenvb
    for factor in (
        lambda: float(variables[b"EXPLORER_TEST_FACTOR"]),
        lambda: float(read(b"EXPLORER_TEST_FACTOR") or b"0"),
        lambda: float(os.environb[b"EXPLORER_TEST_FACTOR"]),
    ):
        monkeypatch.setenv("EXPLORER_TEST_FACTOR", "2")

        @ex.function
        def f(x: ex.Expr, factor: Callable[[], float] = factor) -> ex.Expr:
            return x * factor()

        assert ex.evaluate(f(np.ones(1))) == 2
        monkeypatch.setenv("EXPLORER_TEST_FACTOR", "3")
        assert ex.evaluate(f(np.ones(1))) == 3
