"""Numerical contract: each rule changes numbers only as it declares, on numerically difficult operands.

Each rule is tried in its reasons' programs (tests/laws/occasions.py) with other leaf values: cancelling, huge,
subnormal, ±0, ±∞, NaN, and the integer limits.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.core.ir.tensor import Tensor
from explorer.core.ir.traversal import reachable, rebuild
from explorer.plan.graph.numerics import CLASSES
from explorer.plan.graph.reasons import CATALOGUE, Reason
from explorer.plan.options import PASSES
from explorer.plan.planner import Plan
from explorer.plan.rewrite.rule import Rule
from explorer.plan.rewrite.rules import symbolic_constants
from tests.laws.occasions import OCCASIONS, occasion
from tests.support.exact import exact
from tests.support.interpreter import reference

Array = np.ndarray[Any, Any]
OPTIONAL = tuple([name for name in PASSES if name not in ("inline", "order", "buffers")])
"""passes that the baseline plan omits"""
ROUNDS = 6
TERMS = 64
"""maximum number of terms of a sum in these programs"""
FINITE = (0.0, -0.0, 1.0, -1.0, 0.1, 1e4, -1e4, 30.0, -745.0, 1e8, -1e8, 0.3, 1e30, 1e-30, 1 + 2**-20, 5e-324, 3e38)
ALGEBRAS_ZERO = (
    symbolic_constants.ProductWithZero,
    symbolic_constants.SumWithZero,
    symbolic_constants.ZeroThroughView,
)
"""rules about ZeroTensor, an algebraic zero by definition: 0 · ∞ is 0 (assets/decisions/0010)"""
SPECIAL = (*FINITE, np.inf, -np.inf, np.nan)


def rules(*classes: str) -> list[Any]:
    """Yield applied reasons of rules with declared numerical classes, each with a program."""
    return [
        pytest.param(reason, id=reason.anchor)
        for reason in OCCASIONS
        if isinstance(reason.owner, type)
        and issubclass(reason.owner, Rule)
        and reason.effect in classes
        and reason in [each.reason for each in occasion(reason).plan.graph.decisions if each.applied]
        and reason.owner not in ALGEBRAS_ZERO
        and not any(node.type.device is not ex.cpu for node in occasion(reason).plan.graph.recorded)
    ]


def hard(leaf: ex.Expr, numbers: tuple[float, ...], random: np.random.Generator) -> Array:
    """Return a numerically difficult array of a leaf's type; labels and shapes are unchanged."""
    dtype = leaf.dtype
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return random.choice(np.array(numbers), leaf.shape).astype(dtype)
    if dtype.kind == "c":
        return (
            random.choice(np.array(numbers), leaf.shape) + 1j * random.choice(np.array(numbers), leaf.shape)
        ).astype(dtype)
    if dtype.kind in "iu" and leaf.label != "labels":
        limits = np.iinfo(dtype)
        return random.choice(np.array([limits.min, limits.max, 0, 1, limits.max // 2], dtype), leaf.shape)
    return leaf.array if isinstance(leaf, Tensor) else np.zeros(leaf.shape, dtype)


def with_numbers(plan: Plan, numbers: tuple[float, ...], seed: int) -> tuple[list[ex.Expr], dict[ex.Expr, Array]]:
    """Return the recorded roots with other leaf tensors, and the parameters' values."""
    random = np.random.default_rng(seed)
    nodes = reachable(plan.graph.recorded_roots)
    images: dict[int, ex.Expr] = {}
    given: dict[ex.Expr, Array] = {}
    for leaf in nodes:
        if isinstance(leaf, Tensor) and not leaf.operands:
            images[leaf.uid] = ex.tensor(hard(leaf, numbers, random), name=leaf.label)
        elif isinstance(leaf.operation, Parameter):
            images[leaf.uid], given[leaf] = leaf, hard(leaf, numbers, random)
    copies = rebuild(nodes, images, lambda node: node.scope)
    return [copies[root.uid] for root in plan.graph.recorded_roots], given


def values(roots: list[ex.Expr], given: dict[ex.Expr, Array], **options: Any) -> tuple[list[Array], set[Reason]]:
    """Return the values of expressions under a plan, and the applied reasons."""
    plan = ex.EvalPlan(record="off", **options)
    handles = [plan.register(root) for root in roots]
    with np.errstate(all="ignore"):
        plan.eval(given)
    applied = {each.reason for each in plan.planned.graph.decisions if each.applied}
    return [np.asarray(handle.data()) for handle in handles], applied


def options_of(reason: Reason) -> dict[str, Any]:
    program = OCCASIONS[reason]
    return dict(program[1]) if isinstance(program, tuple) else {}


def seeds(reason: Reason) -> range:
    start = zlib.crc32(reason.anchor.encode())
    return range(start, start + ROUNDS)


def test_every_rule_declares_its_effect_on_numbers() -> None:
    for rule in Rule.rules:
        assert rule.numerics in CLASSES
    owned = [
        reason for reason in CATALOGUE.values() if isinstance(reason.owner, type) and issubclass(reason.owner, Rule)
    ]
    assert {reason.effect for reason in owned} == set(CLASSES)


@pytest.mark.spec("U-1", "U-4", headline=True)
@pytest.mark.parametrize("reason", rules("exact"))
def test_exact_rules_keep_every_bit(reason: Reason) -> None:
    """Declare each rule as exact, rounding, reordering or reassociating; exact rules keep every bit of difficult
    operands.
    """
    seen: set[Reason] = set()
    for seed in seeds(reason):
        roots, given = with_numbers(occasion(reason).plan, SPECIAL, seed)
        bare, _ = values(roots, given, without=OPTIONAL)
        planned, applied = values(roots, given, **options_of(reason))
        seen |= applied
        if any(each.effect != "exact" for each in applied):
            continue
        for old, new in zip(bare, planned, strict=True):
            assert old.dtype == new.dtype
            if old.dtype.kind == "f":
                same = ((old == new) & (np.signbit(old) == np.signbit(new))) | (np.isnan(old) & np.isnan(new))
                assert same.all(), (seed, old[~same], new[~same])
            else:
                np.testing.assert_array_equal(old, new)
    assert reason in seen


@pytest.mark.spec("U-4", headline=True)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("reason", rules("rounding", "reordering"))
def test_errors_of_rounding_and_reordering_rules_are_bounded(reason: Reason) -> None:
    """Limit the error of rounding and reordering rules to 4 times the unplanned error and 4 units of rounding."""
    seen: set[Reason] = set()
    for seed in seeds(reason):
        roots, given = with_numbers(occasion(reason).plan, FINITE, seed)
        bare, _ = values(roots, given, without=OPTIONAL)
        planned, applied = values(roots, given, **options_of(reason))
        seen |= applied
        fixed = {node.uid: array for node, array in given.items()}
        try:
            right = [np.asarray(value, np.float64) for value in exact(roots, 900)]
        except (NotImplementedError, ArithmeticError, ValueError, KeyError, AttributeError, ex.StateError):
            right = reference(roots, fixed)
        noisy = [reference(roots, fixed, np.random.default_rng(number)) for number in range(4)]
        # Σ|terms| of sums and products comes from the same program of absolute values.
        positive = {leaf.uid: abs(leaf.array) for leaf in reachable(roots) if isinstance(leaf, Tensor)}
        positive |= {uid: abs(array) for uid, array in fixed.items()}
        terms = reference(roots, positive) if reason.effect == "reordering" else [np.zeros(1)] * len(roots)
        for index, (old, new, wanted) in enumerate(zip(bare, planned, right, strict=True)):
            if old.dtype.kind != "f":
                continue
            eps = float(np.finfo(old.dtype).eps)
            with np.errstate(all="ignore"):
                spread = np.max([abs(lanes[index] - wanted) for lanes in noisy], axis=0) * (eps / 1e-13 + 1)
                room = 4 * abs(old - wanted) + 4 * eps * abs(wanted) + 4 * spread + np.finfo(old.dtype).tiny
                room = room + TERMS * eps * abs(terms[index])
                known = np.isfinite(old) & np.isfinite(wanted) & np.isfinite(spread)
                assert (~known | (abs(new - wanted) <= room)).all(), (seed, old, new, wanted)
    assert reason in seen


@pytest.mark.spec("U-2", headline=True)
def test_fast_numerics_are_declined_by_default() -> None:
    """Keep the order of operations by default; rewrites of numerics='fast' are declined with their cost."""
    x = Parameter(ex.TensorType((64, 64), np.float32), "x")()
    w, scale = ex.tensor(np.full((64, 64), 1e25, "f4")), ex.tensor(np.full(64, 1e25, "f4"))

    def planned(**options: Any) -> tuple[Array, list[Any]]:
        plan = ex.EvalPlan(**options)
        handle = plan.register((x @ w) * scale)
        with np.errstate(all="ignore"):
            plan.eval({x: np.full((64, 64), 1e-30, "f4")})
        return handle.data(), plan.recording.decisions

    value, decisions = planned()
    np.testing.assert_allclose(value, np.full((64, 64), 64 * 1e20), rtol=1e-5)
    (declined,) = [each for each in decisions if each.code == "changes_rounding"]
    assert (declined.rule, declined.verdict) == ("FactorIntoWeights", "declined")
    assert declined.facts["saved_us"] > 0
    value, decisions = planned(numerics="fast")
    assert not np.isfinite(value).any()
    assert "factor_into_weights" in [each.code for each in decisions]
    with pytest.raises(ex.ExplorerError, match="numerics"):
        ex.EvalPlan(numerics="quick")


@pytest.mark.spec("U-2")
@pytest.mark.parametrize("start", [None, 0, 0.0, -0.0, 2.5])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_sum_written_as_a_loop_keeps_its_order_in_one_kernel(start: Any, dtype: str) -> None:
    """A thousand losses become one cumulative sum with the bits of a Python loop, including infinities and signed
    zeros."""
    random = np.random.default_rng(3)
    for numbers in ([1e8, -1e8, 0.3], [3e38, -3e38, 1.0], [-0.0], [1e-40, 0.1]):
        array = random.choice(np.array(numbers), (200,)).astype(dtype)
        losses = ex.tensor(array) * 1.0
        total: Any = losses[0] if start is None else ex.tensor(np.array(start, dtype)) + losses[0]
        for index in range(1, 200):
            total = total + losses[index]
        plan = ex.EvalPlan()
        handle = plan.register(total)
        plan.eval()
        with np.errstate(all="ignore"):
            wanted = array[0] if start is None else np.array(start, dtype)[()] + array[0]
            for value in array[1:]:
                wanted = wanted + value
        assert np.asarray(handle.data()).tobytes() == np.asarray(wanted).tobytes()
        assert len([node for node in plan.planned.graph.live if node.operation.name == "add"]) <= 1
        assert "sum_of_members" in [each.code for each in plan.recording.decisions if each.verdict == "applied"]
