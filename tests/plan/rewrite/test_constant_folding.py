"""Constant folding: which described constants are computed at planning time, and which are not."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.core.types.tensor_type import TensorType
from explorer.ops.creation.constants import Full, Literal, OneHot
from explorer.plan import Options, plan
from explorer.plan.passes import Batch, Inline
from explorer.plan.planner import Plan
from explorer.plan.rewrite.rule import Rule
from explorer.plan.rewrite.rules import inverse_pairs, stability
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from explorer.run.plan_cache import cache
from tests.support.decisions import codes, facts
from tests.support.execution import run
from tests.support.interpreter import reference

x = ex.tensor(np.array([0.5, -1.5, 2.0]))


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def number(value: Any, shape: tuple[int, ...] = (), dtype: Any = "float64") -> ex.Expr:
    return ex.TrivialTensor(value, shape, dtype=dtype)


def folded(planned: Plan) -> list[Any]:
    return [c for c in planned.graph.decisions if c.rule == "FoldedConstants" and c.applied]


def refused(planned: Plan) -> list[str]:
    return [c.code for c in planned.graph.decisions if c.rule == "FoldedConstants" and not c.applied]


@pytest.mark.spec("P-1")
def test_operations_on_only_numbers_are_computed_at_planning_time() -> None:
    """They become one number; the decision has its value and the saving."""
    planned = plan([x * (ex.exp(number(0.0)) + number(2.0) * 3.0)])
    assert [[n.operation.name for n in k.nodes] for k in planned.schedule.kernels] == [["multiply"]]
    (choice,) = folded(planned)
    assert choice.facts == {"operation": "add", "value": "7", "count": 3, "saved_flops": 12, "saved_bytes": 24}
    assert np.array_equal(run(planned)[0], x.array * 7)
    other = plan([x + number(1.0, (4, 3)) / 8])
    assert facts(other, "folded")["value"] == "0.125 in each element (4×3 float64)"


@pytest.mark.spec("P-1")
def test_other_rules_apply_to_folded_constants() -> None:
    """A factor folded to 1 is removed, and an exponent folded to 2 becomes a square."""
    planned = plan([x * (number(2.0) * 0.5), x ** (number(1.0) + 1.0)])
    names = [[node.operation.name for node in kernel.nodes] for kernel in planned.schedule.kernels]
    assert names == [["square"]]
    assert {"folded", "neutral", "power"} <= set(codes(planned, "simplify"))


@pytest.mark.spec("P-1", "M-D2")
def test_large_constants_are_never_materialized() -> None:
    """Only one of equal elements is computed for any shape: planning 10¹² of them needs no memory."""
    huge = ex.exp(number(1.0, (10**6, 10**6)))
    assert ex.evaluate(huge.sum()) == pytest.approx(np.e * 1e12)
    assert ex.evaluate(huge.mean() - huge.max()) == 0
    (root,) = plan([huge.T.reshape((10**12,)) * 2.0]).graph.roots
    assert isinstance(root.operation, Full)
    assert root.operation.value == 2 * np.e


@pytest.mark.spec("P-1", "P-15")
def test_a_constant_with_many_different_elements_is_declined() -> None:
    """It is computed in the run; a few different elements are listed in the plan."""
    steps = ex.cumsum(number(1.0, (300,)))
    planned = plan([steps + 1.0, steps.max()])
    assert refused(planned) == ["large"]
    assert facts(planned, "large") == {"operation": "cumsum", "size": 300, "limit": 64}
    assert run(planned)[1] == 300
    few = plan([x + ex.cumsum(number(1.0, (3,)))])
    assert any(isinstance(node.operation, Literal) for node in few.schedule.leaves)
    assert facts(few, "folded")["value"] == "1, 2, 3 (3 float64)"
    assert np.array_equal(run(few)[0], x.array + np.arange(1, 4))


heard: list[float] = []


class Shout(ex.Elementwise):
    """x, with a printed message."""

    pure = False
    nondifferentiable = "a test"
    examples = (ex.Example(ex.real(2)),)

    def kernel(self, out: Any, x: Any) -> Any:
        heard.append(float(x.flat[0]))
        out[...] = x
        return out


@pytest.mark.spec("P-1", "P-15")
def test_impure_operations_on_constants_run_in_every_run() -> None:
    """They are neither folded nor prepared once."""
    given_later = Parameter(TensorType((), "float64"), "later")()
    planned = plan([given_later + Shout()(number(2.0)) + Shout()(ex.tensor(3.0))])
    assert heard == []
    assert refused(planned) == ["impure"]
    assert not any(kernel.constant for kernel in planned.schedule.kernels)
    assert ex.evaluate(Shout()(number(2.0)) + 1.0) == 3
    assert heard == [2.0]


@pytest.mark.spec("P-2", "P-4")
def test_impure_operations_run_as_often_as_they_are_recorded() -> None:
    """Equal nodes are not merged and similar ones not batched, and neither are calls of them."""

    @ex.function
    def aloud(x: Any, y: Any) -> Any:
        return Shout()(x) * y

    x = ex.tensor(2.0)
    others = [ex.tensor(float(index)) for index in range(30)]
    for roots in (
        [Shout()(x), Shout()(x)],
        [aloud(x, others[0]), aloud(x, others[0])],
        [Shout()(each) for each in others],
        [aloud(each, x) for each in others],
        [aloud(x, each) for each in others],
    ):
        heard.clear()
        ex.evaluate(roots, batch=Batch(fewest=2))
        assert len(heard) == len(roots)


@pytest.mark.spec("P-2", "P-6")
def test_an_unopened_call_of_an_impure_operation_runs_in_every_run() -> None:
    @ex.function
    def aloud(x: Any) -> Any:
        return Shout()(x) * 2.0

    heard.clear()
    given_later = Parameter(TensorType((), "float64"), "later")()
    program = Program(plan([given_later + aloud(ex.tensor(3.0))], Options(inline=Inline(0))))
    for _ in range(2):
        program.bind({given_later: 1.0})
        run_simple(program)
        assert program.take() == [7.0]
    assert heard == [3.0, 3.0]


@pytest.mark.spec("P-1", "P-15", "P-11")
def test_constants_that_cannot_be_computed_fail_in_the_run_at_their_line() -> None:
    """If a kernel rejects its constants, the plan has a decision, and the run's error names operation and types."""
    root = number(2, dtype="int64") ** number(-1, dtype="int64") + ex.tensor(1)
    planned = plan([root])
    assert refused(planned) == ["fails"]
    with pytest.raises(ex.RunError, match="power of"):
        ex.evaluate(root)


