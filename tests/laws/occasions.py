"""One small program for every reason in the catalogue, in which a plan gives that reason, with the plan's options."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.ops.manipulation.one_hot import OneHotEncoding
from explorer.plan import Plan, plan
from explorer.plan.graph.reasons import Reason
from explorer.plan.options import Options
from explorer.plan.passes import (
    Algorithms,
    Constants,
    Dedup,
    Inline,
    JoinProducts,
    Order,
    Prune,
    Recall,
    ShapeValues,
    UpdateInPlace,
)
from explorer.plan.passes.batch import Batch
from explorer.plan.passes.buffers import Buffers
from explorer.plan.passes.codegen import Codegen
from explorer.plan.passes.fuse import Fuse
from explorer.plan.passes.join_rows import JoinRows
from explorer.plan.passes.memory_format import MemoryFormat
from explorer.plan.passes.recall import ReusableValues
from explorer.plan.passes.shape_values import ComputedFirst
from explorer.plan.passes.simplify import Simplify
from explorer.plan.pipeline import PIPELINE
from explorer.plan.rewrite.constant_folding import Folding
from explorer.plan.rewrite.rules import (
    batch_sums,
    declared_properties,
    device_copies,
    identities,
    inverse_pairs,
    known_conditions,
    norm_before_product,
    operations_under_policies,
    scale_into_weights,
    slice_of_concat,
    stability,
    strength_reduction,
    sum_of_parts,
    symbolic_constants,
)
from explorer.plan.schedule.task_assignment import Network
from tests.support.accelerator import accelerator
from tests.support.foreign import fixed, there
from tests.support.programs import prepared
from tests.support.unbatchable import Backwards

Build = Callable[[], Any]


def given(*shape: int, dtype: str = "float64", name: str = "given") -> Any:
    """Return a parameter, whose value is given at each run."""
    return Parameter(ex.TensorType(shape, np.dtype(dtype)), name)()


def ramp(*shape: int, dtype: str = "float64") -> Any:
    return ex.tensor(np.linspace(-1, 1, int(np.prod(shape))).reshape(shape).astype(dtype))


FAST = {"numerics": "fast"}
NATIVE = {"kernels": "native"}
NET = {"inference": True}
x = ex.tensor(np.linspace(-1, 1, 30).reshape(5, 6), name="x")
y = ex.tensor(np.linspace(1, 2, 30).reshape(5, 6), name="y")
w = ex.tensor(np.eye(6), name="w")
row = ex.tensor(np.linspace(0.5, 1, 6), name="row")
inputs = given(5, 6, name="inputs")
large = given(90, 90, name="large")
whole = ex.tensor(np.arange(30).reshape(5, 6), name="whole")
narrow = x.astype("float32")
single = ramp(5, 6, dtype="float32")
complex_ = ex.tensor(np.linspace(1, 2, 30).reshape(5, 6) + 1j, name="z")
tiny = ramp(5, 6, dtype="int8")
unsigned = ramp(5, 6, dtype="uint8")
far = ex.tensor(np.ones((3, 2)), device=there)
zero = ex.ZeroTensor((5, 6), dtype="float64")
ones = ex.TrivialTensor(1.0, (5, 6), dtype="float64")
labels = ex.tensor(np.array([0, 2, 1, 2]), name="labels")
images = given(1, 32, 16, 16, dtype="float32")


def filters(*shape: int) -> Any:
    return ex.tensor((np.arange(np.prod(shape)).reshape(shape) % 7 - 3).astype(np.float32) / 16)


class Aloud(ex.Elementwise):
    """Return x; the operation has a side effect."""

    pure = False
    nondifferentiable = "a test"
    examples = (ex.Example(ex.real(2)),)

    def kernel(self, out: Any, x: Any) -> Any:
        out[...] = x
        return out


class Ranked(ex.Elementwise):
    """Return x, in single precision if it is a vector."""

    monotone = defined_everywhere = True
    nondifferentiable = "a test"
    examples = (ex.Example(ex.real(2)),)

    def infer(self, x: ex.TensorType) -> ex.TensorType:
        return ex.TensorType(x.shape, np.dtype("float32" if x.rank == 1 else "float64"))

    def kernel(self, out: Any, x: Any) -> Any:
        out[...] = x
        return out


@ex.function
def halved_below_one(a: Any) -> Any:
    return ex.while_loop(lambda b: b.max() > 1.0, lambda b: b * 0.5, a)


def constant(value: float, *shape: int, dtype: str = "float64") -> Any:
    return ex.TrivialTensor(value, shape, dtype=dtype)


def wide(dtype: str, *shape: int) -> Any:
    """Return a value that is larger than a cache but stores only one number."""
    return ex.broadcast_to(ex.tensor(np.ones(1, dtype)), shape)


def chain(count: int) -> Any:
    """Return the result of a chain of ``count`` operations that become one kernel."""
    y = wide("float32", 64, 64)
    for index in range(count):
        y = y * 1.5 if index % 2 else y + 0.5
    return y


class Planned(NamedTuple):
    """Plan that is not made from roots and options only, and the values that its program keeps."""

    plan: Plan
    held: ReusableValues | None = None


def held(equal: bool = False) -> Planned:
    """Return a plan of a program with a kept value, its own or one of an equal expression."""
    below = x @ w
    root = ex.tanh(below)
    values = ReusableValues({root.uid: ex.tensor(np.tanh(x.array))}, frozenset({root.uid} if equal else ()))
    return Planned(plan([root * 2.0 + below], None, values), values)


p, q, square_ = given(5, 6, name="p"), given(5, 6, name="q"), given(6, 6, name="p")


def updated(*pairs: tuple[Any, Any], beside: Any = None) -> Callable[[], Planned]:
    """Return a function that plans an update of parameters, and another value if ``beside`` is given."""

    def build() -> Planned:
        roots = [new for _, new in pairs] + ([] if beside is None else [beside])
        return Planned(plan(roots, Options(update=UpdateInPlace(pairs))))

    return build


halved = p * 0.5


def computed_first() -> Planned:
    """Return a plan before which two lengths were computed; the result of one is not part of the plan."""
    rows = x[:2]
    values = (ComputedFirst("Slice_1", "ends", "2", 4, (rows.uid,)), ComputedFirst("Range_2", "limit", "5", 0))
    return Planned(prepared(rows, passes=(ShapeValues(values), *PIPELINE)).planned)


@ex.function
def product(a: Any) -> Any:
    return a @ w


@ex.function
def columns(a: Any, indices: Any) -> Any:
    return ex.take(a, indices, axis=1)


@ex.function
def added(a: Any) -> Any:
    return a + a


@ex.function
def pair(a: Any, b: Any) -> Any:
    return ex.tanh(a) + b, ex.exp(a * b)


@ex.function
def gate(a: Any, b: Any) -> Any:
    return ex.sigmoid(a @ b) * a


def gradients() -> list[Any]:
    """Return gradients of calls whose values are requested, too."""
    h, losses = x, []
    for _ in range(3):
        h, other = pair(h @ w, h)
        losses += [h.sum(), other.sum()]
    return [h, *losses, ex.grad(ex.add_n(*losses), (w, x))[0], ex.grad(losses[0], x)]


def residual() -> list[Any]:
    """Return blocks in which a product's epilogue reads two other values, each as large as the block."""
    h = x
    for _ in range(3):
        h = h + ex.relu(((h - h.mean(axis=1, keepdims=True)) / (ex.square(h).mean(axis=1, keepdims=True) + 1)) @ w)
    return [h]


