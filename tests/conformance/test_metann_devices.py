"""MetaNN's user-defined element types and devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.support.foreign import Block, Counting, FixedPoint, fixed, there


def decisions(*roots: Any, **options: Any) -> tuple[list[Any], list[Any]]:
    """Return the values of expressions and the decisions of their plan."""
    plan = ex.EvalPlan(**options)
    handles = [plan.register(root) for root in roots]
    plan.eval()
    return [handle.data() for handle in handles], plan.recording.decisions


def codes(found: list[Any], applied: bool = True) -> set[str]:
    return {decision.code for decision in found if (decision.verdict == "applied") == applied}


@pytest.mark.spec("M-D10", headline=True)
def test_a_user_defined_element_type_works() -> None:
    """Use an element type defined in a cell like float32, with operators, products, views and gradients."""
    numbers = np.array([[1.5, -2.25], [0.5, 3.0]])
    x = ex.tensor(numbers, fixed)
    assert repr(x.type) == "2×2 fixed8"
    y = (x @ x + x.T * 0.5 - 1).sum(axis=0)
    assert y.dtype == fixed.dtype
    want = (numbers @ numbers + numbers.T * 0.5 - 1).sum(axis=0)
    np.testing.assert_allclose(ex.evaluate(y.astype(np.float64)), want, atol=2 / 256)
    assert fixed.read(ex.evaluate(y)).tolist() == ex.evaluate(y.astype(np.float64)).tolist()
    np.testing.assert_allclose(ex.evaluate(ex.grad((x * x).sum(), x).astype(float)), 2 * numbers, atol=2 / 256)
    parts = [x[0], x.reshape(4)[1:3], ex.concatenate([x, x])[2], ex.stack([x, x])[1, 0], ex.where(x > 0, x, -x)[0]]
    assert ex.evaluate(x > 0).tolist() == (numbers > 0).tolist()
    assert [ex.evaluate(part.astype(float)).tolist() for part in parts] == [
        [1.5, -2.25],
        [-2.25, 0.5],
        [1.5, -2.25],
        [1.5, -2.25],
        [1.5, 2.25],
    ]
    assert ex.evaluate(ex.tensor([100.0], fixed).astype(float) + 1).tolist() == [101.0]
    assert ex.evaluate((ex.tensor([100.0], fixed) * 2).astype(float)).tolist() == [32767 / 256]
    with pytest.raises(ex.OperandError, match="x\\.astype\\(fixed8\\)"):
        x + ex.tensor(numbers)
    assert float(x[0, 0] + 1) == 2.5
    assert np.asarray(x, np.float32).tolist() == numbers.tolist()
    into = ex.Matrix(2, 2)
    into[0] = x[0]
    into[1] = x.array[1]
    assert into.array.tolist() == numbers.tolist()


@pytest.mark.spec("M-D10")
def test_rules_and_recordings_support_a_user_defined_element_type() -> None:
    """Include deduplication, pictures and equality of expressions."""
    x = ex.tensor([1.5, 2.5], fixed)
    plan = ex.EvalPlan(record="values")
    handle = plan.register(x * 1 + ex.ZeroTensor((2,), fixed) + (x + x) * (x + x))
    plan.eval()
    assert fixed.read(handle.data()).tolist() == [10.5, 27.5]
    assert {"neutral", "zero_term", "merged"} <= codes(plan.recording.decisions)
    assert "fixed8" in {kind.dtype for kind in plan.recording.types}
    assert "fixed8" in str(x)


@pytest.mark.spec("M-D10")
def test_kernels_of_an_element_type() -> None:
    """A kernel registered for (operation, element type) receives the stored values."""

    class Saturating(FixedPoint):
        """Fixed-point type whose sums are computed with integers."""

    element = Saturating("saturating8")
    seen = []
    x = ex.tensor([1.5, 120.0], element)
    assert element.read(ex.evaluate(x + x)).tolist() == [3.0, 32767 / 256]

    @ex.kernel("add", on=element)
    def add(operation: ex.Operation, out: Any, a: Any, b: Any) -> None:
        seen.append(a.dtype)
        np.copyto(out, np.clip(a.astype(np.int32) + b, -32768, 32767), casting="unsafe")

    assert element.read(ex.evaluate(x + x)).tolist() == [3.0, 32767 / 256]
    assert seen == [np.int16]

    @ex.kernel("add", on=element)
    def again(operation: ex.Operation, out: Any, a: Any, b: Any) -> None:
        np.subtract(a, b, out=out)

    assert element.read(ex.evaluate(x + x)).tolist() == [0.0, 0.0]  # new plans use the newest kernel
    assert Saturating("saturating8") == element  # the user runs the cell again
    with pytest.raises(ex.DeclarationError, match="a second element type 'saturating8'"):
        FixedPoint("saturating8")


@pytest.mark.spec("M-D10")
def test_dtypes_of_numpy_extensions_work() -> None:
    """A dtype from a NumPy extension works wherever NumPy computes with it."""
    from numpy._core._rational_tests import rational

    x = ex.tensor(np.array([rational(1, 2), rational(1, 3)]))
    assert ex.evaluate(x * x + x).tolist() == [rational(3, 4), rational(4, 9)]


@pytest.mark.spec("M-D10", "M-E10")
def test_a_user_defined_device_works() -> None:
    """A device declared in a cell, with its own memory and registered kernels, runs expressions in plans."""
    numbers = np.array([[1.0, 2.0], [3.0, 4.0]])
    x = ex.tensor(numbers, device=there)
    assert (x.device, x.array.tolist()) == (there, numbers.tolist())
    y = (x @ x + x) * 2 - 1
    assert repr(y.type) == "2×2 float64 on conformance"
    there.told.clear()
    (value,), taken = decisions(y)
    np.testing.assert_array_equal(value, (numbers @ numbers + numbers) * 2 - 1)
    assert not value.flags.writeable
    assert there.told.count("read") == 1  # the result
    assert "device" in codes(taken, applied=False)
    x = ex.tensor([1.0, 2.0], device=there)
    x[0] = 7.0
    assert x.array.tolist() == [7.0, 2.0]
    assert ex.evaluate(ex.ZeroTensor((2,), np.float64, there)).tolist() == [0.0, 0.0]


@pytest.mark.spec("M-E10", "M-D10")
def test_copies_between_devices_are_explicit() -> None:
    """Mixed devices raise an error with the fix; a copy is a differentiable node, and is removed when not needed."""
    here, x = ex.tensor([1.0, 2.0]), ex.tensor([3.0, 4.0], device=there)
    with pytest.raises(ex.OperandError, match=r"x\.to_device\(explorer\.device\('cpu'\)\)"):
        here + x
    loss = ((x * x).to_device(ex.cpu) * here).sum()
    (value, gradient), taken = decisions(loss, ex.grad(loss, x))
    assert value == 9.0 + 32.0
    assert gradient.tolist() == [6.0, 16.0]
    plan = ex.EvalPlan(record="values")
    plan.register(loss)
    plan.eval()
    assert "to cpu" in plan.recording.nodes.label
    texts = {plan.recording.type_text(node) for node in range(len(plan.recording.nodes))}
    assert {"2 float64 on conformance", "2 float64"} <= texts
    (value,), taken = decisions(here.to_device(there).to_device(ex.cpu) + 1)
    assert value.tolist() == [2.0, 3.0]
    assert "RoundTripCopy" in {decision.rule for decision in taken}
    for described in (ex.ZeroTensor((2,)), ex.TrivialTensor(3.0, (2,)), ex.BiasVector(2, 1)):
        copied = described.to_device(there)
        (value,), taken = decisions(copied + copied)
        assert value.tolist() == (2 * ex.evaluate(described)).tolist()
        assert "RecreateConstantOnDevice" in {decision.rule for decision in taken}


@pytest.mark.spec("M-E10", headline=True)
def test_there_is_a_default_plan_for_each_device() -> None:
    """Keep a default plan for each device; a device's plan rejects values on other devices."""
    x, here = ex.tensor([1.0, 2.0], device=there), ex.tensor([1.0])
    handles = [(x + x).eval_register(), (here + here).eval_register()]
    ex.default_plan(there).eval()
    assert handles[0].data().tolist() == [2.0, 4.0]
    with pytest.raises(ex.StateError, match="before its evaluation"):
        handles[1].data()
    ex.default_plan().eval()
    assert handles[1].data().tolist() == [2.0]
    with pytest.raises(ex.OperandError, match="in the plan of conformance"):
        ex.EvalPlan(device=there).register(here)