@pytest.mark.spec("P-1")
def test_tensors_and_parameters_are_not_folded() -> None:
    """Tensors are data, and parameters are given later, so a plan contains the values of neither."""
    later = Parameter(TensorType((), "float64"), "later")()
    for root in (ex.tensor(2.0) * ex.tensor(3.0), later * number(3.0), ex.tensor(2.0) * number(3.0)):
        assert folded(plan([root])) == []


@pytest.mark.soak
@pytest.mark.spec("P-1")
def test_a_cached_plan_is_never_used_with_other_constants() -> None:
    """Graphs with different constants have separate plans, graphs with different tensors share one."""

    def program(factor: float, shift: Any, data: Any, place: int) -> ex.Expr:
        hot = ex.BiasVector(3, place, factor, dtype="float64") + number(1.0, (3,))
        return ex.tensor(data) * (number(factor) * 2.0) + ex.tensor(shift) * ex.cumsum(hot)

    for _ in range(2):  # all plans are cached the second time
        for factor in (1.0, 2.0, 0.0, -0.0, float("nan"), 3.0):
            for place in range(3):
                data, shift = np.random.default_rng(place).normal(size=(2, 3))
                root = program(factor, shift, data, place)
                hot = np.ones(3)
                hot[place] += factor
                expected = data * (factor * 2.0) + shift * np.cumsum(hot)
                result = ex.evaluate(root)
                np.testing.assert_allclose(result, expected, rtol=1e-14)
                assert np.array_equal(np.signbit(result), np.signbit(expected)) or np.isnan(factor)
                del root
                gc.collect()  # an operation at the same address must not be mistaken for the previous one
    evaluation = ex.EvalPlan()
    evaluation.register(program(2.0, np.ones(3), np.arange(3.0), 1))
    evaluation.eval()
    assert evaluation.reused


@pytest.mark.spec("P-1")
def test_a_cached_plan_uses_the_current_value_of_a_tensor() -> None:
    for value in (1.0, 5.0, -2.0):
        data = ex.tensor(np.zeros(3))
        data[1] = value
        assert ex.evaluate((data * (number(3.0) * 2.0)).sum()) == 6 * value


