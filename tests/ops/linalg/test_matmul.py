"""Tiles of matrix products."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.ops.linalg.matmul import Matmul


def _places(rows: int, inner: int, columns: int) -> list[tuple[int, int]]:
    a, b = np.ones((rows, inner), np.float32), np.ones((inner, columns), np.float32)
    out = np.empty((rows, columns), np.float32)
    tiles = Matmul().tiles(out, None, a, b)
    for tile in tiles:
        tile.compute()
    assert (out == inner).all()
    sizes = {tuple(part.stop - part.start for part in tile.region) for tile in tiles}
    assert len(sizes) == 1
    return [*sizes] * len(tiles)


@pytest.mark.parametrize(
    ("product", "tiles", "tile"),
    [
        ((64, 64, 128), 1, (64, 128)),
        # Rows are contiguous and a result's columns are not, so more columns than rows are no reason to split columns.
        ((256, 64, 512), 2, (128, 512)),
        ((512, 64, 1024), 8, (128, 512)),
        # A tile of 64 columns would pack the whole left operand again for little arithmetic.
        ((64, 512, 2048), 8, (64, 256)),
        ((128, 1024, 4096), 16, (128, 256)),
        ((512, 1024, 1024), 16, (128, 256)),
        ((16, 64, 64), 1, (16, 64)),
    ],
)
def test_tiles_are_whole_rows_if_there_are_enough(
    product: tuple[int, int, int], tiles: int, tile: tuple[int, int]
) -> None:
    assert _places(*product) == [tile] * tiles


@pytest.mark.parametrize("rows", [2, 3, 16, 32, 33])
def test_few_rows_times_a_transposed_matrix(rows: int) -> None:
    """Weights of linear layers have this layout: the transposed product is copied, also to strided columns."""
    random = np.random.default_rng(rows)
    weights = random.standard_normal((512, 160)).astype(np.float32)
    for lead in ((), (1,), (1, 1), (2,)):
        x = random.standard_normal((*lead, rows, 160)).astype(np.float32)
        expected = x.astype(np.float64) @ weights.T.astype(np.float64)
        result = Matmul().compute(x, weights.T)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
        wide = np.full((*lead, rows, 600), np.nan, np.float32)
        for tile in Matmul().tiles(wide[..., 40:552], None, x, weights.T):
            tile.compute()
        np.testing.assert_allclose(wide[..., 40:552], expected, rtol=1e-4, atol=1e-4)
        assert np.isnan(wide[..., :40]).all()
        assert np.isnan(wide[..., 552:]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 0, 4), (1, 64, 10), (64, 10, 1), (64, 64, 128), (129, 17, 65)])
def test_a_product_of_two_matrices_has_the_bits_of_matmul_in_any_layout(shape: Any, dtype: str) -> None:
    rows, depth, columns = shape
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(rows, depth)).astype(dtype), rng.normal(size=(depth, columns)).astype(dtype)
    expected = np.matmul(a, b)
    for left in (a, np.asfortranarray(a), np.repeat(a, 2, axis=1)[:, ::2]):
        for right in (b, np.asfortranarray(b), b[:, ::-1].copy()[:, ::-1]):
            for out in (np.empty_like(expected), np.full((rows, 2 * columns), 7, dtype)[:, :columns]):
                Matmul().bind_kernel(out, left, right)()
                np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
                if left is a and right is b:
                    assert out.tobytes() == expected.tobytes()


def test_few_rows_times_a_transposed_matrix_are_one_product_with_few_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    weights, x = np.ones((512, 160), np.float32), np.ones((16, 160), np.float32)
    operands = []
    product = np.matmul
    monkeypatch.setattr(np, "matmul", lambda a, b, out: operands.append((a.shape, b.shape)) or product(a, b, out))
    assert (Matmul().compute(x, weights.T) == 160).all()
    assert operands == [((512, 160), (160, 16))]


@pytest.mark.parametrize("first", ["int64", "int8", "float32"])
@pytest.mark.parametrize("second", ["float16", "float32", "float64"])
def test_einsum_converts_operands_before_it_sums_them(first: str, second: str) -> None:
    """With an axis of size 1 the other operand is summed first, in the result's dtype, as in NumPy."""
    a, b = np.array([[2]], first), np.array([[1], [-2e-10]], second)
    right = np.einsum("...i,ij->...j", a, b)
    result = ex.evaluate(ex.einsum("...i,ij->...j", ex.tensor(a), ex.tensor(b)))
    assert result.dtype == right.dtype
    np.testing.assert_allclose(result, right, rtol=float(np.finfo(right.dtype).eps))


def test_the_fix_of_a_product_of_other_sizes_is_possible() -> None:
    """A transpose is proposed only if it fits; otherwise the fix states the sizes, with the names of variables."""
    x, w, v = ex.tensor(np.ones((64, 20))), np.ones((32, 5)), np.ones((5, 20))
    for product, fix in (
        (lambda: x @ w, "w must have 20 rows, or x 32 columns"),
        (lambda: w @ x, "x must have 5 rows, or w 64 columns"),
        (lambda: ex.matmul(x, w), "w must have 20 rows, or x 32 columns"),
        (lambda: x @ v, "write x @ v.T"),
        (lambda: ex.tanh(x) @ ex.tanh(v), "write a @ b.T"),
        (lambda: ex.tanh(x) @ w[0], "b must have 20 elements, or a 5 columns"),
        (lambda: ex.tensor(np.ones((5, 3))) @ ex.tensor(np.ones((5, 2)), name="y"), "write a.T @ y"),
        (lambda: ex.tensor(np.ones((2, 3)), name="b") @ ex.tensor(np.ones((4, 2)), name="a"), "write a @ b"),
    ):
        with pytest.raises(ex.OperandError) as caught:
            product()
        assert caught.value.fix == fix
    assert "the last axis of b (3) and the second last axis of a (4)" in caught.value.rule


def test_the_error_of_a_product_names_parameters_and_results() -> None:
    """A parameter called a is not renamed, and a result has the name of its variable."""
    w = ex.tensor(np.ones((5, 6)), name="w")
    h = ex.tanh(ex.tensor(np.ones((3, 4))))

    @ex.function
    def f(a: ex.Expr) -> ex.Expr:
        return a @ w

    for product, name in ((lambda: f(h), "a"), (lambda: h @ w, "h")):
        with pytest.raises(ex.OperandError, match=rf"\({name}, w\)") as caught:
            product()
        assert caught.value.rule.startswith(f"the last axis of {name} (4)")
        assert caught.value.fix == f"w must have 4 rows, or {name} 5 columns"


def test_the_traceback_of_a_wrong_product_states_the_error_once() -> None:
    """A traceback of plain Python contains neither the message twice nor the frames of type inference."""
    x, w = ex.tensor(np.ones((64, 20))), np.ones((32, 5))
    with pytest.raises(ex.OperandError) as caught:
        x @ w
    text = "".join(traceback.format_exception(caught.value))
    assert text.count("matmul of 64×20 float64, 32×5 float64 (x, w)") == 1
    assert "During handling" not in text
    assert "in infer" not in text