@pytest.mark.spec("M-D10", "M-E10")
def test_an_operation_without_a_kernel_on_the_device_raises_an_error() -> None:
    """The error comes before anything runs, and no rule adds such an operation."""
    x = ex.tensor([1.0, 2.0], device=there)
    with pytest.raises(ex.DeclarationError, match=r"@explorer\.kernel\('exp', on=conformance\)"):
        ex.evaluate(np.exp(x))
    a, b, c = x * 1.5, x * 2.5, x * 3.5
    (value,), _ = decisions(a + b + c)
    assert value.tolist() == [7.5, 15.0]

    @ex.kernel("negative", on=there)
    def wrong(operation: ex.Operation, out: Any, a: Any) -> Any:
        return Block(np.ones(7))

    with pytest.raises(ex.RunError, match="gave the shapes"):
        ex.evaluate(-x)


@pytest.mark.spec("M-D10")
def test_memory_of_a_device_is_freed() -> None:
    """A chain of a hundred operations on a device keeps few of its arrays at a time."""
    import gc
    import weakref

    alive: weakref.WeakSet[Block] = weakref.WeakSet()
    most = 0
    real = there.empty

    def empty(shape: Any, dtype: Any) -> Any:
        nonlocal most
        tensor = real(shape, dtype)
        alive.add(tensor)
        most = max(most, len(alive))
        return tensor

    x = ex.tensor(np.ones(4), device=there)
    y = x
    for _ in range(100):
        y = y + x
    there.empty = empty  # type: ignore[method-assign]
    try:
        value = ex.evaluate(y)
    finally:
        del there.empty  # type: ignore[method-assign]
        gc.collect()
    assert value.tolist() == [101.0] * 4
    assert most <= 3


@pytest.mark.spec("M-D10")
def test_a_cell_that_declares_a_device_can_run_again() -> None:
    """The same class gives the same device; another class with that name raises an error."""
    before = ex.tensor([1.0], device=there)
    assert Counting("conformance") is there
    assert ex.evaluate(before + before).tolist() == [2.0]
    with pytest.raises(ex.DeclarationError, match="a second device 'conformance'"):
        ex.Device("conformance")
