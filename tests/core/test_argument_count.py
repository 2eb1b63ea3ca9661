"""Calls with too many arguments, and user functions with too few or too many parameters."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.argument_checks import named


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: ex.open("n.onnx", x, x), "open of 3 arguments by position"),
        (lambda x: ex.open("n.onnx", x, x), "at most 2 by position: path, example_inputs, and by name weights,"),
        (
            lambda x: ex.open("n.onnx", x, x),
            "fix: open(path, example_inputs), where several values for one of them are a tuple",
        ),
        (lambda x: ex.grad(lambda x: x, x), "fix: ex.grad(function(x), [x])"),
        (lambda x: ex.EvalPlan().register([x, x]), "fix: register each: "),
        (lambda x: ex.reshape(x, (4, 2)), "the new shape (4, 2) must have 6 elements like the old one, not 8"),
        (
            lambda x: ex.scan(lambda s, e: (s, s), x, (x, ex.tensor(np.ones(3)))),
            "fix: truncate them to equal lengths: ",
        ),
        (lambda x: ex.pattern(3), "the formula '3': it is an int, not a string"),  # type: ignore[arg-type]
        (lambda x: ex.Net("n").Relu(3, "y"), "inputs (3,)\n  rule: blobs must be given by name"),
    ],
)
def test_too_many_arguments_are_counted_with_the_fix(call, said: str) -> None:
    """The error contains the allowed number, and suggests a tuple for several values."""
    with pytest.raises(ex.OperandError) as caught:
        call(ex.tensor(np.ones((2, 3))))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: ex.while_loop(lambda i, x: i < 3, lambda s: s, (x, x)), "condition must take 1 argument: state"),
        (lambda x: ex.while_loop(lambda s: s[0], lambda i, x: (i, x), (x, x)), "body must take 1 argument: state"),
        (lambda x: ex.while_loop(lambda s: s[0], lambda i, x: (i, x), (x, x)), "is one tuple: a, b = state"),
        (lambda x: ex.scan(lambda s: s, x, x), "step must take 2 arguments: state, element"),
        (lambda x: ex.cond(ex.sum(x) > 0, lambda: x, lambda x: x, x), "then must take 1 argument: x0"),
        (lambda x: ex.cond(ex.sum(x) > 0, lambda: x, lambda x: x), "otherwise must take 0 arguments"),
        (lambda x: module().add_node(lambda a, b: a + b), "a node's function must have one argument"),
    ],
)
def test_a_function_with_the_wrong_number_of_parameters_raises_an_error_before_the_call(call, said: str) -> None:
    """Python's own error would come from inside and name no argument of the user's call."""
    with pytest.raises(ex.DeclarationError) as caught:
        call(ex.tensor(np.ones((2, 3))))
    assert said in str(caught.value)


def test_functions_without_a_signature_and_with_defaults_are_called() -> None:
    """Optional parameters are allowed, and a function with an unknown signature is tried."""
    x = ex.tensor(np.ones(2))
    np.testing.assert_array_equal(ex.evaluate(ex.cond(True, lambda x, y=1: x + y, lambda *xs: xs[0], x)), [2, 2])
    module().add_node(np.tanh)


def module() -> ex.train.Module:
    """Return a module without nodes."""
    return ex.train.Module("m", loss=ex.train.CrossEntropy(), optimizer=ex.train.SGD(0.1))


def test_the_signature_of_a_wrapper_is_its_own() -> None:
    """functools.wraps exposes the wrapped function's signature, which has one more parameter."""

    def scaled(x: ex.Expr, factor: float) -> ex.Expr:
        return x * factor

    @functools.wraps(scaled)
    def doubled(x: ex.Expr) -> ex.Expr:
        return scaled(x, 2.0)

    y = ex.cond(ex.tensor(True), doubled, doubled, ex.tensor([1.0, 2.0]))
    np.testing.assert_array_equal(ex.evaluate(y), [2.0, 4.0])


def test_a_default_does_not_replace_a_missing_argument() -> None:
    @named
    def pair(a: Any, b: int = 1, /) -> tuple[Any, int]:
        return a, b

    assert pair(3) == (3, 1)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        pair()  # type: ignore[call-arg]
