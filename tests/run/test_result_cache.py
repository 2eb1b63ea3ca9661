"""Reuse of earlier results while they are still referenced."""

from __future__ import annotations

import contextlib
import copy
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import explorer as ex
from explorer.run import result_cache
from explorer.run.plan_cache import cache
from explorer.run.runtime.marshalling import sealed
from tests.support.effects import Counting


class Counted(ex.Elementwise):
    """x + 1, with counted runs."""

    weight, defined_everywhere = 1, True
    examples = (ex.Example(ex.real(2)),)
    runs = 0

    def kernel(self, out: Any, x: Any) -> Any:
        type(self).runs += 1
        return np.add(x, 1, out=out)

    def gradient(self, g: Any, y: Any, x: Any) -> Any:
        return (g,)


@pytest.fixture(autouse=True)
def anew() -> None:
    Counted.runs = 0


@pytest.mark.spec("M-E3", "P-2", headline=True)
def test_a_referenced_value_is_reused_by_later_plans() -> None:
    """Reuse a value that is still referenced, in ex.evaluate, the default plan and plans with recall=True, and record
    this.
    """
    y = Counted()(ex.tensor(np.zeros(3)))
    first = y.eval_register()
    ex.default_plan().eval()
    second = (y * 2.0).eval_register()
    plan = ex.default_plan().eval()
    np.testing.assert_array_equal(first.data(), np.ones(3))
    np.testing.assert_array_equal(second.data(), 2 * np.ones(3))
    assert Counted.runs == 1
    (decision,) = [row for row in plan.recording.decisions if row.code == "recalled"]
    assert (decision.verdict, decision.facts["count"]) == ("applied", 1)
    del first
    gc.collect()
    third = (y * 3.0).eval_register()
    ex.default_plan().eval()
    np.testing.assert_array_equal(third.data(), 3 * np.ones(3))
    assert Counted.runs == 2


@pytest.mark.spec("M-E3")
def test_a_root_that_was_evaluated_is_returned_again_without_a_kernel() -> None:
    y = Counted()(ex.tensor(np.zeros(3)))
    plan = ex.EvalPlan(recall=True)
    first = plan.register(y)
    plan.eval()
    second = plan.register(y)
    plan.eval()
    assert Counted.runs == 1
    assert not plan.planned.schedule.kernels
    assert np.array_equal(first.data(), second.data())
    with pytest.raises(ValueError, match="read-only"):
        second.data()[0] = 7


def test_a_plan_without_recall_computes() -> None:
    """Values evaluated elsewhere do not affect inspecting or timing a plan."""
    y = Counted()(ex.tensor(np.zeros(3)))
    held = [ex.evaluate(y), ex.evaluate(y, executor="simple")]
    plan = ex.EvalPlan()
    plan.register(y)
    plan.eval()
    assert Counted.runs == len(held) + 1


def codes(plan: ex.EvalPlan) -> list[str]:
    return [decision.code for decision in plan.recording.decisions]


@pytest.mark.spec("M-E1")
def test_evaluate_computes_earlier_registrations() -> None:
    """ex.evaluate runs the thread's default plan: earlier handles have values, and equal work is shared."""
    x = ex.tensor(np.zeros(3))
    y = Counted()(x)
    handle = (y * 2.0).eval_register()
    assert ex.evaluate({"y": y, "n": 3})["y"].tolist() == [1, 1, 1]
    assert handle.data().tolist() == [2, 2, 2]
    assert Counted.runs == 1
    other = (y * 3.0).eval_register()
    ex.evaluate(y, executor="dag")
    with pytest.raises(ex.StateError, match="before its evaluation"):
        other.data()
    assert float((y * 4.0).sum()) == 12  # as NumPy functions and float() do
    assert other.data().tolist() == [3, 3, 3]


@pytest.mark.spec("M-E1", "M-E3")
def test_a_result_is_reused_while_it_is_referenced() -> None:
    y = Counted()(ex.tensor(np.zeros(3)))
    first = ex.evaluate(y)
    second = ex.evaluate(copy.copy(y))
    assert Counted.runs == 1
    assert second is first
    assert "recalled" in codes(ex.default_plan())
    assert not ex.default_plan().reused
    assert ex.default_plan().recording.run is not None
    del first, second
    gc.collect()
    ex.evaluate(y)
    assert Counted.runs == 2


