"""Laws about what every operation has: its kernel, its type, its gradient and its batching rule.

Each takes a case, an operation with operands that it is meant for, so that a law needs no knowledge of operations.
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
from explorer.testing.laws.law import Law, agree, needs, number, place_text

values_of = partial(evaluate, record="off")
"""values by a plan of their own: that of the thread may hold expressions of the user's, which wait"""
_DECLARED = ("declared", "by differences")


def is_differentiable(case: Case) -> bool:
    """Return whether a gradient is declared, and the case has floating operands and a float64 result of float64 ones.

    Differences of rounder numbers tell nothing.
    """
    if case.operation.nondifferentiable or not floating(case.example):
        return False
    arrays = case.arrays("float64")
    type_ = case.operation.type_of(tuple(TensorType(array.shape, array.dtype) for array in arrays))
    return isinstance(type_, TensorType) and type_.dtype == np.float64


def gradient_equals_differences(case: Case) -> int:
    """Check the gradient of every floating operand against central differences, in float64."""
    arrays, weights = case.arrays("float64"), weights_of(case)
    operands = [tensor(array) for array in arrays]
    places = floating(case.example)
    # A difference in an elementwise gradient is reported as one of f'(x), which a reader can compare with a formula.
    pointwise = case.operation.elementwise and all(array.shape == weights.shape for array in arrays)
    declared = values_of(grad(case.operation(*operands), [operands[place] for place in places], seed=weights))
    largest = max(1.0, abs(weighted_sum(case, arrays, weights)))
    compared = 0
    for place, gradient in zip(places, declared, strict=True):
        name = case.operand_names[place]
        needs(
            (gradient.shape, gradient.dtype) == (arrays[place].shape, arrays[place].dtype),
            f"declared for {name} {_type(gradient)}, where {name} is {_type(arrays[place])}",
        )
        scale = weights if pointwise else np.asarray(1.0)

        def at(index: tuple[int, ...], place: int = place, name: str = name) -> str:
            if pointwise:
                point = place_text(case, arrays, index)
                return point if len(arrays) == 1 else f"{point} for {name}"
            return f"{name}{list(index) if index else ''} = {number(arrays[place][index])}"

        slopes = differences(case, arrays, place, weights)
        compared += agree(gradient / scale, slopes / scale, names=_DECLARED, at=at, rtol=1e-6, atol=1e-7 * largest)
    return compared


def second_gradient_equals_differences(case: Case) -> int:
    """Check the gradient of the gradient against central differences of it, along random directions."""
    arrays, weights = case.arrays("float64"), weights_of(case)
    places = floating(case.example)
    direction = [np.random.default_rng(2).uniform(-1, 1, arrays[place].shape) for place in places]

    def first(values: list[Array]) -> tuple[list[Expr], Expr]:
        operands = [tensor(array) for array in values]
        gradients = grad(case.operation(*operands), [operands[place] for place in places], seed=weights)
        total = add_n(*[(gradient * along).sum() for gradient, along in zip(gradients, direction, strict=True)])
        return [operands[place] for place in places], total

    inputs, total = first(arrays)
    second = values_of(grad(total, inputs))
    for position, place in enumerate(places):
        step = np.random.default_rng(3).uniform(-1, 1, arrays[place].shape)
        moved = []
        for sign in (-1, 1):
            shifted = [array.copy() for array in arrays]
            shifted[place] = shifted[place] + sign * STEP * step
            moved.append(float(values_of(first(shifted)[1])))
        slope = (moved[1] - moved[0]) / (2 * STEP)
        along = float(np.sum(second[position] * step))
        name = case.operand_names[place]
        agree(along, slope, names=_DECLARED, at=f"a direction of {name}", rtol=2e-5, atol=2e-6)
    return len(places)


def patterns(count: int) -> list[tuple[bool, ...]]:
    """Return every choice of batched operands but the empty one."""
    return [chosen for chosen in itertools.product((False, True), repeat=count) if any(chosen)]


