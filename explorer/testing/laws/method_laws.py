"""Laws about the methods of all operations: kernel, type inference, gradient and batching rule.

Each law is a function of a case, an operation with valid operands.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import Array, TensorType
from explorer.gradients import grad
from explorer.ops.elementwise.arithmetic import add_n
from explorer.run import evaluate
from explorer.testing.laws.cases import Case, floating
from explorer.testing.laws.law import Law, agree, elements_text, needs, number

values_of = partial(evaluate, record="off")
"""function that evaluates expressions in a separate plan, because the plan of the thread may contain expressions of the
user"""
_DECLARED = ("declared", "by differences")


def is_differentiable(case: Case) -> bool:
    """Return whether a gradient is declared, and the case has floating operands and a float64 result.

    The result for float64 operands counts, because differences in lower precision would be meaningless.
    """
    if case.operation.nondifferentiable or not floating(case.example):
        return False
    arrays = case.arrays("float64")
    type_ = case.operation.type_of(tuple(TensorType(array.shape, array.dtype) for array in arrays))
    return isinstance(type_, TensorType) and type_.dtype == np.float64


def gradient_equals_differences(case: Case) -> int:
    """Check the gradient of every floating operand against central differences in float64."""
    arrays, weights = case.arrays("float64"), weights_of(case)
    operands = [tensor(array) for array in arrays]
    indices = floating(case.example)
    # for an elementwise operation, the error shows f'(x)
    pointwise = case.operation.elementwise and all(array.shape == weights.shape for array in arrays)
    declared = values_of(
        grad(case.operation(*operands), [operands[operand_index] for operand_index in indices], seed=weights)
    )
    largest = max(1.0, abs(weighted_sum(case, arrays, weights)))
    compared = 0
    for operand_index, gradient in zip(indices, declared, strict=True):
        name = case.operand_names[operand_index]
        needs(
            (gradient.shape, gradient.dtype) == (arrays[operand_index].shape, arrays[operand_index].dtype),
            f"declared for {name} {_type(gradient)}, where {name} is {_type(arrays[operand_index])}",
        )
        scale = weights if pointwise else np.asarray(1.0)

        def at(index: tuple[int, ...], operand_index: int = operand_index, name: str = name) -> str:
            if pointwise:
                point = elements_text(case, arrays, index)
                return point if len(arrays) == 1 else f"{point} for {name}"
            return f"{name}{list(index) if index else ''} = {number(arrays[operand_index][index])}"

        slopes = differences(case, arrays, operand_index, weights)
        compared += agree(gradient / scale, slopes / scale, names=_DECLARED, at=at, rtol=1e-6, atol=1e-7 * largest)
    return compared


def second_gradient_equals_differences(case: Case) -> int:
    """Check the gradient of the gradient against central differences of the gradient along random directions."""
    arrays, weights = case.arrays("float64"), weights_of(case)
    indices = floating(case.example)
    direction = [np.random.default_rng(2).uniform(-1, 1, arrays[operand_index].shape) for operand_index in indices]

    def first(values: list[Array]) -> tuple[list[Expr], Expr]:
        operands = [tensor(array) for array in values]
        gradients = grad(
            case.operation(*operands), [operands[operand_index] for operand_index in indices], seed=weights
        )
        total = add_n(*[(gradient * along).sum() for gradient, along in zip(gradients, direction, strict=True)])
        return [operands[operand_index] for operand_index in indices], total

    inputs, total = first(arrays)
    second = values_of(grad(total, inputs))
    for position, operand_index in enumerate(indices):
        step = np.random.default_rng(3).uniform(-1, 1, arrays[operand_index].shape)
        sums = []
        for sign in (-1, 1):
            shifted = [array.copy() for array in arrays]
            shifted[operand_index] = shifted[operand_index] + sign * STEP * step
            sums.append(float(values_of(first(shifted)[1])))
        slope = (sums[1] - sums[0]) / (2 * STEP)
        along = float(np.sum(second[position] * step))
        name = case.operand_names[operand_index]
        agree(along, slope, names=_DECLARED, at=f"a direction of {name}", rtol=2e-5, atol=2e-6)
    return len(indices)


def patterns(count: int) -> list[tuple[bool, ...]]:
    """Return all tuples of ``count`` booleans with at least one True, which select the batched operands."""
    return [selection for selection in itertools.product((False, True), repeat=count) if any(selection)]


def batched_equals_loop(case: Case, size: int = 3) -> int:
    """Check that operands with a leading batch axis of length ``size`` give the same result as a loop."""
    compared = 0
    for batched in patterns(len(case.example.operands)):
        members = [case.arrays(seed=seed) for seed in range(size)]
        operands: list[Any] = [
            np.stack([member[operand_index] for member in members]) if is_batched else members[0][operand_index]
            for operand_index, is_batched in enumerate(batched)
        ]
        rows = [
            [
                operands[operand_index][index] if is_batched else operands[operand_index]
                for operand_index, is_batched in enumerate(batched)
            ]
            for index in range(size)
        ]
        loop = np.stack([case.operation.compute(*row) for row in rows])
        recorded = case.operation.batch(size, batched, *map(tensor, operands))
        names = [name for name, is_batched in zip(case.operand_names, batched, strict=True) if is_batched]
        needs(
            recorded.type == TensorType(loop.shape, loop.dtype),
            f"of {size} members in {', '.join(names)}: batched {recorded.type}, in a loop {_type(loop)}",
        )

        def at(index: tuple[int, ...], names: list[str] = names) -> str:
            return f"element {list(index[1:])} of member {index[0]} in {', '.join(names)}"

        both = ("batched", "in a loop")
        compared += agree(values_of(recorded), loop, names=both, at=at, rtol=1e-12, atol=1e-13)
    return compared


def inferred_type_is_the_kernels(case: Case, dtype: str | None = None) -> int:
    """Check that an expression's inferred type equals the type of the kernel's value."""
    arrays = case.arrays(dtype)
    type_ = case.operation.type_of(tuple(TensorType(array.shape, array.dtype) for array in arrays))
    value = case.operation.compute(*arrays)
    assert isinstance(type_, TensorType)
    needs(
        (value.shape, value.dtype) == (type_.shape, type_.dtype),
        f"of {', '.join(map(_type, arrays))}: declared {_text(type_.shape, type_.dtype)}, computed {_type(value)}",
    )
    return 1


def garbage_does_not_matter(case: Case, dtype: str | None = None) -> int:
    """Check that the kernel writes its whole result into ``out`` without reading the previous content."""
    arrays = case.arrays(dtype)
    expected = case.operation.compute(*arrays)
    garbage = np.ndarray(expected.shape, expected.dtype, buffer=bytearray(b"\xa5" * expected.nbytes))
    with np.errstate(all="ignore"):
        written = case.operation.kernel(garbage, *arrays)
    needs(written is garbage, "the kernel must write to out and return it, but returned another array")
    return agree(
        garbage,
        expected,
        names=("over other numbers", "in fresh memory"),
        at=partial(elements_text, case, arrays),
    )


def operands_stay(case: Case) -> int:
    """Check that the kernel does not modify its operands."""
    arrays, before = case.arrays(), case.arrays()
    case.operation.compute(*arrays)
    names = ("after the kernel ran", "before")
    return sum(
        agree(array, original, names=names, at="an operand") for array, original in zip(arrays, before, strict=True)
    )


def operands_may_be_overwritten(case: Case) -> int:
    """Check that the result is the same if ``out`` is the memory of an operand with the result's type."""
    expected, compared = case.operation.compute(*case.arrays()), 0
    for operand_index, name in enumerate(case.operand_names):
        arrays = case.arrays()
        if (arrays[operand_index].shape, arrays[operand_index].dtype) != (expected.shape, expected.dtype):
            continue
        before = case.arrays()
        with np.errstate(all="ignore"):
            overwritten = case.operation.kernel(arrays[operand_index], *arrays)
        names = (f"written over {name}", "in fresh memory")
        compared += agree(overwritten, expected, names=names, at=partial(elements_text, case, before))
    return compared