@pytest.mark.spec("M-D7", "M-E3")
def test_results_of_a_copy_and_its_original_are_the_same_while_both_exist() -> None:
    y = ex.tensor(np.arange(3.0)) + 1.0
    assert ex.same(ex.evaluate(y), ex.evaluate(copy.copy(y))) is True
    assert ex.same(ex.evaluate(y), ex.evaluate(y + 0.5)) is False


@pytest.mark.spec("P-2", "M-E3")
def test_an_equal_expression_that_is_written_again_is_recalled() -> None:
    """A @ A is not computed again in another plan's A @ A + 1 while its value is referenced, with a decision."""
    given = np.random.default_rng(0).random((32, 32))
    a = ex.tensor(given)
    first = ex.EvalPlan(recall=True)
    handle = first.register(a @ a)
    first.eval()
    second = ex.EvalPlan(recall=True)
    result = second.register(a @ a + 1)
    second.eval()
    (decision,) = [row for row in second.recording.decisions if row.code == "recalled"]
    assert (decision.facts["count"], decision.facts["equal"]) == (1, 1)
    assert [kernel.operation for kernel in kernels(second)] == ["add"]
    np.testing.assert_array_equal(result.data(), given @ given + 1)
    assert ex.same(ex.evaluate(a @ a), handle.data())
    del handle
    gc.collect()
    third = ex.EvalPlan(recall=True)
    third.register(a @ a - 1)
    assert "recalled" not in codes(third.eval())


class Row(NamedTuple):
    operation: str


def kernels(plan: ex.EvalPlan) -> list[Row]:
    return [Row(kernel.result.operation.name) for kernel in plan.planned.schedule.kernels]


@pytest.mark.spec("P-2", "M-E3")
@pytest.mark.parametrize("between", [0, 1, 20])
def test_deleted_expressions_are_recalled_by_their_values(between: int) -> None:
    """Only the result is referenced: its expression, operations and later evaluations do not matter."""
    x = ex.tensor(np.arange(6.0).reshape(2, 3))
    held = [ex.evaluate(Counted()(x).sum(axis=(1,)) * 2.0)]
    others = [ex.evaluate(ex.tensor(np.ones(2)) + float(number)) for number in range(between)]
    gc.collect()
    again = ex.evaluate(Counted()(x).sum(axis=(1,)) * 2.0)
    assert again is held[0]
    assert Counted.runs == 1
    above = ex.evaluate({"b": Counted()(x).sum(axis=(1,)) * 2.0 + 1.0})
    np.testing.assert_array_equal(above["b"], again + 1)
    assert Counted.runs == 1
    assert len(others) == between


@pytest.mark.spec("P-2")
def test_each_of_several_values_evaluated_together_is_recalled() -> None:
    x, z = ex.tensor(np.zeros(3)), ex.tensor(np.ones(3))
    held = ex.evaluate([Counted()(x), Counted()(z) * 2.0, z - 1.0])
    assert Counted.runs == 2
    assert ex.evaluate(Counted()(x)) is held[0]
    np.testing.assert_array_equal(ex.evaluate(Counted()(z) * 2.0 - x), held[1])
    assert Counted.runs == 2


OTHERS: dict[str, Callable[[Any], Any]] = {
    "another storage": lambda x: ex.tanh(ex.tensor(np.asarray(x.array))) * 2.0,
    "another operation": lambda x: ex.sinh(x) * 2.0,
    "another number": lambda x: ex.tanh(x) * 3.0,
    "another dtype": lambda x: ex.tanh(x) * ex.tensor(np.float32(2)),
    "the sign of zero": lambda x: ex.tanh(x) * -0.0,
    "other operands": lambda x: 2.0 * x,
    "order": lambda x: ex.tanh(x * 2.0),
}


@pytest.mark.spec("P-2", "M-E3")
@pytest.mark.parametrize("name", OTHERS)
def test_different_expressions_are_not_recalled(name: str) -> None:
    x = ex.tensor(np.array([-1.0, 0.5, 2.0]))
    held = ex.evaluate([ex.tanh(x) * 2.0, ex.tanh(x) * 0.0, x - 2.0])
    with np.errstate(all="ignore"):
        expected = ex.evaluate(OTHERS[name](x), executor="simple")
    result = ex.evaluate(OTHERS[name](x))
    assert "recalled" not in codes(ex.default_plan())
    assert result.tobytes() == expected.tobytes()
    assert result.dtype == expected.dtype
    assert len(held) == 3