def batched_equals_loop(case: Case, size: int = 3) -> int:
    """Check that operands with a leading axis of members give what a loop over the members gives."""
    compared = 0
    for batched in patterns(len(case.example.operands)):
        members = [case.arrays(seed=seed) for seed in range(size)]
        operands: list[Any] = [
            np.stack([member[place] for member in members]) if is_batched else members[0][place]
            for place, is_batched in enumerate(batched)
        ]
        rows = [
            [operands[place][index] if is_batched else operands[place] for place, is_batched in enumerate(batched)]
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
    """Check that the declared type, known when an expression is written, is that of the computed value."""
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
    """Check that the kernel writes its whole result into ``out``, and does not read what was there before."""
    arrays = case.arrays(dtype)
    fresh = case.operation.compute(*arrays)
    garbage = np.ndarray(fresh.shape, fresh.dtype, buffer=bytearray(b"\xa5" * fresh.nbytes))
    with np.errstate(all="ignore"):
        written = case.operation.kernel(garbage, *arrays)
    needs(written is garbage, "the kernel returned another array than out, into which it must compute")
    return agree(
        garbage,
        fresh,
        names=("over other numbers", "in fresh memory"),
        at=partial(place_text, case, arrays),
    )


def operands_stay(case: Case) -> int:
    """Check that the kernel writes to none of its operands."""
    arrays, before = case.arrays(), case.arrays()
    case.operation.compute(*arrays)
    names = ("after the kernel ran", "before")
    return sum(agree(array, held, names=names, at="an operand") for array, held in zip(arrays, before, strict=True))


def operands_may_be_overwritten(case: Case) -> int:
    """Check that the kernel may write its result over each operand of the result's type."""
    whole, compared = case.operation.compute(*case.arrays()), 0
    for place, name in enumerate(case.operand_names):
        arrays = case.arrays()
        if (arrays[place].shape, arrays[place].dtype) != (whole.shape, whole.dtype):
            continue
        before = case.arrays()
        with np.errstate(all="ignore"):
            over = case.operation.kernel(arrays[place], *arrays)
        names = (f"written over {name}", "in fresh memory")
        compared += agree(over, whole, names=names, at=partial(place_text, case, before))
    return compared


def _type(array: Array) -> str:
    return _text(array.shape, array.dtype)


def _text(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    return f"{'×'.join(map(str, shape)) or 'scalar'} {dtype}"


def _has_result(case: Case) -> bool:
    return not case.operation.takes_tuples


def _writes(case: Case) -> bool:
    return _has_result(case) and not case.operation.view


FACETS = (
    Law("result type = declared type", _has_result, inferred_type_is_the_kernels),
    Law("out is written whole", _writes, garbage_does_not_matter),
    Law("operands are left alone", _writes, operands_stay),
    Law("operands may be overwritten", lambda case: case.operation.reuses_operand, operands_may_be_overwritten),
    Law("gradient", is_differentiable, gradient_equals_differences),
    Law("gradient of the gradient", is_differentiable, second_gradient_equals_differences),
    Law("batched = loop", lambda case: not case.operation.unbatchable and bool(case.types), batched_equals_loop),
)
"""laws about the facets of operations"""


def undeclared(operation: type[Operation]) -> dict[str, str]:
    """Return the reasons why an operation has no gradient or no batching rule, by the name of the law."""
    reasons = {"gradient": operation.nondifferentiable, "batched = loop": operation.unbatchable}
    return {name: reason for name, reason in reasons.items() if reason}


STEP = 1e-5


def weighted_sum(case: Case, arrays: list[Array], weights: Array) -> float:
    """Return Σ weights · result."""
    return float(np.sum(np.asarray(case.operation.compute(*arrays), np.float64) * weights))


def differences(case: Case, arrays: list[Array], place: int, weights: Array) -> Array:
    """Return central differences of Σ weights · result in each element of one operand."""
    slopes = np.zeros(arrays[place].shape)
    for index in np.ndindex(slopes.shape):
        low, high = ([array.copy() for array in arrays] for _ in range(2))
        low[place][index] -= STEP
        high[place][index] += STEP
        slopes[index] = (weighted_sum(case, high, weights) - weighted_sum(case, low, weights)) / (2 * STEP)
    return slopes


def weights_of(case: Case) -> Array:
    """Return an upstream gradient for the result of a case: one weight for each element."""
    type_ = case.operation.type_of(case.types)
    assert isinstance(type_, TensorType)
    return np.random.default_rng(1).uniform(0.5, 1.5, type_.shape).astype(type_.dtype)
