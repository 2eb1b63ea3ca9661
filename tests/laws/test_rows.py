"""Rows of operations can be computed separately and from parts, as kernels of fused reductions do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Array
from explorer.testing.laws.cases import Case
from tests.laws.cases import every_case, parameters

CASES = [case for case in every_case() if case.operation.reduced_axes is not None]


def result_of(case: Case, operands: list[Array]) -> Array:
    type_ = case.operation.type_of(tuple([ex.TensorType(array.shape, array.dtype) for array in operands]))
    assert isinstance(type_, ex.TensorType)
    out = np.empty(type_.shape, type_.dtype)
    case.operation.kernel(out, *operands)
    return out


@pytest.mark.spec("P-6")
def test_all_reductions_declare_their_rows() -> None:
    """Sums, means, products, extremes, their indices, any, all, logsumexp and softmax can fuse with producers."""
    names = {case.operation.name for case in CASES}
    assert names >= {"sum", "mean", "prod", "max", "min", "all", "any", "argmax", "argmin", "logsumexp"}
    assert names >= {"softmax", "log_softmax", "softmax_gradient"}


@pytest.mark.spec("P-6")
@pytest.mark.parametrize("case", parameters(CASES))
def test_rows_are_computed_separately(case: Case) -> None:
    """Each index outside the rows, sliced from the operands, gives its part of the result."""
    operands, rows = case.arrays(), case.operation.reduced_axes
    assert rows is not None
    whole = result_of(case, operands)
    assert len({array.shape for array in operands}) == 1
    rank = operands[0].ndim
    for axis in set(range(rank)) - set(rows):
        kept = axis if whole.ndim == rank else axis - sum([other < axis for other in rows])
        for index in range(operands[0].shape[axis]):
            part: Any = (*[slice(None)] * axis, slice(index, index + 1))
            alone = result_of(case, [array[part] for array in operands])
            own: Any = (*[slice(None)] * kept, slice(index, index + 1))
            np.testing.assert_allclose(alone, whole[own], rtol=1e-12)


@pytest.mark.spec("P-6")
@pytest.mark.parametrize("case", parameters([case for case in CASES if case.operation.combine_ufunc is not None]))
def test_parts_of_rows_combine_to_the_value_of_the_row(case: Case) -> None:
    (x,), operation = case.arrays(), case.operation
    whole, rows, joins = result_of(case, [x]), operation.reduced_axes, operation.combine_ufunc
    assert rows is not None
    assert joins is not None
    for axis in rows:
        size = x.shape[axis]
        values = []
        for start, stop in ((0, size // 2), (size // 2, size)):
            if start == stop:
                continue
            part = x[(*[slice(None)] * axis, slice(start, stop))]
            shape = [1 if place in rows else length for place, length in enumerate(x.shape)]
            values.append(operation.partial_reduce(np.empty(shape, operation.partial_dtype(whole.dtype)), part, rows))
        joined = values[0] if len(values) == 1 else joins(*values)
        out = np.empty_like(whole)
        count = int(np.prod([x.shape[place] for place in rows]))
        operation.finalize(out, joined.reshape(whole.shape), count)
        np.testing.assert_allclose(out, whole, rtol=1e-12)
