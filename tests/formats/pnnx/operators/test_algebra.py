"""Products, norms, cumulative values and quantiles: rejected operands, and empty and long axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.formats.pnnx.nets import computed, net_of
from tests.support.refusals import refused

ROW = np.float32([1, 2, 3])
ROWS = np.float32([[1, 2, 3], [4, 5, 6]])
COMPLEX = np.array([1 + 2j], np.complex64)


@pytest.mark.parametrize(
    ("type", "operands", "texts"),
    [
        ("aten::linalg_matrix_norm", [ROWS, 2, (-2, -1)], ["ord=2", "need singular values", "fix:"]),
        ("aten::linalg_matrix_norm", [ROWS, "nuc", (-2, -1)], ["ord='nuc'", "fro, 1, -1, inf, -inf"]),
        ("aten::linalg_matrix_norm", [ROWS, "fro", (0, 0)], ["dim=(0, 0)", "dim must be two axes"]),
        ("aten::linalg_norm", [ROWS[None], 2, None], ["dim must be one or two axes"]),
        ("aten::linalg_norm", [ROWS, "far", 1], ["p='far'", "p must be a number"]),
        ("aten::linalg_norm", [ROWS, None, None, False, 6], ["dtype=6", "dtype must be None"]),
        ("aten::nansum", [ROWS, 1, False, 6], ["dtype=6", "dtype must be a string"]),
        ("torch.cumprod", [ROWS, 1, 6], ["dtype=6", "dtype must be a string"]),
        ("torch.cumprod", [ROWS, 2], ["axis 2"]),
        ("aten::quantile", [ROWS, 1.5, 1], ["q=1.5", "q must be in 0 … 1"]),
        ("aten::quantile", [ROWS, 0.5, 1, False, "cubic"], ["interpolation='cubic'"]),
        ("aten::quantile", [ROWS, ROW, 1], ["q must be a number"]),
        ("aten::quantile", [ROWS[:, :0], 0.5, 1], ["q=0.5 of 2×0 float32"]),
        ("aten::linalg_matrix_power", [ROWS, 2], ["square matrices"]),
        ("aten::linalg_cross", [ROW[:2], ROW[:2]], ["vectors 2 float32 and 2 float32", "three elements"]),
        ("torch.cross", [ROWS[:, :2], ROWS[:, :2]], ["dim=None"]),
        ("aten::vdot", [COMPLEX, COMPLEX], ["the vectors must be real"]),
        ("aten::trapezoid", [ROWS, ROW[:2], 1], ["points 2 float32 for 2×3 float32", "one point for each element"]),
        ("aten::trapezoid", [ROWS, "wide", 1], ["x is 'wide'", "x must be a tensor of numbers"]),
        (
            "aten::block_diag",
            [ROWS[None], ROWS],
            ["operands 1×2×3 float32, 2×3 float32", "the operands must be matrices"],
        ),
        ("aten::dsplit", [ROWS, 2], ["axis 2"]),
        ("aten::vsplit", [ROWS, 0], ["sections=0", "at least one part"]),
        ("aten::clamp_min", [ROWS, "low"], ["min is 'low'", "min must be a tensor of numbers"]),
        ("aten::dist", [ROWS, ROWS, "far"], ["p='far'", "p must be a number"]),
        ("aten::fliplr", [ROW], ["(aten::fliplr): an operand", "the operand must have 2 axes or more"]),
        ("aten::rot90", [ROWS, 1, (0, -2)], ["dims=(0, 0)", "dims must be two different axes"]),
    ],
)
def test_errors_of_invalid_operands_contain_the_rule(type: str, operands: list[Any], texts: list[str]) -> None:
    with refused(ex.ExplorerError, *texts):
        computed(type, *operands)


@pytest.mark.parametrize(("equation", "shapes"), [("ik,kj->ij", ((2, 3, 4), (2, 4, 5))), ("i,i->", ((3, 5), (5,)))])
def test_an_equation_without_its_ellipsis_raises_an_error_with_the_reason(equation: str, shapes: Any) -> None:
    """pnnx writes ...ij,...jk->...ik as ik,kj->ij, so the file does not contain the ellipsis."""
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    with refused(ex.ExplorerError, "pnnx omits an ellipsis", "write all letters in the module"):
        net_of("torch.einsum", 2, {"equation": equation}).run(*arrays)


def test_repetitions_must_be_nonnegative_integers() -> None:
    for repeats in (np.array([1, -1]), np.float32([1, 2]), np.array([1, 2, 3])):
        net = net_of("torch.repeat_interleave", 2, {"dim": 0}, names={"input": "x0", "repeats": "x1"})
        with refused(ex.ExplorerError, "repeats must be a non-negative integer, or one for each index"):
            net.run(ROWS, repeats)
    large = net_of("torch.repeat_interleave", 2, {"dim": 0}, names={"input": "x0", "repeats": "x1"})
    with refused(ex.ExplorerError, "indices of repeated parts claims a constant of"):
        large.run(ROWS, np.array([2**62, 2**62]))


def test_cumulative_values_of_long_and_empty_axes() -> None:
    numbers = np.random.default_rng(0).normal(size=(3, 1001))
    np.testing.assert_allclose(computed("torch.cumprod", numbers, 1)[0], np.cumprod(numbers, 1), rtol=1e-9)
    high, places = computed("aten::cummax", numbers, 1, outputs=2)
    np.testing.assert_array_equal(high, np.maximum.accumulate(numbers, 1))
    np.testing.assert_array_equal(np.take_along_axis(numbers, places, 1), high)
    assert computed("aten::logcumsumexp", numbers[:, :0], 1)[0].shape == (3, 0)
    assert computed("aten::cummin", np.array(4), 0, outputs=2) == [4, 0]
