"""What the body of a function depends on: attributes of classes, and what it is told to depend on."""

from __future__ import annotations

import numpy as np

import explorer as ex
from explorer.core.tracing.captures import note


class Scaled:
    factor = 2.0

    def of(self, x: ex.Expr) -> ex.Expr:
        return x * self.factor


def test_attributes_of_classes_and_methods_are_watched() -> None:
    """A body is recorded again when an attribute of a used object's class was bound to something else."""
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


def test_what_a_body_notes_is_watched_through_functions_that_were_traced_before() -> None:
    """A body depends on what it, or a function that it calls, was told to depend on while it was recorded."""

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