@pytest.mark.spec("P-1", "P-12", "M-E7")
def test_constants_are_folded_after_stabilization() -> None:
    """±1e4 in constants gives the result of ±1e4 in tensors."""
    log = ex.function(lambda value: ex.log(value))
    programs: tuple[Callable[[ex.Expr], ex.Expr], ...] = (
        lambda v: ex.log(ex.sigmoid(v)),
        lambda v: log(ex.sigmoid(v)),
        lambda v: ex.log(1 + ex.exp(v)),
        lambda v: log(1 + ex.exp(v)),
        lambda v: ex.log(ex.exp(v).sum()),
        lambda v: ex.log(1 - ex.sigmoid(v)),
        lambda v: ex.nll_loss(v, ex.softmax(v)),
    )
    for value in (1e4, -1e4):
        for program in programs:
            result = ex.evaluate(program(number(value, (2, 2))))
            assert np.isfinite(result).all()
            np.testing.assert_allclose(result, ex.evaluate(program(ex.tensor(np.full((2, 2), value)))), rtol=1e-14)


@pytest.mark.spec("P-1", "M-D2")
def test_a_one_hot_vector_times_a_number_is_one_hot() -> None:
    """The simplest description is chosen: a scaled one-hot vector still selects a row."""
    matrix = ex.tensor(np.arange(6.0).reshape(3, 2))
    planned = plan([(ex.BiasVector(3, 1, 1.0, dtype="float64") * 4.0) @ matrix], Options(numerics="fast"))
    assert "one_hot_product" in codes(planned, "simplify")
    assert np.array_equal(run(planned)[0], [8, 12])
    (hot,) = plan([ex.BiasVector(3, 1, 2.0, dtype="float64") * -1.0]).graph.roots
    assert isinstance(hot.operation, Literal)  # −0.0 differs from 0.0
    (same,) = plan([ex.BiasVector(3, 1, 2.0, dtype="float64") * 2.0]).graph.roots
    assert same.operation is OneHot(3, 1, 4.0, np.dtype("float64"))


@pytest.mark.spec("P-1", "P-19")
def test_folding_has_a_reproducer() -> None:
    """The cell contains the numbers and needs no data."""
    evaluation = ex.EvalPlan()
    evaluation.register(x + ex.cumsum(number(1.0, (3,))) * ex.tensor(2.0))
    evaluation.prepare()
    (decision,) = [each for each in evaluation.recording.decisions if each.code == "folded"]
    cell = evaluation.reproducer(decision)
    assert "ex.tensor" not in cell
    exec(cell, {})


_DTYPES = st.sampled_from(["float64", "float32", "float16", "int64", "int8", "uint8", "bool", "complex128"])
_NUMBERS = st.sampled_from([0.0, -0.0, 1.0, 2.0, -3.0, 0.1, 1e4, -1e4, 1e-30, np.inf, -np.inf, np.nan])
_STEPS: tuple[Callable[..., Any], ...] = (
    ex.add,
    ex.subtract,
    ex.multiply,
    ex.divide,
    ex.maximum,
    ex.less,
    ex.equal,
    ex.negative,
    ex.exp,
    ex.tanh,
    ex.sigmoid,
    ex.relu,
    ex.sign,
    ex.square,
    lambda a: a.sum(axis=0) if a.ndim else a,
    lambda a: a.mean() if a.dtype.kind != "b" else a,
    lambda a: a.max() if a.size else a,
    lambda a: ex.transpose(a),
    lambda a: ex.cumsum(a, axis=0) if a.ndim else a,
    lambda a: ex.concatenate((a, a)) if a.ndim else a,
    lambda a: ex.cast(a, "float32") if a.dtype.kind != "c" else a,
    lambda a, b: ex.where(ex.equal(a, b), a, b),
)


PAST_OVERFLOW = {stability.__name__, inverse_pairs.__name__}
"""modules of rules that avoid intermediate overflow"""


@st.composite
def constants(draw: st.DrawFn) -> ex.Expr:
    """Draw operations on described constants of many shapes, dtypes and values."""
    values: list[ex.Expr] = []
    for _ in range(draw(st.integers(1, 3))):
        dtype = np.dtype(draw(_DTYPES))
        value = draw(_NUMBERS) if dtype.kind in "fc" else draw(st.integers(0, 1 if dtype.kind == "b" else 100))
        if draw(st.booleans()):
            values.append(number(value, draw(st.sampled_from([(), (3,), (2, 3), (0, 3), (1, 1), (70,)])), dtype))
        else:
            values.append(ex.BiasVector(3, draw(st.integers(0, 2)), value, dtype=dtype))
    for _ in range(draw(st.integers(1, 4))):
        step = draw(st.sampled_from(_STEPS))
        count = step.__code__.co_argcount if hasattr(step, "__code__") else step.count_operands()
        try:
            values.append(step(*[draw(st.sampled_from(values)) for _ in range(count)]))
        except ex.OperandError:
            continue
    return values[-1]


