"""Search, distances, diagonals and grids: rejected operands, and the cost of hostile sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.formats.pnnx.nets import computed, net_of
from tests.support.refusals import refused

ROW = np.float32([1, 2, 3])
ROWS = np.float32([[1, 2, 3], [4, 5, 6]])
WHOLE = np.array([1, 2, 3])


@pytest.mark.parametrize(
    ("type", "operands", "texts"),
    [
        (
            "aten::searchsorted",
            [ROW, ROW, False, True, "left", None],
            ["side='left', right=True", "side must not be left"],
        ),
        ("aten::searchsorted", [ROW, ROW, False, False, "middle", None], ["side='middle'"]),
        ("aten::searchsorted", [ROWS, ROW], ["elements 3 float32 among 2×3 float32", "one for each row of elements"]),
        ("aten::searchsorted", [ROW, ROW, False, False, None, WHOLE[:2]], ["sorter must have the shape (3,)"]),
        ("aten::bucketize", [ROW, ROWS], ["boundaries 2×3 float32", "one sorted row"]),
        ("aten::bucketize", [ROW, ROW, 1], ["out_int32=1", "out_int32 must be True or False"]),
        ("aten::cosine_similarity", [WHOLE, WHOLE, 0], ["vectors 3 int64 and 3 int64", "must be floating"]),
        ("aten::cosine_similarity", [ROW, ROWS[:, :2], 0], ["must be floating-point and have shapes that broadcast"]),
        ("aten::cosine_similarity", [ROW, ROW, 3], ["axis 3"]),
        ("aten::narrow", [ROW, 0, 2, 2], ["along an axis of size 3", "the range must be within the axis"]),
        ("aten::narrow", [ROW, 0, -4, 2], ["start=-4"]),
        ("aten::narrow", [ROW, 0, 1, -1], ["length=-1"]),
        ("aten::diagonal", [ROWS, 0, 1, -1], ["dim1=1, dim2=-1", "the axes must be different"]),
        ("torch.diag", [ROWS[None]], ["a vector or a matrix"]),
        ("aten::diagflat", [ROW, 10**6], ["elements of a diagonal matrix claims a constant of"]),
        ("aten::meshgrid", [ROW, "yx"], ["indexing='yx'", "ij or xy"]),
        ("aten::meshgrid", [ROWS, "ij"], ["the operands must be vectors"]),
    ],
)
def test_errors_of_invalid_operands_contain_the_rule(type: str, operands: list[Any], texts: list[str]) -> None:
    with refused(ex.ExplorerError, *texts):
        computed(type, *operands)


def test_a_search_among_many_boundaries_takes_logarithmic_time() -> None:
    """With a hundred thousand elements and boundaries, comparing all pairs would take 10¹⁰ steps."""
    draw = np.random.default_rng(0)
    boundaries, elements = np.sort(draw.normal(size=100_000)), draw.normal(size=100_000)
    for right, side in ((False, "left"), (True, "right")):
        (places,) = computed("aten::searchsorted", boundaries, elements, False, right)
        np.testing.assert_array_equal(places, np.searchsorted(boundaries, elements, side))


def test_indices_of_too_many_windows_raise_an_error_before_allocation() -> None:
    net = net_of("F.max_pool2d", 1, {"kernel_size": 2000, "stride": 1, "padding": 999, "return_indices": True})
    with refused(ex.ExplorerError, "indices of windows claims a constant of"):
        net.run(np.zeros((1, 1, 2000, 2000), np.float32))


def test_a_pooling_with_more_operands_than_torch_raises_an_error(tmp_path: Path) -> None:
    """Level-0 operands have the names in torch's signature, and further ones have none."""
    path = tmp_path / "m.pnnx.param"
    inputs = [f"pnnx.Input in{place} 0 1 {place} #{place}=(1)f32" for place in range(8)]
    line = "aten::avg_pool2d op 8 1 0 1 2 3 4 5 6 7 y"
    path.write_text("\n".join(["7767517", "10 9", *inputs, line, "pnnx.Output out 1 0 y", ""]))
    with refused(ex.ExplorerError, "operator 'op' (aten::avg_pool2d)"):
        raise ex.open(path).problems()["op"]