def steps() -> list[Any]:
    """Return a chain of products of different sizes."""
    sizes = [6, 40, 8, 30, 4, 50, 6]
    value, results = x, []
    for before, after in itertools.pairwise(sizes):
        value = ex.tanh(value @ ramp(before, after)) @ ramp(after, after)
        results.append(value)
    return [value]


def normed() -> Any:
    return (given(64, 32) * ramp(32)) @ ramp(32, 16)


OCCASIONS: dict[Reason, Build | tuple[Build, dict[str, Any]]] = {
    stability.QuotientOfExponentials.softmax: lambda: ex.exp(x) / ex.exp(x).sum(axis=1, keepdims=True),
    stability.QuotientOfExponentials.difference: lambda: ex.exp(x) / ex.exp(y),
    stability.QuotientOfExponentials.other_sum: lambda: ex.exp(x) / ex.exp(y).sum(axis=1, keepdims=True),
    stability.QuotientOfExponentials.other_shape: lambda: ex.exp(x[:, :5]) / ex.exp(x[:, :5]).sum(axis=1),
    stability.QuotientOfExponentials.dtype: lambda: ex.exp(whole) / ex.exp(y),
    stability.QuotientOfOnePlusExp.negative: lambda: 1 / (1 + ex.exp(x)),
    stability.QuotientOfOnePlusExp.positive: lambda: ex.exp(x) / (1 + ex.exp(x)),
    stability.QuotientOfOnePlusExp.share: lambda: ex.exp(x) / (ex.exp(x) + ex.exp(y)),
    stability.QuotientOfExponentials.reciprocal: lambda: 1 / ex.exp(x),
    stability.SoftmaxGradientOfNll.fused: lambda: ex.softmax_gradient(
        ex.nll_loss_gradient(1.0, ex.absolute(y), s := ex.softmax(x)), s
    ),
    stability.LogOfOneMinusExp.log1mexp: lambda: ex.log(1 - ex.exp(-y)),
    stability.LogOfChosen.chosen: lambda: ex.log(
        (ex.softmax(x[:4]) * OneHotEncoding(6, np.dtype("float64"))(labels)).sum(axis=1)
    ),
    stability.LogOfSum.logaddexp: lambda: ex.log(ex.exp(x) + ex.exp(y)),
    stability.LogOfSum.weights: lambda: ex.log((ex.exp(x) * y).sum(axis=1)),
    stability.LogOfPart.part: lambda: ex.log(ex.softmax(x)[:, 1]),
    stability.OtherLog.natural: lambda: ex.log10(ex.softmax(x)),
    stability.LogOfSoftmax.log_softmax: lambda: ex.log(ex.softmax(x)),
    stability.LogOfSigmoid.log_sigmoid: lambda: ex.log(ex.sigmoid(x)),
    stability.LogOfSigmoid.complement: lambda: ex.log(1 - ex.sigmoid(x)),
    stability.LogSumExponentials.logsumexp: lambda: ex.log(ex.exp(x).sum(axis=1)),
    stability.LogOfOnePlusExp.softplus: lambda: ex.log(1 + ex.exp(x)),
    stability.LogOfOnePlusExp.broadcast: lambda: ex.log(ones + ex.exp(row)),
    stability.NllOfSoftmax.nll: lambda: ex.nll_loss(ex.absolute(y), ex.softmax(x)),
    symbolic_constants.ProductWithZero.zero: lambda: x * zero,
    symbolic_constants.ProductWithOneHot.row: (lambda: ex.BiasVector(5, 1, dtype="float64") @ x, FAST),
    symbolic_constants.ProductWithOneHot.dtype: lambda: ex.BiasVector(5, 1, dtype="float64") @ single,
    symbolic_constants.ProductWithOneHotRows.picked: (
        lambda: OneHotEncoding(5, np.dtype("float64"))(labels) @ x,
        FAST,
    ),
    symbolic_constants.ProductWithOneHotRows.added: (
        lambda: ex.transpose(OneHotEncoding(5, np.dtype("float64"))(labels)) @ ramp(4, 3),
        FAST,
    ),
    symbolic_constants.ProductWithOneHotRows.dtype: lambda: OneHotEncoding(5, np.dtype("float64"))(labels) @ single,
    symbolic_constants.ProductWithOneHotRows.batched: lambda: (
        OneHotEncoding(5, np.dtype("float64"))(labels) @ ramp(2, 5, 6)
    ),
    symbolic_constants.ProductWithOneHotRows.labels: lambda: (
        OneHotEncoding(5, np.dtype("float64"))(ex.reshape(labels, (2, 2))) @ x
    ),
    symbolic_constants.ZeroThroughView.moved: lambda: ex.transpose(zero) + ramp(6, 5),
    symbolic_constants.SumWithZero.dropped: lambda: x + zero,
    symbolic_constants.SumWithZero.type: lambda: single + zero,
    Folding.folded: lambda: x + (ex.TrivialTensor(2.0, (5, 6), dtype="float64") * 3.0 + 1.0),
    Folding.large: lambda: ex.tensor(1.0) + ex.cumsum(constant(2.0, 120)),
    Folding.large_operand: lambda: x + ex.BiasVector(5000, 1, dtype="float64").sum(),
    Folding.slow: lambda: ex.tensor(1.0) + ex.conv2d(constant(2.0, 1, 1, 64, 64), constant(1.0, 1, 1, 57, 57)),
    Folding.impure: lambda: ex.tensor(1.0) + Aloud()(constant(2.0, 2)),
    Folding.fails: lambda: ex.tensor(1) + constant(2, dtype="int64") ** constant(-1, dtype="int64"),
    Simplify.unreached: lambda: ex.grad(x.sum(), ex.tensor([1.0])),
    Simplify.differentiated: lambda: ex.grad(ex.log(ex.softmax(x)).sum(), x),
    Simplify.changes_rounding: lambda: (given(5, 6) @ w) * row,
    Simplify.hidden_type: lambda: x + ex.make_dynamic(zero),
    known_conditions.KnownCondition.branch_known: lambda: ex.cond(True, ex.tanh, ex.sin, x),
    known_conditions.LoopWithoutTurns.no_turns: lambda: ex.scan(lambda h, x: (h + x, None), row, x[:0])[0],
    identities.NeutralNumber.neutral: lambda: ex.tanh(x) * 1.0,
    identities.NeutralNumber.type: lambda: whole * 1.0,
    identities.NeutralNumber.complex: lambda: complex_ * 1.0,
    identities.NeutralNumber.minus_zero: lambda: ex.tanh(x) + 0.0,
    identities.NoOp.nothing_to_do: lambda: ex.tanh(x).reshape((5, 6)),
    identities.NoOp.complex: lambda: ex.prod(complex_[:1], axis=0, keepdims=True),
    identities.NoOp.minus_zero: lambda: x[:1].sum(axis=0, keepdims=True),
    identities.SumOfOne.single_term: lambda: ex.operation("add_n")()(x),
    identities.BroadcastOperand.broadcast_anyway: lambda: x - ex.broadcast_to(x.mean(axis=0), x.shape),
    identities.RedundantActivation.nonnegative: lambda: ex.relu(ex.exp(x)),
    identities.RedundantActivation.minus_zero: lambda: ex.absolute(ex.sqrt(y)),
    identities.IndexOfStack.stacked: lambda: ex.stack([x, y])[1],
    identities.IndexOfStack.type: lambda: ex.stack([single, y])[0],
    identities.StackOfMembers.whole: lambda: ex.stack([x[index] for index in range(5)]),
    inverse_pairs.InversePair.undone: lambda: ex.log1p(ex.expm1(x)),
    inverse_pairs.InversePair.dtype: lambda: ex.log(ex.exp(whole)),
    inverse_pairs.InversePair.complex: lambda: ex.log(ex.exp(complex_)),
    inverse_pairs.InversePair.domain: lambda: [ex.exp(ex.log(x)), ex.square(ex.sqrt(x)), ex.expm1(ex.log1p(x))],
    inverse_pairs.LogOfExp.log_exp: lambda: ex.log(ex.exp(x)),
    inverse_pairs.ExpOfLog.exp_log: lambda: ex.exp(ex.log(ex.exp2(x))),
    inverse_pairs.SqrtOfSquare.sqrt_square: lambda: ex.sqrt(ex.square(ex.exp(x))),
    inverse_pairs.SqrtOfSquare.absolute: lambda: ex.sqrt(ex.square(x)),
    inverse_pairs.SquareOfSqrt.square_sqrt: lambda: ex.square(ex.sqrt(ex.exp(x))),
    inverse_pairs.SquareOfSqrt.minus_zero: lambda: ex.square(ex.sqrt(ex.sqrt(x))),
    inverse_pairs.TransposeOfTranspose.undone: lambda: ex.transpose(ex.transpose(x)),
    inverse_pairs.TransposeOfTranspose.joined: lambda: ex.transpose(ex.transpose(ramp(2, 3, 4)), (1, 0, 2)),
    inverse_pairs.ReshapeOfReshape.undone: lambda: x.reshape((30,)).reshape((5, 6)),
    inverse_pairs.ReshapeOfReshape.joined: lambda: x.reshape((30,)).reshape((6, 5)),
    inverse_pairs.WideningRoundTrip.undone: lambda: single.astype("float64").astype("float32"),
    inverse_pairs.WideningRoundTrip.lossy: lambda: x.astype("float32").astype("float64"),
    sum_of_parts.SumOfParts.joined: lambda: ex.grad(ex.tanh(x[:2]).sum() + ex.exp(x[2:]).sum(), x),
    sum_of_parts.SumOfParts.gaps: lambda: ex.grad(ex.tanh(x[:3]).sum() + ex.exp(x[2:]).sum(), x),
    batch_sums.SumOfMembers.one_value: lambda: ex.add_n(*[x[index] for index in range(5)]),
    batch_sums.SumOfMembers.in_order: lambda: functools.reduce(ex.add, [x[index] for index in range(5)]),
    batch_sums.SumOfMembers.another_order: (lambda: x[1] + x[0] + x[3] + row + x[2] + x[4], FAST),
    batch_sums.SumOfMembers.several_values: lambda: ex.add_n(*[each[index] for each in (x, y) for index in range(5)]),
    batch_sums.SumOfMembers.not_all_members: lambda: ex.add_n(*[x[index] for index in range(4)]),
    batch_sums.SumOfMembers.mixed: lambda: ex.add_n(*[single[index] for index in range(5)], row),
    batch_sums.SumOfMembers.dtype: lambda: ex.add_n(*[tiny[index] for index in range(5)]),
    batch_sums.SumOfProducts.longer_axis: lambda: (ramp(4, 2, 3) @ ramp(4, 3, 2)).sum(axis=0),
    batch_sums.SumOfProducts.rank: lambda: (ramp(4, 2, 3) @ ramp(3, 2)).sum(axis=0),
    batch_sums.SumOfProducts.dtype: lambda: (ramp(4, 2, 3).astype("int8") @ ramp(4, 3, 2).astype("int8")).sum(axis=0),
    batch_sums.SumOfProducts.other_consumers: lambda: [
        (shared := ramp(4, 2, 3) @ ramp(4, 3, 2)).sum(axis=0),
        ex.tanh(shared),
    ],
    slice_of_concat.SliceOfSlice.joined: lambda: ex.tanh(x)[1:4][1:],
    slice_of_concat.SliceOfConcatenation.one_source: lambda: ex.concatenate([x, ex.tanh(y)])[6:8],
    slice_of_concat.SliceOfConcatenation.several_parts: lambda: ex.concatenate([x, y])[4:8],
    slice_of_concat.SliceOfConcatenation.dtype: lambda: ex.concatenate([single, y])[:3],
    slice_of_concat.ConcatenationOfSlices.whole: lambda: ex.concatenate([x[:2], x[2:]]),
    declared_properties.Idempotent.again: lambda: ex.sign(ex.sign(x)),
    declared_properties.Idempotent.equal_operands: lambda: ex.maximum(x, x),
    declared_properties.AbsorbedOperand.taken_in: lambda: ex.maximum(ex.maximum(x, y), y),
    declared_properties.Involution.undone: lambda: ex.negative(-x),
    declared_properties.Involution.reciprocals: lambda: ex.reciprocal(ex.reciprocal(y)),
    declared_properties.Involution.dtype: lambda: ex.logical_not(ex.logical_not(whole)),
    declared_properties.Involution.integers: lambda: ex.reciprocal(ex.reciprocal(whole + 1)),
    declared_properties.EvenOfNegative.even: lambda: ex.cos(-x),
    declared_properties.EvenOfNegative.complex: lambda: ex.absolute(-complex_),
    declared_properties.EvenOfNegative.unsigned: lambda: ex.cos(-unsigned),
    declared_properties.ExtremeBeforeMonotone.later: lambda: ex.tanh(x).max(axis=1),
    declared_properties.ExtremeBeforeMonotone.complex: lambda: ex.exp(complex_).max(axis=1),
    declared_properties.ExtremeBeforeMonotone.domain: lambda: ex.sqrt(x).max(axis=1),
    declared_properties.ExtremeBeforeMonotone.other_consumers: lambda: [(f := ex.tanh(x)).max(axis=1), f * 2.0],
    declared_properties.ExtremeBeforeMonotone.result_type: lambda: Ranked()(x).max(axis=1),
    strength_reduction.PowerByProducts.power: lambda: [x**2, x**3, y**-1.0, ex.exp(x) ** 0.5],
    strength_reduction.PowerByProducts.type: lambda: whole**2.0,
    strength_reduction.PowerByProducts.domain: lambda: x**0.5,
    strength_reduction.PowerByProducts.minus_zero: lambda: ex.sqrt(y) ** 0.5,
    strength_reduction.DivisionByPowerOfTwo.halving: lambda: x / 4,
    strength_reduction.DivisionByPowerOfTwo.type: lambda: whole / 2,
    operations_under_policies.UnderPolicies.policies: lambda: ex.sum(x, policies=[ex.PAccumulateIn("float64")]),
    scale_into_weights.FactorIntoWeights.moved: (lambda: (given(5, 6) @ w) * row, FAST),
    scale_into_weights.FactorIntoWeights.checked: (lambda: (given(5, 6) @ w) * row, NET),
    scale_into_weights.TermsOfWeights.checked: (lambda: given(5, 6) @ w + row + ramp(6), NET),
    scale_into_weights.FactorIntoWeights.harmful: (lambda: (given(5, 6) @ w) * (row * 1e200), NET),
    scale_into_weights.TermsOfWeights.harmful: (lambda: given(5, 6) @ w + row * 1e20 + row, NET),
    scale_into_weights.FactorIntoWeights.column_factors: lambda: (given(5, 6) @ w) * ramp(5, 1),
    scale_into_weights.FactorIntoWeights.exact: lambda: (
        (given(5, 6, dtype="uint8").astype("float32") @ ramp(6, 6, dtype="int8").astype("float32"))
        * ramp(6, dtype="float32")
    ),
    scale_into_weights.TermsOfWeights.merged: (lambda: given(5, 6) @ w + row + ramp(6), FAST),
    scale_into_weights.IntoWeights.other_consumers: lambda: [(made := given(5, 6) @ w) * row, ex.tanh(made)],
    scale_into_weights.IntoWeights.price: lambda: (ramp(50, 60) @ ramp(60, 60)) * ramp(60),
    scale_into_weights.IntoWeights.dtype: lambda: (given(5, 6) @ w) * ramp(6, dtype="float32"),
    scale_into_weights.IntoWeights.shapes: lambda: (given(5, 6) @ w) * ramp(3, 1, 6),
    scale_into_weights.IntoWeights.digits: lambda: (
        (given(5, 6, dtype="float16") @ ramp(6, 6, dtype="float16")) * ramp(6, dtype="float16")
    ),
    scale_into_weights.IntoWeights.not_constant: lambda: (given(5, 6) @ w) * given(6),
    norm_before_product.NormIntoWeights.moved: (normed, FAST),
    norm_before_product.NormIntoWeights.padding: lambda: ex.conv2d(
        images + ramp(32, 1, 1, dtype="float32"), filters(8, 32, 3, 3), padding=1
    ),
    norm_before_product.NormIntoWeights.norm_consumers: lambda: [
        (scaled := given(64, 32) * ramp(32)) @ ramp(32, 16),
        ex.tanh(scaled),
    ],
    norm_before_product.NormIntoWeights.dear: lambda: (ramp(100, 64) * ramp(64)) @ ramp(64, 100),
    device_copies.RoundTripCopy.direct: lambda: row.to_device(there).to_device(ex.cpu) + 1.0,
    device_copies.RecreateConstantOnDevice.recreated: lambda: (copied := constant(3.0, 2).to_device(there)) + copied,
    Recall.recalled: held,
    Recall.recalled_equal: lambda: held(equal=True),
    ShapeValues.computed_first: computed_first,
    Simplify.no_kernel: lambda: ex.add_n(*[far[index] for index in range(3)]),
    Dedup.merged: lambda: [ex.tanh(x + y), ex.sin(x + y)],
    Dedup.commuted: lambda: [(x + y) * 2.0, ex.tanh(y + x)],
    Dedup.constants: lambda: [x * 3.5 + 3.5, ex.exp(y * 3.5)],
    Dedup.order_of_zeros: lambda: [ex.maximum(x, y) - ex.maximum(y, x)],
    Dedup.augmented: (gradients, {"inline": Inline(0)}),
    Prune.replaced: lambda: ex.log(ex.exp(x)) + 1.0,
    Prune.unread: lambda: ex.sin(pair(x, y)[0]),
    Inline.inlined: lambda: [product(x), product(y)],
    Inline.too_large: (lambda: product(x), {"inline": Inline(0)}),
    Inline.batched: lambda: ex.map(product, given(8, 5, 6)),
    Inline.divided: (
        lambda: ex.map(product, given(9, 500, 6)),
        {"inline": Inline(network=Network(2, bandwidth=1e5, latency=0.1, overhead=0.1))},
    ),
    Inline.undivided: (lambda: ex.map(product, given(8, 5, 6)), {"inline": Inline(network=Network(2, latency=1e4))}),
    Inline.not_asked: (lambda: ex.map(product, given(8, 5, 6)), {"without": "batch"}),
    Inline.not_batchable: lambda: ex.map(halved_below_one, given(4, 6)),
    Inline.dear: lambda: ex.map(columns, wide("float64", 2, 8, 1 << 16), wide("int64", 2, 1 << 16)),
    Inline.kept_whole: (lambda: product(x), {"inline": Inline(whole=("product",))}),
    JoinProducts.joined: lambda: (inputs @ w).T @ (inputs @ ramp(6, 6)),
    JoinProducts.large: lambda: (large @ ramp(90, 80)).T @ (large @ ramp(90, 70)),
    JoinProducts.read_alone: lambda: (inputs @ w).T @ ex.tanh(inputs @ ramp(6, 6)),
    Constants.prepared_once: lambda: ex.tanh(w * 2.0).sum() + inputs,
    Batch.batched_calls: lambda: ex.add_n(*[gate(ramp(1, 6) + index, w) for index in range(8)]),
    Batch.dear_calls: lambda: [product(x), product(y)],
    Batch.device_calls: lambda: [added(ex.tensor([float(i)], device=there)) for i in range(3)],
    Batch.element_calls: lambda: [added(ex.tensor(fixed.array([float(i)]))) for i in range(3)],
    Batch.not_batchable_calls: lambda: [halved_below_one(ramp(3) + float(index)) for index in range(3)],
    Batch.not_batchable_operations: lambda: [Backwards()(ramp(3) + float(index)) for index in range(6)],
    Batch.dear_operations: lambda: [ramp(300, 300) @ ramp(300, 300) for _ in range(6)],
    Batch.batched_operations: lambda: [ramp(4) @ ramp(4, 3) for _ in range(40)],
    Batch.same_operands: (lambda: [product(x), product(x)], {"without": ("dedup",)}),
    Batch.depth: lambda: product(product(x)),
    Batch.other_body: lambda: [product(x), product(x[:2])],
    Algorithms.tiles: (lambda: ex.conv2d(images, filters(32, 32, 3, 3), padding=1), NET),
    Algorithms.changes_rounding: lambda: ex.conv2d(images, filters(32, 32, 3, 3), padding=1),
    Algorithms.windows: lambda: ex.conv2d(images, filters(32, 32, 3, 3), strides=2),
    Algorithms.dilated: lambda: ex.conv2d(images, filters(32, 32, 3, 3), dilation=2),
    Algorithms.grouped: lambda: ex.conv2d(given(1, 64, 16, 16, dtype="float32"), filters(32, 32, 3, 3), groups=2),
    Algorithms.few_channels: lambda: ex.conv2d(given(1, 3, 32, 32, dtype="float32"), filters(32, 3, 3, 3)),
    Algorithms.few_tiles: lambda: ex.conv2d(given(1, 32, 7, 7, dtype="float32"), filters(32, 32, 3, 3)),
    Algorithms.filters_vary: lambda: ex.conv2d(images, given(32, 32, 3, 3, dtype="float32")),
    Fuse.fused: lambda: ex.tanh(ex.sin(x) + y),
    Fuse.fused_with_product: lambda: ex.tanh(x @ w + row),
    Fuse.finished_in_cache: lambda: (single @ ramp(6, 4, dtype="float32")).astype("float64"),
    Fuse.reduced_whole: lambda: ex.square(x - y).mean(axis=1),
    Fuse.reduced_halved: lambda: ex.tanh(wide("float32", 1 << 22)).sum(),
    Fuse.reduced_integers: lambda: ex.square(wide("int32", 1 << 21, 2)).sum(axis=0),
    Fuse.reduced_exact: lambda: ex.square(wide("float32", 1 << 21, 2)).max(axis=0),
    Fuse.reduced_joined: lambda: ex.square(wide("float32", 1 << 21, 2)).sum(axis=0),
    Fuse.computed_once: lambda: inputs * (ex.tanh(x) * 2.0),
    Fuse.asked_for: lambda: [ex.tanh(x), ex.exp(ex.tanh(x))],
    Fuse.other_consumers: lambda: [ex.exp(shared := ex.sin(x)) * ex.cos(shared)],
    Fuse.shape: lambda: ex.tanh(x) * ex.cos(ex.square(x)[:1]),
    Fuse.second_product: lambda: (x @ w) * (y @ w),
    Fuse.from_second_product: lambda: (x @ w) * ex.tanh(y @ w),
    Fuse.view_between: lambda: ex.transpose(ex.tanh(x)).sum(axis=0),
    Fuse.product: lambda: ex.relu(x @ w).sum(),
    Fuse.long_rows: lambda: ex.softmax(ex.tanh(ex.broadcast_to(x[:, :1], (5, 1 << 20)))),
    Fuse.too_large: lambda: ex.tanh(ex.broadcast_to(x[:, :1], (5, 1 << 40))).sum(),
    Fuse.view_operand: lambda: ex.tanh(ex.transpose(x @ w)),
    Fuse.output_of_call: (lambda: ex.sin(pair(x, y)[0]), {"inline": Inline(0)}),
    Fuse.producer: lambda: ex.tanh(x.sum(axis=0)),
    Fuse.element_type: lambda: ex.tensor([1.5, 2.5], fixed) * ex.tensor([0.5, 1.5], fixed),
    Fuse.device: lambda: ex.tensor([1.0, 2.0], device=accelerator).sum(),
    Fuse.nothing_to_join: lambda: ex.tanh(x),
    Fuse.reader: lambda: ex.cumsum(ex.tanh(x), axis=0),
    UpdateInPlace.in_place: updated((p, p - 0.1 * q), (q, q + ex.tanh(p @ w)), beside=ex.transpose(p) @ q),
    UpdateInPlace.read_later: updated((p, halved), (q, q - halved * p)),
    UpdateInPlace.needed: updated((p, halved), beside=halved @ w),
    UpdateInPlace.not_elementwise: updated((p, p - inputs @ w)),
    UpdateInPlace.may_fail: updated((p, p - Aloud()(p))),
    UpdateInPlace.shown: updated((square_, square_ - 0.5 * ex.transpose(square_))),
    UpdateInPlace.asked_for: updated((p, halved), beside=halved),
    UpdateInPlace.not_computed: updated((p, q), beside=ex.tanh(inputs)),
    UpdateInPlace.other_type: updated((p, (p * 0.5).astype("float32"))),
    Order.together: (lambda: ex.add_n(*[ex.tanh(x @ ramp(6, 6)) @ w for _ in range(3)]), {"lanes": 2}),
    Order.nothing_independent: (lambda: ex.tanh(x @ w) @ w, {"lanes": 2}),
    MemoryFormat.pixel_by_pixel: lambda: ex.relu(ex.max_pool2d(ex.conv2d(images, filters(32, 32, 3, 3)), 2)).sum(),
    MemoryFormat.asked_for: lambda: ex.conv2d(images, filters(32, 32, 3, 3)),
    Codegen.compiled: (lambda: ex.tanh(wide("float32", 64, 64) * 2) + 1, NATIVE),
    Codegen.no_expression: (lambda: ex.hypot(wide("float32", 64, 64), x[0, 0]) * 2, NATIVE),
    Codegen.dtype: (lambda: wide("float16", 64, 64) * 2 + 1, NATIVE),
    Codegen.function: (lambda: ex.arctan(wide("float64", 64, 64)) * 2, NATIVE),
    Codegen.single: (lambda: ex.tanh(wide("float32", 64, 64)), NATIVE),
    Codegen.no_faster: (lambda: ex.tanh(wide("float32", 8, 8)) * 2, NATIVE),
    Codegen.many_operations: (lambda: chain(1001), NATIVE),
    Codegen.windows: (lambda: ex.relu(ex.max_pool2d(wide("float32", 1, 4, 80, 80), 2)), NATIVE),
    Codegen.large_window: (
        lambda: ex.conv2d(wide("float32", 1, 8, 40, 40), wide("float32", 8, 1, 9, 9), groups=8),
        NATIVE,
    ),
    Codegen.long_run: (lambda: ex.max_pool2d(wide("float32", 1, 1, 4, 40000), 2), NATIVE),
    Codegen.memory_order: (
        lambda: ex.max_pool2d(ex.conv2d(wide("float32", 1, 3, 80, 80), wide("float32", 32, 3, 3, 3)), 2),
        NATIVE,
    ),
    Codegen.product: (lambda: ex.tanh(wide("float32", 64, 80) @ wide("float32", 80, 64)), NATIVE),
    Codegen.epilogue: (lambda: ex.tanh(wide("float32", 4, 64, 80) @ wide("float32", 1, 80, 64)), NATIVE),
    JoinRows.joined: (
        lambda: ex.layer_norm(wide("float32", 64, 160) * 2),
        NATIVE,
    ),
    Codegen.spaced_pixels: (
        lambda: ex.tanh(ex.conv_transpose2d(wide("float32", 1, 3, 40, 40), wide("float32", 3, 4, 3, 3), strides=2)),
        NATIVE,
    ),
    Codegen.compiled_rows: (lambda: ex.softmax(wide("float32", 64, 64) * 2), NATIVE),
    Codegen.compiled_columns: (lambda: (wide("float32", 4, 30, 200) * 2).sum(axis=1), NATIVE),
    Codegen.columns: (lambda: (wide("float32", 9, 9, 9, 100) * 2).sum(axis=(1, 3)), NATIVE),
    Codegen.steps: (
        lambda: ex.scan(lambda sum, x: (sum * 0.5 + x, sum), wide("float32", 64), wide("float32", 64, 64))[1],
        NATIVE,
    ),
    Codegen.combines: (lambda: ex.prod(ex.tanh(wide("float32", 64, 64))), NATIVE),
    Buffers.block_memory: residual,
    Buffers.packed: steps,
    Buffers.packed_with_scratch: (gradients, {"inline": Inline(0)}),
    Buffers.reused: steps,
    Buffers.copied: lambda: ex.reshape(ex.transpose(ex.tanh(x)), (-1,)).sum(),
    Buffers.in_place: lambda: ex.tanh(x @ w @ w).sum(axis=1) + ex.sin(x @ w @ w)[:, 0],
}
"""reason → a program, or one with the options of its plan"""


def occasion(reason: Reason) -> Planned:
    """Return the plan of a reason's program."""
    program = OCCASIONS[reason]
    build, options = program if isinstance(program, tuple) else (program, {})
    net = build()
    if isinstance(net, Planned):
        return net
    return Planned(prepared(*(net if isinstance(net, list) else [net]), **options).planned)