@pytest.mark.spec("M-E3", "M-D8")
def test_a_result_of_a_modified_tensor_is_not_recalled() -> None:
    """After t[i] = v the earlier result for the tensor is outdated."""
    t = ex.tensor(np.zeros(3))
    view = ex.tensor(t.array)
    before = ex.evaluate(view + 1.0)
    t[0] = 5.0
    np.testing.assert_array_equal(ex.evaluate(t + 1.0), [6, 1, 1])
    np.testing.assert_array_equal(before, [1, 1, 1])
    with pytest.raises(ex.StateError, match="shared"):
        t[0] = 7.0


@pytest.mark.spec("M-E3")
@pytest.mark.parametrize(
    "dtype",
    [np.float64, np.float16, np.complex64, np.bool_, np.int8, np.dtype(">f4")],
    ids=lambda dtype: str(np.dtype(dtype)),
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 3)], ids=str)
def test_results_cannot_be_made_writable(dtype: Any, shape: tuple[int, ...]) -> None:
    """This includes views of a result, and the array that it is a view of."""
    x = ex.tensor(np.ones(shape, dtype))
    for y in (ex.where(x, x, x), ex.broadcast_to(x, (2, *shape)), ex.transpose(ex.where(x, x, x))):
        result = ex.evaluate(y)
        assert (result.dtype, result.shape) == (y.dtype, y.shape)
        for array in (result, result.view(), result[None], result.base):
            while isinstance(array, np.ndarray):
                with pytest.raises(ValueError, match="WRITEABLE"):
                    array.flags.writeable = True
                array = array.base
        np.testing.assert_array_equal(result, np.ones(y.shape))


@pytest.mark.spec("M-E3")
def test_a_result_with_an_extension_dtype_is_read_only() -> None:
    """Dtypes without a name in the buffer protocol are returned as they are, and are read-only, too."""
    value = np.zeros((2, 3), np.dtype([("a", "<f4"), ("b", "<i2")]))[:, ::2]
    result = sealed(value)
    assert (result.dtype, result.shape, result.strides) == (value.dtype, value.shape, value.strides)
    assert np.shares_memory(result, value)
    with pytest.raises(ValueError, match="WRITEABLE"):
        result.flags.writeable = True


@pytest.mark.spec("M-E3")
def test_a_recalled_value_is_the_computed_one() -> None:
    """Whatever a user tries with a referenced result, the next evaluation returns the computed value."""
    y = ex.tensor(np.zeros(3)) + 1.0
    result = ex.evaluate(y)
    for array in (result, result[:2], result.base):
        with contextlib.suppress(ValueError, AttributeError):
            array.flags.writeable = True
            array[:] = 7
            array.flags.writeable = False
    assert ex.evaluate(y) is result
    assert result.tolist() == [1, 1, 1]
    assert ex.evaluate(ex.tanh(y)).tolist() == np.tanh(np.ones(3)).tolist()


@pytest.mark.spec("M-E3")
def test_values_are_recalled_only_by_plans_with_equal_options() -> None:
    """Values without a pass, with other kernels, or from before a rule's declaration are not recalled."""
    x = ex.tensor(np.array([1e3, -1e3]))
    with np.errstate(all="ignore"):
        plan = ex.EvalPlan(recall=True, without=["simplify"])
        overflown = plan.register(ex.log(ex.exp(x)))
        plan.eval()
    assert ex.evaluate(ex.log(ex.exp(x))).tolist() == [1e3, -1e3]
    assert overflown.data().tolist() == [np.inf, -np.inf]


@pytest.mark.spec("M-E3", "P-2")
def test_side_effects_happen_in_each_evaluation() -> None:
    """An impure operation runs in each evaluation, as a root or below other operations."""
    Counting.runs = 0
    y = Counting()(ex.tensor(np.zeros(3))) + 1.0
    held = [ex.evaluate(y), ex.evaluate(y), ex.evaluate(y * 2.0)]
    assert Counting.runs == len(held)


