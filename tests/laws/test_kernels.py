"""Laws of types and kernels, over every operation."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.expr import Operation
from explorer.core.ir.function import Call, Parameter
from explorer.core.ir.tensor import Stored
from explorer.core.types.tensor_type import TensorType
from explorer.testing.laws.cases import Case
from explorer.testing.laws.facets import (
    garbage_does_not_matter,
    inferred_type_is_the_kernels,
    operands_may_be_overwritten,
    operands_stay,
)
from tests.laws.cases import every_case, operations, parameters
from tests.support.refusals import refused

CASES = [case for case in every_case() if not isinstance(case.operation, (Parameter, Stored))]
COMPUTED = [case for case in CASES if not case.operation.view]
DTYPES = ("float64", "float32")


def test_examples_cover_every_operation() -> None:
    """Calls and what takes their several outputs have no operands of their own to draw; all others have examples."""
    without = [operation_class for operation_class in operations() if not operation_class.examples]
    assert {"call", "item"} <= {operation_class.name for operation_class in without}
    assert all(operation_class.takes_tuples for operation_class in without)


@pytest.mark.spec("M-O1", "M-O6", "C-18")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", parameters(CASES))
def test_inferred_type_is_the_kernels_type(case: Case, dtype: str) -> None:
    """The type that is known when an expression is written is the type of the value that its kernel computes."""
    inferred_type_is_the_kernels(case, dtype)


@pytest.mark.parametrize("case", parameters(CASES))
def test_the_kernel_alone_decides_what_it_returns(case: Case) -> None:
    """Computed without an array to write into, the kernel's own choice of dtype and shape is what was inferred."""
    arrays = case.arrays()
    value = ex.evaluate(case.operation(*arrays)) if arrays else ex.evaluate(case.operation())
    type_ = case.operation.type_of(tuple(TensorType(array.shape, array.dtype) for array in arrays))
    assert (value.shape, value.dtype) == (type_.shape, type_.dtype)
    np.testing.assert_array_equal(value, case.operation.compute(*arrays))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", parameters(COMPUTED))
def test_what_memory_held_before_does_not_matter(case: Case, dtype: str) -> None:
    """A result written over garbage equals one in fresh memory."""
    garbage_does_not_matter(case, dtype)


@pytest.mark.parametrize("case", parameters(COMPUTED))
def test_kernels_leave_their_operands_alone(case: Case) -> None:
    operands_stay(case)
    arrays = case.arrays()
    for array in arrays:
        array.flags.writeable = False
    case.operation.compute(*arrays)


@pytest.mark.parametrize("case", parameters(COMPUTED))
def test_kernels_read_operands_in_any_memory_order(case: Case) -> None:
    """Transposed, reversed and broadcast operands give the values that dense ones give, up to rounding."""
    arrays = case.arrays()
    expected = case.operation.compute(*arrays)
    reordered = [array.copy(order="F") for array in arrays]
    reversed_ = [np.flip(np.flip(array).copy()) if array.ndim else array for array in arrays]
    for operands in (reordered, reversed_):
        np.testing.assert_allclose(case.operation.compute(*operands), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("case", parameters(case for case in CASES if case.operation.reuses_operand))
def test_operations_that_reuse_an_operand_may_write_over_it(case: Case) -> None:
    operands_may_be_overwritten(case)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", parameters(COMPUTED))
def test_a_bound_kernel_computes_what_the_kernel_does(case: Case, dtype: str) -> None:
    """Each time from what the arrays that it was bound to hold then, bit for bit."""
    arrays = case.arrays(dtype)
    out = np.empty_like(case.operation.compute(*arrays))
    bound = case.operation.bind_kernel(out, *arrays)
    for seed in (1, 0, 1):
        for array, drawn in zip(arrays, case.arrays(dtype, seed), strict=True):
            np.copyto(array, drawn)
        with np.errstate(all="ignore"):
            assert bound() is out
        assert out.tobytes() == case.operation.compute(*arrays).tobytes()


@pytest.mark.parametrize("other", [0.0, -0.0, 2.0])
def test_a_bound_choice_reads_its_number_each_time(other: float) -> None:
    condition, a, b = np.array([True, False]), np.array([np.nan, np.inf], np.float32), np.zeros((), np.float32)
    out = np.empty(2, np.float32)
    bound = ex.where(condition, a, b).operation.bind_kernel(out, condition, a, b)
    for number in (0.0, other, 0.0):
        b[...] = number
        assert bound() is out
        assert out.tobytes() == np.where(condition, a, b).tobytes()


@pytest.mark.parametrize("case", parameters([case for case in CASES if case.operation.view]))
def test_views_own_no_memory(case: Case) -> None:
    """A view shares its first operand's memory, or is a constant of a few bytes: one number, or those it lists."""
    arrays = case.arrays()
    value = case.operation.compute(*arrays)
    if arrays:
        assert value.size == 0 or np.shares_memory(value, arrays[0])
    else:
        assert value.base is not None or value.size <= 1
        listed = case.operation.attributes.get("elements", ())
        assert len(listed) == value.size or all(stride == 0 for stride in value.strides)


@pytest.mark.parametrize("case", parameters(CASES))
def test_flops_are_counted(case: Case) -> None:
    flops = case.operation.flops(case.operation.type_of(case.types), *case.types)
    assert isinstance(flops, int)
    assert flops >= 0


@pytest.mark.parametrize("case", parameters(CASES))
def test_operations_are_interned_and_rebuilt(case: Case) -> None:
    """Equal attributes give one object, also through pickle and through its text."""
    operation: Operation = case.operation
    assert type(operation)(**case.example.attributes) is operation
    assert pickle.loads(pickle.dumps(operation)) is operation
    assert repr(operation).startswith(operation.name + "(")


def test_a_call_is_run_by_planning_its_body() -> None:
    @ex.function
    def double(x: ex.Expr) -> ex.Expr:
        return x + x

    call = double(ex.tensor([1.0])).operation
    assert isinstance(call, Call)
    with refused(ex.StateError):
        call.kernel(None)


@pytest.mark.spec("T-10", headline=True)
@pytest.mark.parametrize("case", parameters(CASES))
def test_an_operation_makes_a_new_tensor_and_keeps_the_old_ones(case: Case) -> None:
    """Return a new tensor from every operation; its operands are unchanged."""
    arrays = [np.asarray(array) for array in case.arrays()]
    tensors = [ex.tensor(array) for array in arrays]
    before = [tensor.array.tobytes() for tensor in tensors]
    result = case.operation(*tensors)
    assert not any(result is tensor for tensor in tensors) or case.operation.view
    ex.evaluate(result)
    assert [tensor.array.tobytes() for tensor in tensors] == before
