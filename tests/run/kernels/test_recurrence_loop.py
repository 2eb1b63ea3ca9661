"""Kernels of recurrences against their cells as expressions; gradients and batches equal those of a scan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.ops.control.recurrence import CELLS, recurrence
from explorer.run.kernels.control_flow import KERNELS
from tests.support.interpreter import reference

GATES = {"lstm": 4, "gru": 3, "early gru": 3, "rnn": 1, "relu rnn": 1}
LENGTH, HIDDEN = 6, 5


def operands(cell: str, members: int, bias: bool, axis: int, dtype: str = "float64") -> tuple[Any, ...]:
    random = np.random.default_rng(0)
    width = GATES[cell] * HIDDEN
    shape = (LENGTH, members, width) if axis == 0 else (members, LENGTH, width)

    def drawn(*shape: int) -> ex.Expr:
        return ex.tensor(random.normal(size=shape).astype(dtype))

    state = [drawn(members, HIDDEN) for _ in range(2 if cell == "lstm" else 1)]
    return drawn(*shape), drawn(HIDDEN, width), drawn(width) if bias else None, state


def unrolled(cell: str, x: Any, weights: Any, bias: Any, state: Any, axis: int, reverse: bool) -> list[ex.Expr]:
    outputs: list[Any] = [None] * LENGTH
    for index in range(LENGTH)[:: -1 if reverse else 1]:
        state = CELLS[cell](x[index] if axis == 0 else x[:, index], weights, bias, *state)
        outputs[index] = state[0]
    return [ex.stack(outputs, axis), *state]


def test_every_cell_has_a_kernel() -> None:
    assert CELLS.keys() == KERNELS.keys() == GATES.keys()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("cell", GATES)
def test_a_kernel_equals_the_steps(cell: str, members: int, bias: bool, axis: int, reverse: bool) -> None:
    for dtype, tolerance in (("float64", 1e-13), ("float32", 3e-6)):
        x, weights, offset, state = operands(cell, members, bias, axis, dtype)
        sequence, last = recurrence(cell, cell, x, weights, offset, state, axis, reverse)
        expected = unrolled(cell, x, weights, offset, state, axis, reverse)
        for one, other in zip([sequence, *last], expected, strict=True):
            result = ex.evaluate(one)
            assert result.dtype == dtype
            np.testing.assert_allclose(result, ex.evaluate(other), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("cell", GATES)
def test_half_precision_runs_the_cell(cell: str) -> None:
    x, weights, bias, state = operands(cell, 2, True, 0, "float16")
    sequence, _ = recurrence(cell, cell, x, weights, bias, state)
    expected = unrolled(cell, x, weights, bias, state, 0, False)[0]
    np.testing.assert_allclose(ex.evaluate(sequence), ex.evaluate(expected), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("cell", GATES)
def test_gradients_equal_those_of_the_steps(cell: str) -> None:
    x, weights, bias, state = operands(cell, 2, True, 0)
    sequence, last = recurrence(cell, cell, x, weights, bias, state)
    steps, *end = unrolled(cell, x, weights, bias, state, 0, False)
    over = [x, weights, bias, *state]
    gradient = ex.grad((sequence * sequence).sum() + last[-1].sum(), over)
    wanted = ex.grad((steps * steps).sum() + end[-1].sum(), over)
    for one, other in zip(ex.evaluate(gradient), ex.evaluate(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_operands_are_not_modified() -> None:
    x, weights, bias, state = operands("lstm", 1, True, 0)
    held = [np.array(value.array) for value in (x, weights, bias, *state)]
    sequence, _ = recurrence("lstm", "lstm", x, weights, bias, state)
    for _ in range(2):
        first = np.array(ex.evaluate(sequence))
    np.testing.assert_array_equal(first, ex.evaluate(sequence))
    for value, before in zip((x, weights, bias, *state), held, strict=True):
        np.testing.assert_array_equal(value.array, before)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("cell", GATES)
def test_sequences_with_different_lengths(cell: str, axis: int, reverse: bool) -> None:
    """The kernel and the gradients equal the body's, even for lengths of 0 and beyond the end."""
    x, weights, bias, state = operands(cell, 5, True, axis)
    lengths = ex.tensor(np.array([3, LENGTH, 0, 3, LENGTH + 4]))
    sequence, last = recurrence(cell, cell, x, weights, bias, state, axis, reverse, lengths)
    expected = [np.asarray(value) for value in reference([sequence, *last])]
    for one, other in zip([sequence, *last], expected, strict=True):
        np.testing.assert_allclose(ex.evaluate(one), other, rtol=1e-12, atol=1e-13)
    (slope,) = ex.evaluate(ex.grad((sequence * sequence).sum(), [x]))
    outside = np.moveaxis(slope, axis, 0)
    assert not outside[3:, [0, 3]].any()
    assert not outside[:, 2].any()
    assert outside[:3, 0].any()
