"""Laws about types and kernels of every operation."""

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
from explorer.testing.laws.method_laws import (
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
    """Calls and items of their outputs are exempt, since they cannot draw operands; all others have examples."""
    without = [operation_class for operation_class in operations() if not operation_class.examples]
    assert {"call", "item"} <= {operation_class.name for operation_class in without}
    assert all(operation_class.takes_tuples for operation_class in without)


@pytest.mark.spec("M-O1", "M-O6", "C-18")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", parameters(CASES))
def test_the_inferred_type_is_the_type_of_the_computed_value(case: Case, dtype: str) -> None:
    inferred_type_is_the_kernels(case, dtype)


@pytest.mark.numpy_bits
@pytest.mark.parametrize("case", parameters(CASES))
def test_a_kernel_without_out_returns_the_inferred_type(case: Case) -> None:
    arrays = case.arrays()
    value = ex.evaluate(case.operation(*arrays)) if arrays else ex.evaluate(case.operation())
    type_ = case.operation.type_of(tuple(TensorType(array.shape, array.dtype) for array in arrays))
    assert (value.shape, value.dtype) == (type_.shape, type_.dtype)
    np.testing.assert_array_equal(value, case.operation.compute(*arrays))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", parameters(COMPUTED))
def test_a_result_does_not_depend_on_previous_memory_contents(case: Case, dtype: str) -> None:
    """A result written over garbage equals one in fresh memory."""
    garbage_does_not_matter(case, dtype)


@pytest.mark.parametrize("case", parameters(COMPUTED))
def test_kernels_do_not_change_their_operands(case: Case) -> None:
    operands_stay(case)
    arrays = case.arrays()
    for array in arrays:
        array.flags.writeable = False
    case.operation.compute(*arrays)


@pytest.mark.parametrize("case", parameters(COMPUTED))
def test_kernels_read_operands_in_any_memory_order(case: Case) -> None:
    """Transposed, reversed and broadcast operands give the values of contiguous ones, up to rounding."""
    arrays = case.arrays()
    expected = case.operation.compute(*arrays)
    reordered = [array.copy(order="F") for array in arrays]
    reversed_ = [np.flip(np.flip(array).copy()) if array.ndim else array for array in arrays]
    for operands in (reordered, reversed_):
        np.testing.assert_allclose(case.operation.compute(*operands), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("case", parameters(case for case in CASES if case.operation.reuses_operand))
def test_an_operation_that_reuses_an_operand_can_overwrite_it(case: Case) -> None:
    operands_may_be_overwritten(case)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", parameters(COMPUTED))
def test_a_bound_kernel_gives_the_bits_of_the_unbound_kernel(case: Case, dtype: str) -> None:
    """Each run reads the current contents of the bound arrays."""
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
def test_a_bound_choice_reads_its_index_at_each_run(other: float) -> None:
    condition, a, b = np.array([True, False]), np.array([np.nan, np.inf], np.float32), np.zeros((), np.float32)
    out = np.empty(2, np.float32)
    bound = ex.where(condition, a, b).operation.bind_kernel(out, condition, a, b)
    for number in (0.0, other, 0.0):
        b[...] = number
        assert bound() is out
        assert out.tobytes() == np.where(condition, a, b).tobytes()


@pytest.mark.parametrize("case", parameters([case for case in CASES if case.operation.view]))
def test_views_allocate_no_memory(case: Case) -> None:
    """A view shares its first operand's memory, or is a constant of a few bytes."""
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
    """Equal attributes give one object, also after pickling and from the operation's string form."""
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
def test_an_operation_returns_a_new_tensor_and_keeps_its_operands(case: Case) -> None:
    """Return a new tensor from every operation; its operands are unchanged."""
    arrays = [np.asarray(array) for array in case.arrays()]
    tensors = [ex.tensor(array) for array in arrays]
    before = [tensor.array.tobytes() for tensor in tensors]
    result = case.operation(*tensors)
    assert not any(result is tensor for tensor in tensors) or case.operation.view
    ex.evaluate(result)
    assert [tensor.array.tobytes() for tensor in tensors] == before
