"""The smallest change that would reverse a declined decision, found by planning it, with both costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import explorer as ex
from explorer.plan.passes import Inline
from explorer.run.diagnosis.what_if import WhatIf
from tests.golden.programs import PROGRAMS
from tests.support.programs import prepared, programs
from tests.support.refusals import refused

x = ex.tensor(np.ones((3, 4), np.float32), name="x")
row = ex.tensor(np.ones(4, np.float32), name="row")


def what_if_of(plan: ex.EvalPlan, code: str) -> WhatIf:
    (decision,) = [decision for decision in plan.recording.declined if decision.code == code]
    return plan.what_if(decision)


def what_ifs_of(plan: ex.EvalPlan, code: str) -> list[WhatIf]:
    return [plan.what_if(decision) for decision in plan.recording.declined if decision.code == code]


def flipped(plan: ex.EvalPlan, code: str) -> str:
    decision = what_if_of(plan, code)
    assert decision.change is not None, str(decision)
    assert decision.change is decision.attempts[-1]
    return decision.change.change


@pytest.mark.spec("P-18")
def test_removing_a_consumer_lets_an_operation_fuse() -> None:
    """An operand with two readers is fused once the other one reads something else; both costs and peaks are
    reported."""
    large = ex.tensor(np.ones((500, 500), np.float32))
    shared = large + 0.5
    plan = prepared(ex.negative(shared) @ ex.relu(shared))
    decision, other = [plan.what_if(each) for each in plan.recording.declined if each.code == "other_consumers"]
    assert decision.change is not None
    assert other.change is not None
    assert other.change.change == "if relu alone read add, and negative another value"
    assert decision.change.change == "if negative alone read add, and relu another value"
    assert decision.change.estimated_us < decision.estimated_us
    text = str(decision)
    assert text.splitlines()[0] == "✗ " + decision.declined
    assert text.splitlines()[1].startswith("  ✓ if negative alone read add, and relu another value: ")
    assert " → " in text.splitlines()[1]


def price_and_peak(plan: ex.EvalPlan) -> tuple[float, int]:
    schedule = plan.planned.schedule
    return sum(kernel.cost.estimate for kernel in schedule.kernels), schedule.peak


@pytest.mark.spec("P-18", headline=True)
def test_prices_and_peaks_equal_those_of_plans_written_by_hand() -> None:
    """Find the smallest change that would reverse a declined decision, with the costs and peaks of both plans."""
    large, other = (ex.tensor(np.full((500, 500), number, np.float32)) for number in (1, 2))
    shared = large + 0.5
    plan = prepared(ex.negative(shared) @ ex.relu(shared))
    decision = what_ifs_of(plan, "other_consumers")[0]
    (change,) = decision.attempts
    assert (decision.estimated_us, decision.peak_bytes) == price_and_peak(plan)
    by_hand = price_and_peak(prepared(ex.negative(shared) @ ex.relu(other)))
    assert (change.estimated_us, change.peak_bytes) == pytest.approx(by_hand)
    assert change.peak_bytes > decision.peak_bytes > 0
    assert str(decision).splitlines()[1].endswith("estimated 5.67 ms → 5.45 ms, peak 2.86 MB → 3.36 MB")
    few = what_if_of(convolution((1, 64, 6, 6), (64, 64, 3, 3)), "few_tiles")
    eight = price_and_peak(convolution((8, 64, 6, 6), (64, 64, 3, 3)))
    assert [tried.flips for tried in few.attempts] == [False, False, True]
    assert (few.attempts[-1].estimated_us * 8, few.attempts[-1].peak_bytes) == pytest.approx(eight)


@pytest.mark.spec("P-18")
def test_a_change_that_does_not_reverse_the_decision_is_no_answer() -> None:
    """Without one reader another fusion is preferred, so that this one is still declined."""
    build, options = PROGRAMS["perceptron"]
    plan = prepared(*build(), **options)
    first = what_ifs_of(plan, "other_consumers")[0]
    assert [tried.change for tried in first.attempts] == ["if sum alone read multiply, and matmul another value"]
    assert first.change is None
    assert "; still declined\n  no small change is known" in str(first)


@pytest.mark.spec("P-18")
def test_changes_that_let_elementwise_operations_fuse() -> None:
    """Do not request a value, broadcast before the operation, or move the operation before the view."""
    first = ex.tanh(x)
    assert flipped(prepared(first, ex.exp(first)), "asked_for") == "the value of tanh not requested"
    assert flipped(prepared(x + ex.tanh(row)), "shape") == "tanh of operands broadcast to 3×4 first"
    turned = prepared(ex.relu(ex.transpose(ex.tanh(x))))
    assert flipped(turned, "producer") == "relu taken before transpose"


@pytest.mark.spec("P-18")
def test_changes_that_let_rules_apply() -> None:
    """Try a dtype, a known sign, one reader less, and another order of operands."""
    positive = prepared(ex.exp(ex.log(x)))
    assert flipped(positive, "domain") == "x known to be positive, as exp2(…) is"
    wide = prepared(x * ex.TrivialTensor(1.0, (3, 4), dtype="float64"))
    assert flipped(wide, "type") == "x as 3×4 float64 from the beginning"
    a, b = ex.tensor(np.ones(3)), ex.tensor(np.ones(3))
    assert "in the other order" in flipped(prepared(ex.maximum(a, b) - ex.maximum(b, a)), "order_of_zeros")


@pytest.mark.spec("P-18")
def test_the_number_of_calls_that_would_pay_off_a_batch_is_found() -> None:
    """It is the smallest for which stacking is cheaper, at equal work."""

    @ex.function
    def layer(v: Any, w: Any) -> Any:
        return ex.tanh(v @ w)

    weight = ex.tensor(np.ones((8, 8), np.float32))
    small = prepared(*[layer(ex.tensor(np.ones(8, np.float32)), weight) for _ in range(2)])
    assert flipped(small, "stacking_costs_more") == "4 of layer in place of 2"
    product = ex.function(lambda a, b: a @ b)
    arrays = [ex.tensor(np.ones((300, 300), np.float32)) for _ in range(4)]
    large = what_if_of(prepared(product(*arrays[:2]), product(*arrays[2:])), "stacking_costs_more")
    assert large.change is None
    assert [tried.change.split()[0] for tried in large.attempts] == ["4", "8", "16", "32", "64", "128"]
    assert "no small change is known" in str(large)


@pytest.mark.spec("P-18")
def test_the_limit_that_would_open_a_call_is_found() -> None:
    """It is the smallest of repeatedly doubled limits, with the costs of the resulting plan."""
    body = ex.function(lambda v: ex.tanh(ex.sin(ex.exp(v) + 1.0)) * 2.0)
    decision = what_if_of(prepared(body(x), inline=Inline(3)), "too_large")
    assert decision.change is not None
    assert decision.change.change == "inline=ex.passes.Inline(limit=12)"
    assert [tried.flips for tried in decision.attempts] == [False, True]


def convolution(images: tuple[int, ...], filters: tuple[int, ...], later: bool = True, **options: Any) -> ex.EvalPlan:
    type_ = ex.TensorType(images, np.float32)
    pixels = ex.operation("parameter")(kind=type_, title="images")() if later else ex.tensor(np.ones(images, "f4"))
    return prepared(ex.conv2d(pixels, ex.tensor(np.ones(filters, np.float32)), **options), inference=True)


@pytest.mark.spec("P-18")
def test_changes_that_let_a_convolution_be_tiled() -> None:
    """Try a larger batch, more channels, other windows and constant filters; costs are per image."""
    few = what_if_of(convolution((1, 64, 6, 6), (64, 64, 3, 3)), "few_tiles")
    assert few.change is not None
    assert few.change.change == "8 images at once in place of 1"
    assert few.change.estimated_us < few.estimated_us
    narrow = convolution((4, 8, 16, 16), (8, 8, 3, 3))
    assert flipped(narrow, "few_channels") == "32 channels to 32 in place of 8 to 8"
    strided = convolution((4, 64, 16, 16), (64, 64, 3, 3), strides=2)
    assert flipped(strided, "windows") == "strides=(1, 1) of the windows"
    varying = convolution((4, 64, 16, 16), (64, 64, 3, 3), later=False)
    assert flipped(varying, "filters_vary") == "images passed at each run, and filters that stay"


@pytest.mark.spec("P-18")
def test_a_decision_without_a_small_change_reports_that() -> None:
    """A reduction never gets an epilogue. For an expression, its most expensive declined decision is used."""
    total = x.sum(axis=0)
    root = total * row
    plan = prepared(root)
    decision = plan.what_if(root)
    assert decision.change is None
    assert str(decision).splitlines()[1:] == ["  no small change is known that applies it"]
    with refused(ex.OperandError):
        plan.what_if(total)
    done = prepared(ex.log(ex.exp(x)))
    with refused(ex.OperandError, "applied"):
        done.what_if(done.recording.decisions[0])
    with refused(ex.OperandError, "decision"):
        done.what_if(plan.recording.decisions[0])


def check(plan: ex.EvalPlan) -> None:
    before = plan.recording.fingerprint
    for decision in plan.recording.declined:
        result = plan.what_if(decision)
        assert [tried.flips for tried in result.attempts[:-1]] == [False] * max(0, len(result.attempts) - 1)
        assert result.estimated_us >= 0
        assert str(result).startswith("✗ ")
    assert plan.recording.fingerprint == before


@pytest.mark.spec("P-18")
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_declined_decision_of_golden_programs_has_an_answer(name: str) -> None:
    build, options = PROGRAMS[name]
    check(prepared(*build(), **options))


@pytest.mark.spec("P-18")
@settings(max_examples=30)
@given(programs(12))
def test_every_refusal_of_random_programs_is_answered(roots: list[ex.Expr]) -> None:
    """Asking what a declined decision would take never fails, and leaves the plan as it was."""
    check(prepared(*roots))