@pytest.mark.spec("P-1")
def test_relu_of_a_constant_minus_zero_is_minus_zero() -> None:
    """1 / x distinguishes it from 0.0, whether folded or not."""
    for shape in ((), (3,)):
        assert np.signbit(ex.evaluate(ex.relu(ex.TrivialTensor(-0.0, shape, dtype="float64")))).all()


@pytest.mark.spec("P-1")
@given(root=constants())
def test_folded_constants_are_what_the_run_computes(root: ex.Expr) -> None:
    """Random operations on constants of every dtype have the same type, values and signs of zero, folded or not.

    Rules for exponentials and for pairs of inverses, whose purpose it is, compute past an intermediate result that
    overflows. Where one of these applied, and there alone, a number may stand in the place of an infinite result.
    """
    (expected,) = reference([root])
    with patch.object(Rule, "rules", []):
        folded = ex.evaluate(root)
    applied = {d.reason.owner.__module__ for d in plan([root]).graph.decisions if d.applied and d.reason.owner}
    everywhere = np.ones(root.shape, bool)
    past = np.isfinite(expected) if applied & PAST_OVERFLOW else everywhere
    if root.dtype.kind == "c":  # an infinite complex number has many forms, ∞ + 0i, ∞ + NaN·i, and its sums have more
        everywhere = past = np.isfinite(expected)
    for result, there in (
        (folded, everywhere),
        (ex.evaluate(root, without=["simplify"]), everywhere),
        (ex.evaluate(root), past),
    ):
        assert (result.dtype, result.shape) == (root.dtype, root.shape)
        narrow = root.dtype == np.float16
        np.testing.assert_allclose(
            result[there], expected[there], rtol=1e-2 if narrow else 1e-5, atol=0, equal_nan=True
        )
        if root.dtype.kind == "f":
            assert np.array_equal(np.signbit(result) & (result == 0), np.signbit(expected) & (expected == 0))


@pytest.mark.spec("P-1")
@pytest.mark.parametrize("value", [-0.0, 0.0, np.inf, -3.0])
@pytest.mark.parametrize(("shape", "axis"), [((4,), 0), ((2, 3), (0, 1)), ((0,), 0), ((0, 3), 0), ((3, 0), 0)])
@pytest.mark.parametrize("name", ["sum", "mean"])
def test_sums_and_means_of_equal_numbers_have_numpys_bits(name: str, value: float, shape: Any, axis: Any) -> None:
    """Zeros of either sign sum to 0.0; an empty sum is 0.0 and an empty mean NaN, folded or not."""
    root = getattr(number(value, shape), name)(axis=axis)
    planned = plan([root])
    assert len(folded(planned)) == 1
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of an empty slice
        expected = getattr(np.full(shape, value), name)(axis=axis)
    (result,) = run(planned)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result[result == 0]), np.signbit(np.asarray(expected)[expected == 0]))


@pytest.mark.spec("P-1")
@pytest.mark.parametrize("join", [lambda a, b: ex.concatenate([a, b]), lambda a, b: ex.stack([a, b])])
def test_zeros_of_both_signs_are_different_numbers(join: Callable[[Any, Any], ex.Expr]) -> None:
    """0.0 == −0.0, but an array of both is not a constant with one value."""
    for first, second in ((0.0, -0.0), (-0.0, 0.0), (0.0, 0.0), (np.nan, np.nan), (1.0, 2.0)):
        (result,) = run(plan([join(number(first, (2,)), number(second, (2,)))]))
        expected = np.repeat([first, second], 2).reshape(result.shape)
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))


@pytest.mark.parametrize("value", [0.0, 0.25])
def test_sums_of_many_equal_halves_overflow_only_where_the_run_does(value: float) -> None:
    """The number of elements exceeds the half-precision range, but their sum does not."""
    total = ex.evaluate(ex.TrivialTensor(value, (80_000,), dtype=np.float16).sum())
    assert total.dtype == np.float16
    assert total == np.float16(80_000 * value)
