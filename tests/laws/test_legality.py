"""An illegal call fails when it is written: an OperandError names the operation and the operand types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.core.ir.operation_examples import Integers
from explorer.core.ir.tensor import Stored
from explorer.core.types.tensor_type import TensorType, TupleType
from explorer.testing.laws.cases import Case
from tests.laws.cases import every_case, parameters

CASES = [case for case in every_case() if not isinstance(case.operation, (Parameter, Stored))]
COMPUTED = [case for case in CASES if case.example.operands]
ONE_EACH = list({case.operation.name: case for case in CASES}.values())
DTYPES = ("bool", "int8", "uint8", "int64", "uint64", "float16", "float32", "float64", "complex64", "complex128")
NUMBERED = ("take", "take_gradient", "take_along", "take_along_gradient", "put_along", "max_roi_pool")
"""operations whose integer operands must be valid row indices, which types cannot guarantee"""
INVERTED = ("inverse",)
"""operations whose matrices must be invertible, which types cannot guarantee"""
shapes = st.lists(st.integers(0, 4), max_size=5).map(tuple)
types = st.builds(lambda shape, dtype: TensorType(shape, np.dtype(dtype)), shapes, st.sampled_from(DTYPES))


def outcome(case: Case, operands: list[TensorType]) -> Any:
    """Return the inferred type, or None if the operands are rejected with an OperandError."""
    try:
        return case.operation.type_of(tuple(operands))
    except ex.OperandError:
        return None


@pytest.mark.spec("M-O2")
@settings(max_examples=5)
@pytest.mark.parametrize("case", parameters(CASES))
@given(data=st.data())
def test_illegal_operands_are_refused_when_written(case: Case, data: st.DataObject) -> None:
    """Any operands at all have a result type at once or are refused by an OperandError; nothing else escapes."""
    outcome(case, data.draw(st.lists(types, max_size=4)))


@settings(max_examples=5)
@pytest.mark.parametrize("case", parameters(COMPUTED))
@given(data=st.data())
def test_what_is_accepted_can_be_computed(case: Case, data: st.DataObject) -> None:
    """Operands near the legal ones: what type inference accepts, the kernel computes, with that very type."""
    computes_what_it_accepts(case, data)


@pytest.mark.soak
@pytest.mark.parametrize("case", parameters(CASES))
def test_illegal_and_accepted_operands_with_ten_times_the_examples(case: Case) -> None:
    """Run the two tests above with ten times their examples."""

    @settings(max_examples=50)
    @given(data=st.data())
    def both(data: st.DataObject) -> None:
        outcome(case, data.draw(st.lists(types, max_size=4)))
        if case.example.operands:
            computes_what_it_accepts(case, data)

    both()


def computes_what_it_accepts(case: Case, data: st.DataObject) -> None:
    operands = list(case.types)
    for index, type_ in enumerate(operands):
        dtype = data.draw(st.sampled_from((type_.dtype.name, *DTYPES)))
        shape = list(type_.shape)
        change = data.draw(st.sampled_from(("none", "none", "one", "zero", "drop", "add")))
        if change in ("one", "zero") and shape:
            shape[data.draw(st.integers(0, len(shape) - 1))] = int(change == "one")
        elif change == "drop" and shape:
            shape.pop(data.draw(st.integers(0, len(shape) - 1)))
        elif change == "add":
            shape.insert(data.draw(st.integers(0, len(shape))), data.draw(st.integers(0, 3)))
        operands[index] = TensorType(tuple(shape), np.dtype(dtype))
    type_ = outcome(case, operands)
    if type_ is None:
        return
    assert isinstance(type_, TensorType)
    fill = [np.zeros if isinstance(given, Integers) else np.ones for given in case.example.operands]
    arrays = [make(operand.shape, operand.dtype) for make, operand in zip(fill, operands, strict=True)]
    if case.operation.name in NUMBERED and not arrays[0].size:
        return
    if case.operation.name == "max_roi_pool":
        arrays[1][...] = 0  # each region belongs to the first image
    if case.operation.name in INVERTED:
        arrays = [np.broadcast_to(np.eye(each.shape[-1], dtype=each.dtype), each.shape) for each in arrays]
    with np.errstate(all="ignore"):
        value = case.operation.compute(*arrays)
    assert (value.shape, value.dtype) == (type_.shape, type_.dtype)


@pytest.mark.spec("M-O2")
@pytest.mark.parametrize("case", parameters(ONE_EACH))
def test_the_error_names_the_operation_the_types_and_the_rule(case: Case) -> None:
    pair = TupleType((TensorType((2,)), TensorType((3,))))
    wrong = (pair,) if case.operation.takes_tuples else (pair, TensorType((7, 5, 1, 3, 2), np.dtype("int8")))
    with pytest.raises(ex.OperandError) as caught:
        case.operation.type_of(wrong)
    message = str(caught.value)
    assert case.operation.label in message
    assert repr(pair) in message
    assert "rule:" in message


@pytest.mark.parametrize("case", parameters(case for case in ONE_EACH if case.operation._operand_count is not None))
def test_a_wrong_number_of_operands_raises_an_error(case: Case) -> None:
    count = case.operation._operand_count
    assert count is not None
    with pytest.raises(ex.OperandError, match=f"must have {count} operand"):
        case.operation.type_of((TensorType((2,)),) * (count + 1))


@pytest.mark.spec("M-O2")
def test_an_operation_on_numbers_only_raises_an_error() -> None:
    """``number + number`` is Python arithmetic; an operation needs a tensor or an expression."""
    for attempt in (lambda: ex.add(1, 2), lambda: ex.exp(1.0), lambda: ex.softmax(3)):
        with pytest.raises(ex.OperandError, match="without any tensor"):
            attempt()
    assert ex.evaluate(ex.add(np.float32(1), 2)) == 3
