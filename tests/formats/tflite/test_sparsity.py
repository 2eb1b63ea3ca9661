"""Sparse constants are densified as in the interpreter; invalid levels raise an error."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from assets.tflite_models import Case, Tensor
from explorer.formats.tflite.model_parts import Level, Sparsity

FAR = 2**31 - 1


def encoded(dense: np.ndarray[Any, Any], formats: tuple[bool, ...]) -> tuple[list[Level], np.ndarray[Any, Any]]:
    """Return the levels of an array, axis by axis, with sparse ones lacking empty children, and its elements."""
    parents: list[tuple[int, ...]] = [()]
    levels = []
    for axis, is_sparse in enumerate(formats):
        children, starts, coordinates = [], [0], []
        for parent in parents:
            for place in range(dense.shape[axis]):
                if not is_sparse or np.any(dense[(*parent, place)]):
                    children.append((*parent, place))
                    coordinates.append(place)
            starts.append(len(children))
        levels.append(
            Level(0, np.array(starts), np.array(coordinates, np.int64)) if is_sparse else Level(dense.shape[axis])
        )
        parents = children
    return levels, np.array([dense[place] for place in parents], dense.dtype)


@given(st.integers(0, 2**32 - 1), st.sampled_from([*product((True, False), repeat=3)]))
def test_any_levels_give_the_tensor_again(seed: int, formats: tuple[bool, ...]) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.integers(1, 9, (3, 2, 4)) * (rng.random((3, 2, 4)) < 0.3)
    levels, values = encoded(dense, formats)
    tensor = Sparsity((0, 1, 2), (), tuple(levels)).dense(values, dense.shape)
    np.testing.assert_array_equal(tensor, dense)


WRONG = {
    "order": ((0, 0), (), (3, 4), "2 levels in the order (0, 0)"),
    "few levels": ((0, 1), (), (3,), "1 levels in the order"),
    "block": ((0, 1, 2), (5,), (3, 4, 2), "blocks of the axes (5,)"),
    "two blocks": ((0, 1, 2, 3), (0, 0), (3, 4, 1, 1), "blocks of the axes (0, 0)"),
    "long": ((0, 1), (), (FAR, 4), "a dense level of length 2,147,483,647"),
    "nothing": ((0, 1), (), (3, -1), "a dense level of length -1"),
    "starts": ((0, 1), (), (3, ([0, 1], [0])), "a sparse level with 2 starts"),
    "backwards": ((0, 1), (), (3, ([0, 3, 1, 4], [0, 1, 2, 3])), "without some of its children"),
    "negative": ((0, 1), (), (3, ([-2, 0, 1, 4], [0, 1, 2, 3])), "without some of its children"),
    "beyond": ((0, 1), (), (3, ([0, 1, 2, FAR], [0, 1, 2, 3])), "without some of its children"),
    "elements": ((0, 1), (), (3, ([0, 1, 2, 3], [0, 1, 2])), "4 elements for 3 positions"),
    "ends": ((0, 1), (), (3, ([0, 2, 3, 4], [0, 9, 1, 2])), "positions outside the shape"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_levels_that_do_not_match_the_tensor_raise_an_error(name: str, tmp_path: Path) -> None:
    order, blocks, levels, problem = WRONG[name]
    tensor = Tensor((3, 4), data=np.ones(4, np.float32), sparsity=(order, blocks, levels))
    path = tmp_path / "m.tflite"
    path.write_bytes(Case("DENSIFY", [tensor]).file())
    net = ex.open(path)
    with pytest.raises(ex.OperandError) as raised:
        net.run()
    assert problem in str(raised.value)


def test_a_scalar_has_no_levels() -> None:
    with pytest.raises(ex.OperandError, match="0 levels"):
        Sparsity((), (), ()).dense(np.ones(1), ())


def test_a_dense_tensor_is_allocated_only_within_the_budget(tmp_path: Path) -> None:
    tensor = Tensor((2**20, 2**20), data=np.ones(1, np.float32), sparsity=((0, 1), (), (([0, 1], [0]), ([0, 1], [0]))))
    path = tmp_path / "m.tflite"
    path.write_bytes(Case("DENSIFY", [tensor]).file())
    with pytest.raises(ex.ExplorerError, match="claims"):
        ex.open(path).run()