def _type(array: Array) -> str:
    return _text(array.shape, array.dtype)


def _text(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    return f"{'×'.join(map(str, shape)) or 'scalar'} {dtype}"


def _has_result(case: Case) -> bool:
    return not case.operation.takes_tuples


def _writes(case: Case) -> bool:
    return _has_result(case) and not case.operation.view


METHOD_LAWS = (
    Law("result type = declared type", _has_result, inferred_type_is_the_kernels),
    Law("out is written whole", _writes, garbage_does_not_matter),
    Law("operands are left alone", _writes, operands_stay),
    Law("operands may be overwritten", lambda case: case.operation.reuses_operand, operands_may_be_overwritten),
    Law("gradient", is_differentiable, gradient_equals_differences),
    Law("gradient of the gradient", is_differentiable, second_gradient_equals_differences),
    Law("batched = loop", lambda case: not case.operation.unbatchable and bool(case.types), batched_equals_loop),
)
"""laws about the methods of operations"""


def undeclared(operation: type[Operation]) -> dict[str, str]:
    """Return law name → reason why an operation has no gradient or no batching rule."""
    reasons = {"gradient": operation.nondifferentiable, "batched = loop": operation.unbatchable}
    return {name: reason for name, reason in reasons.items() if reason}


STEP = 1e-5


def weighted_sum(case: Case, arrays: list[Array], weights: Array) -> float:
    """Return the sum of ``weights`` times the case's result for ``arrays``."""
    return float(np.sum(np.asarray(case.operation.compute(*arrays), np.float64) * weights))


def differences(case: Case, arrays: list[Array], operand_index: int, weights: Array) -> Array:
    """Return central differences of ``weighted_sum`` for each element of the operand ``operand_index``."""
    slopes = np.zeros(arrays[operand_index].shape)
    for index in np.ndindex(slopes.shape):
        low, high = ([array.copy() for array in arrays] for _ in range(2))
        low[operand_index][index] -= STEP
        high[operand_index][index] += STEP
        slopes[index] = (weighted_sum(case, high, weights) - weighted_sum(case, low, weights)) / (2 * STEP)
    return slopes


def weights_of(case: Case) -> Array:
    """Return an upstream gradient for a case's result, with one weight per element."""
    type_ = case.operation.type_of(case.types)
    assert isinstance(type_, TensorType)
    return np.random.default_rng(1).uniform(0.5, 1.5, type_.shape).astype(type_.dtype)
