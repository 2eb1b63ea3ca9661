"""``print(y)``: the nested form of an expression."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex


@pytest.mark.spec("M-O7")
def test_an_expression_is_printed_as_nested_operations() -> None:
    """print(y) shows operations, attributes, names, categories and types, and shared values once."""
    x = ex.tensor(np.ones((2, 3)))
    weight = ex.tensor(np.ones((3, 4), np.float32), name="w1")
    hidden = ex.tanh(x @ weight)
    y = ex.softmax((hidden * hidden).sum(axis=0) + 2.0)
    assert str(y).splitlines() == [
        "softmax(axes=(0,)): vector 4 float64",
        "  add: vector 4 float64",
        "    sum(axes=(0,), keepdims=False): vector 4 float64",
        "      multiply: matrix 2×4 float64",
        "        %1 = tanh: matrix 2×4 float64",
        "          matmul: matrix 2×4 float64",
        "            x: matrix 2×3 float64",
        "            w1: matrix 3×4 float32",
        "        %1",
        "    2: scalar float64",
    ]
    assert str(x) == "x: matrix 2×3 float64"
    assert "three-d array 2×2×3" in str(ex.stack([x, x]))


@pytest.mark.spec("M-O7")
def test_calls_and_their_outputs_are_printed_by_name() -> None:
    @ex.function
    def both(v: ex.Expr) -> tuple[ex.Expr, ex.Expr]:
        return ex.exp(v), v + 1

    first, second = both(ex.tensor([1.0, 2.0], name="v"))
    assert str(first + second).splitlines() == [
        "add: vector 2 float64",
        "  item(index=0): vector 2 float64",
        "    %1 = both: (2 float64, 2 float64)",
        "      v: vector 2 float64",
        "  item(index=1): vector 2 float64",
        "    %1",
    ]


@pytest.mark.spec("M-O7")
def test_a_large_expression_is_truncated_with_a_count() -> None:
    """Print a readable part of a chain of 100,000 operations, and of one with 2¹⁰⁰ paths."""
    deep = wide = ex.tensor([1.0])
    for _ in range(100_000):
        deep = ex.tanh(deep)
    lines = str(deep).splitlines()
    assert len(lines) == 61
    assert lines[-1] == "… 99,941 more nodes"
    for _ in range(100):
        wide = wide + wide
    text = str(wide)
    assert text.count("%") < 61
    assert text.splitlines()[-1] == "… 41 more nodes"


def test_repeated_nodes_are_counted() -> None:
    x = ex.tensor([1.0], name="x")
    total = ex.add_n(*[x] * 100)
    assert str(total).splitlines()[-1] == "… 41 more lines of the same nodes"