@pytest.mark.spec("M-E1")
def test_a_kernel_that_evaluates_uses_another_plan() -> None:
    """Kernels in the default plan's run may evaluate without affecting its registrations."""

    class Inner(ex.Data):
        """A number that is evaluated."""

        @property
        def type(self) -> ex.TensorType:
            return ex.TensorType((), np.float64)

        def evaluate(self) -> Any:
            return ex.evaluate(Counted()(ex.tensor(1.0)))

    first = (Inner() * 2.0).eval_register()
    assert ex.evaluate(Inner() * 3.0) == 6
    assert first.data() == 4
    assert Counted.runs == 2
    again = ex.default_plan()

    class Rerun(ex.Data):
        """A number that runs the running plan."""

        @property
        def type(self) -> ex.TensorType:
            return ex.TensorType((), np.float64)

        def evaluate(self) -> Any:
            again.eval()

    with pytest.raises(ex.RunError, match="eval\\(\\) of a plan that is running"):
        ex.evaluate(Rerun() * 2.0)


@pytest.mark.spec("M-E1")
def test_a_failing_evaluation_clears_the_registrations() -> None:
    """As with eval(), a failed run gives no values; the plan evaluates later registrations."""

    class Failing(ex.Elementwise):
        """Fail."""

        weight, defined_everywhere = 1, True
        nondifferentiable = "a test"
        examples = (ex.Example(ex.real(2)),)
        fails = False

        def kernel(self, out: Any, x: Any) -> Any:
            if type(self).fails:
                raise ValueError("no")
            np.copyto(out, x)
            return out

    x = ex.tensor(np.zeros(3))
    handle = Counted()(x).eval_register()
    Failing.fails = True
    with pytest.raises(ex.RunError, match="no"):
        ex.evaluate(Failing()(x))
    with pytest.raises(ex.StateError, match="ended with RunError"):
        handle.data()
    assert ex.evaluate(Counted()(x)).tolist() == [1, 1, 1]


def test_a_result_does_not_keep_its_graph() -> None:
    """A result keeps neither its expression nor the tensors below it, and tables shrink with the results."""
    x = ex.tensor(np.zeros(3))
    gone = weakref.ref(x)
    held = [ex.evaluate(x + float(number)) for number in range(20)]
    del x
    ex.evaluate(ex.tensor(1.0) * 2.0)  # the previous plan was freed
    cache.clear()
    gc.collect()
    assert gone() is None
    assert len(held) == 20
    del held
    gc.collect()
    for number in range(20):
        ex.evaluate(ex.tensor(1.0) * float(number))
    gc.collect()
    assert not result_cache._by_number
    assert not result_cache._operations


@pytest.mark.soak
def test_unreferenced_values_are_removed_from_the_table() -> None:
    """The table is as small as the referenced values, all of which it contains."""
    x = ex.tensor(np.arange(3.0))
    roots = [x + float(number) for number in range(4000)]
    kept = ex.evaluate(roots[0])
    for root in roots[1:]:
        ex.evaluate(root)
    uids = {root.uid for root in roots}
    assert sum([len(uids & table.keys()) for table in result_cache._by_uid.values()]) < 2100
    assert ex.evaluate(roots[0]) is kept


@pytest.mark.soak
def test_results_of_many_evaluations_are_recalled_by_equal_expressions() -> None:
    """Test single roots, of which thousands are not numbered yet, and numbered results."""
    x = ex.tensor(np.arange(3.0))
    held = [ex.evaluate(ex.tanh(x + float(number))) for number in range(2000)]
    for number in (0, 7, 1999):
        assert ex.evaluate(ex.tanh(x + float(number))) is held[number]
    other = ex.tensor(np.arange(3.0))
    assert all(ex.evaluate(ex.tanh(other + float(number))) is not held[number] for number in (0, 7, 1999))


def test_threads_recall_concurrently() -> None:
    x = ex.tensor(np.arange(1000.0))
    wrong: list[object] = []

    def work() -> None:
        held: list[Any] = []
        for number in range(60):
            held = [*held[-5:], ex.evaluate(ex.tanh(x * float(number % 7)) + 1.0)]
            if not np.array_equal(held[-1], np.tanh(x.array * (number % 7)) + 1):
                wrong.append(number)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@ex.function
def probabilities(x: Any) -> Any:
    """Return a softmax inside a call."""
    return ex.softmax(x)


@pytest.mark.spec("M-E3", "P-2", "P-12")
@pytest.mark.parametrize(
    "power",
    [ex.softmax, ex.sigmoid, probabilities, lambda x: ex.exp(x) / ex.exp(x).sum(), lambda x: 1 / (1 + ex.exp(-x))],
    ids=["softmax", "sigmoid", "call", "softmax by hand", "sigmoid by hand"],
)
def test_a_referenced_value_that_underflowed_makes_no_other_one_infinite(power: Callable[[Any], Any]) -> None:
    """Values planned from exponents are not computed from an evaluated power."""
    x = ex.tensor(np.array([1e4, -1e4, 3.0]))
    total = ex.log(power(x)).sum()
    roots = [total, ex.grad(total, x)]
    expected = ex.evaluate(roots, recall=False)
    held = ex.evaluate(power(x))
    assert held[1] == 0
    for root, value in zip(roots, expected, strict=True):
        assert np.isfinite(value).all()
        np.testing.assert_array_equal(ex.evaluate(root), value)


@pytest.mark.spec("M-E3", "P-2")
def test_a_referenced_power_is_recalled_if_it_is_not_rewritten() -> None:
    """The simplify pass comes first, and the value is recalled only if the power remains."""
    x = ex.tensor(np.array([0.5, -1.0, 2.0]))
    p = ex.exp(x)
    held = ex.evaluate(p)
    plan = ex.EvalPlan(recall=True)
    handle = plan.register(p * x + 1.0)
    plan.eval()
    assert [row.name for row in plan.recording.stages].count("recall again") == 1
    assert "exp" not in [kernel.result.operation.name for kernel in plan.planned.schedule.kernels]
    np.testing.assert_allclose(handle.data(), held * x.array + 1.0)


@pytest.mark.spec("M-E3")
@pytest.mark.parametrize("between", [0, 12])
def test_an_expression_with_swapped_operands_is_computed(between: int) -> None:
    """It is another value, even if results were numbered by then."""
    a, b = ex.tensor(np.arange(3.0)), ex.tensor(np.full(3, 7.0))
    held = [ex.evaluate(a - b), ex.evaluate(ex.arctan2(a, b) ** 2)]
    kept = [ex.evaluate(ex.tensor(np.full(3, float(number))) + 1.0) for number in range(between)]
    assert len(kept) == between
    np.testing.assert_array_equal(ex.evaluate(b - a), -held[0])
    np.testing.assert_array_equal(ex.evaluate(ex.arctan2(b, a) ** 2), np.arctan2(b.array, a.array) ** 2)
    np.testing.assert_array_equal(ex.evaluate(a - b), held[0])


@pytest.mark.spec("M-E3", "M-E1")
def test_some_of_several_requested_roots_may_be_recalled() -> None:
    x = ex.tensor(np.arange(3.0))
    old, new = ex.sin(x), ex.cos(x)
    held = ex.evaluate(old)
    first, second = ex.evaluate((old, new))
    assert first is held
    np.testing.assert_array_equal(second, np.cos(x.array))
    second, first = ex.evaluate((new + 1.0, old))
    assert first is held
    np.testing.assert_array_equal(second, np.cos(x.array) + 1)


@pytest.mark.spec("M-E3", "P-2", "P-12")
@pytest.mark.parametrize(
    ("held", "form"),
    [
        (lambda x: -x, lambda x: ex.exp(x) / (ex.exp(x) + ex.exp(-x))),
        (lambda x: 2 * x, lambda x: ex.exp(2 * x) / (ex.exp(2 * x) + 1)),
        (lambda x: x - x.max(), lambda x: ex.log(ex.exp(x - x.max()) / ex.exp(x - x.max()).sum())),
        (lambda x: ex.square(x * 1e300), lambda x: ex.sqrt(ex.square(x * 1e300))),
        (lambda x: (x * 1e300) ** 2, lambda x: ex.sqrt((x * 1e300) ** 2)),
        (lambda x: ex.exp(x).sum(), lambda x: ex.log(ex.exp(x).sum())),
    ],
)
def test_a_value_does_not_depend_on_referenced_values(
    held: Callable[[ex.Expr], ex.Expr], form: Callable[[ex.Expr], ex.Expr]
) -> None:
    """Referenced exponents, shifts, squares and sums change nothing, because simplify comes before recall."""
    x = ex.tensor(np.array([1e4, -1e4, 3.0]))
    expected = ex.evaluate(form(x), recall=False)
    assert np.isfinite(expected).all()
    kept = ex.evaluate(held(x))
    np.testing.assert_array_equal(ex.evaluate(form(x)), expected)
    assert kept is ex.evaluate(held(x))


def test_a_value_may_be_freed_after_its_module_was_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    """At interpreter exit module names become None before finalizers of arrays are called."""
    table = {"key": object()}
    forget = result_cache._forgetting(table, "key", 0)
    monkeypatch.setattr(result_cache, "_lock", None)
    forget(table["key"])
    assert table
