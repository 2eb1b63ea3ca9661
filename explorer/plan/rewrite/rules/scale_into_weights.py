"""Factors and terms that depend only on weights: they move into the weights of the preceding product.

A batch norm with stored statistics thus disappears into the preceding convolution or matrix product. The rules do not
look for batch norms. They move one factor or term after another, based on shapes, so they work for any affine layer.

(x ∗ W) · s and x ∗ (W · s) are equal in exact arithmetic. In floating point, W · s may overflow or underflow although
the program as written does not, so in general only ``numerics="fast"`` permits the rewrite. In the plan of a net, the
weights are known. Their values are then computed, and the rules apply if the values show that the error is no larger
than for a reordered sum, as in every inference engine.

If a program has inputs, scaled weights are computed once (the pass `Constants`). If it has none, they would be computed
in every run, and the rules apply only if the estimated cost is lower.
"""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.tensor import Tensor
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import Array, Shape
from explorer.ops.base import reshape
from explorer.ops.elementwise.arithmetic import Add, Divide, Multiply, Subtract
from explorer.ops.manipulation.reshape import Cast
from explorer.plan.graph.constancy import is_constant
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Facts
from explorer.plan.rewrite.rule import Answer, Declined, Reason, Rule
from explorer.record.dimension_names import shape_text

_SUMS = (Add, Subtract)

DIGITS = 4
"""minimum itemsize in bytes; the range of smaller dtypes is too small for weights times factors (float16 ends at
65504)"""


_LARGE = 2.0**-8
"""maximum ratio of a term to the product's largest weight, as a fraction of 1 / eps"""
_MAX_NODES = 12
"""maximum number of nodes that are examined for one operand, such as a number, its zero point, and views of both"""
_MAX_EXAMINED = 1 << 22
"""maximum number of elements of a constant that are computed to examine it, unless its weights have more elements"""


class Affine(NamedTuple):
    """Product with weights, optionally plus or minus a constant term; ``value`` is the whole."""

    value: Expr
    product: Expr
    term: Expr | None = None

    def with_product(self, product: Expr, term: Expr | None) -> Expr:
        """Record the same form for another product and term."""
        if term is None:
            return product
        return product - term if isinstance(self.value.operation, Subtract) else product + term


class IntoWeights(Rule, abstract=True):
    """Base class: factors and terms for columns or channels move into the weights of a product or convolution."""

    numerics = "reassociating"
    other_consumers = Reason(
        "other_consumers",
        "`{operation}` is computed on the result of `{product}`, not moved into its weights, because {consumers} "
        "operations read this result, which changed weights would change for all of them.",
        meaning="(x @ W) · s is x @ (W · s). This saves a step only if nothing else reads x @ W.",
        change="Remove the other readers, if they are not needed.",
    )
    price = Reason(
        "price",
        "`{operation}` is computed on the result of `{product}`, not moved into its weights, because changing the "
        "weights takes an estimated {after_us} in every run and saves only {before_us}.",
        meaning="(x @ W) · s is x @ (W · s). In a program that receives its data as inputs, W · s is computed only "
        "once, before the first run. This program has no inputs, so it would be computed in every run.",
        change="Make the data an input of the program (ex.function, or a net), so that only weights are constant.",
    )
    dtype = Reason(
        "dtype",
        "`{operation}` is computed as written, not moved into the weights of `{product}`, because the dtypes differ: "
        "`{product}` is {given}, but `{other}` is {beside}.",
        meaning="(x @ W) · s is x @ (W · s). The new weights are rounded to the dtype of the weights, so the result "
        "may have fewer digits, or another dtype.",
        change="Convert all operands to one dtype: x.astype(...).",
    )
    shapes = Reason(
        "shape",
        "`{operation}` is computed as written, not moved into the weights of `{product}`, because `{operation}` "
        "broadcasts the result of `{product}` from shape {before} to {after}.",
        meaning="(x @ W) · s is x @ (W · s) only if s does not repeat x @ W along further axes.",
    )
    digits = Reason(
        "dtype",
        "`{operation}` is computed as written, not moved into the weights of `{product}`, because the new weights "
        "would be rounded once more. This is done only in float32 or a wider dtype, but `{product}` is {given}.",
        meaning="(x @ W) · s is x @ (W · s) in exact arithmetic. The new weights W · s are rounded to their dtype.",
        change="Convert the operands to float32 or float64: x.astype(...).",
    )
    not_constant = Reason(
        "not_constant",
        "`{operation}` with `{part}` is computed in each run, not moved into the weights of the neighbouring product "
        "or convolution, because `{part}` depends on an input, so it may change in each run.",
        meaning="(x @ W) · s is x @ (W · s). If s is always the same, W · s is computed once, before the first run. A "
        "batch norm that uses the statistics of each batch has a different s in each run.",
        change="For a batch norm, use the stored statistics (inference mode). In general, use a weight instead of a "
        "value that depends on an input.",
    )


class FactorIntoWeights(IntoWeights):
    """(x @ W + b) · s is x @ (W · s) + b · s for weights W, b and s, with one number of s for each column of W."""

    moved = Reason(
        "factor_into_weights",
        "The {work} by `{factor}` is moved into `{weights}`, the weights of `{product}`, because "
        "`{factor}` depends only on weights, and changing the weights takes less time than changing the results.",
        meaning="(x @ W) · s is x @ (W · s), where s has one number for each column of W or, after a convolution, for "
        "each channel. In a program with inputs, W · s is computed once, before the first run. A batch norm with "
        "stored statistics is thus merged into the convolution before it.",
        change='ex.EvalPlan(without=["simplify"]) computes it as written.',
    )
    checked = Reason(
        "factor_into_weights",
        "The {work} by `{factor}` is moved into `{weights}`, the weights of `{product}`, because "
        "`{factor}` depends only on weights. The new weights were checked: none overflows or underflows.",
        meaning="(x @ W) · s is x @ (W · s), where s has one number for each column of W or, after a convolution, for "
        "each channel. In a program with inputs, W · s is computed once, before the first run. A batch norm with "
        "stored statistics is thus merged into the convolution before it.",
        change='ex.EvalPlan(without=["simplify"]) computes it as written.',
        numerics="reordering",
    )
    harmful = Reason(
        "harmful_values",
        "The {work} by `{factor}` is computed as written, not moved into the weights of `{product}`, because {harm}.",
        meaning="(x @ W) · s is x @ (W · s) in exact arithmetic. In floating point, W · s may overflow or underflow "
        "even if (x @ W) · s does not. A plan therefore checks W · s.",
        change='Use ex.EvalPlan(numerics="fast"), which does not check the values.',
    )
    column_factors = Reason(
        "shape",
        "The {work} by `{factor}` is computed as written, not moved into the weights of "
        "`{product}`, because `{factor}` ({shape}) varies along an axis that the weights do not have.",
        meaning="(x @ W) · s is x @ (W · s) only if s has one number for each column of W.",
    )

    exact = Reason(
        "exact",
        "The {work} by `{factor}` is computed on the result of `{product}`, not moved into its "
        "weights, because `{product}` adds integers, which is exact, but changed weights would be rounded.",
        meaning="A quantised operator multiplies the exact sum by the factor and rounds the result to an integer. If "
        "the weights were rounded first, the result could be another integer.",
    )

    numerics = "reassociating"
    roots = (Multiply, Divide)

    def applies_over(self, operands: tuple[type[Operation], ...]) -> bool:
        return any(operation_class in _SUMS or _keeps_axes(operation_class) for operation_class in operands)

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        first, factor = graph.operands(node)
        affine = _affine(first, graph)
        if affine is None and node.operation.commutative:
            first, factor = factor, first
            affine = _affine(first, graph)
        if affine is None or _never_pays(node, graph) or _is_prepared(affine, graph):
            return None
        product = affine.product
        weights = [operand for operand in graph.operands(product) if is_constant(operand, graph)]
        axes = varying(factor, node)
        constant = is_constant(factor, graph)
        # If the factor has the shape of the result, it is not a scale for columns, and no decision is needed.
        by_element = len(axes) == node.ndim and (node.ndim > 1 or not constant)
        if not weights or by_element:
            return None
        work = "division" if isinstance(node.operation, Divide) else "multiplication"
        facts: Facts = {"product": product, "factor": named(factor, graph), "work": work}
        for part in (affine.term, factor):
            if part is not None and not is_constant(part, graph):
                return self.not_constant.declined(
                    **facts,
                    part=named(part, graph),
                    operation=(affine.value if part is affine.term else node).operation.name,
                )
        # If the dtype differs, or the factor broadcasts the product, the new product would have another type.
        if node.type is not product.type or factor.dtype != node.dtype:
            return other_type(product, node, node, factor)
        placement = _placement(product, axes, graph)
        if placement is None:
            return self.column_factors.declined(**facts, shape="×".join(map(str, factor.shape)))
        index, shape_in_weights = placement
        scaled = graph.operands(product)[index]
        if scaled.dtype != node.dtype or node.dtype.kind not in "fc" or node.dtype.itemsize < DIGITS:
            return other_type(product, node, node, scaled)
        if all(_is_integral(operand, graph) for operand in graph.operands(product)):
            return self.exact.declined(**facts)
        declined = _read_elsewhere(node, affine, graph) or _decline_if_costly(
            [scaled, affine.term], node, product, graph
        )
        if declined is not None:
            return declined
        # Apply the operation of the node to the weights, because it may be a division.
        operands = list(graph.operands(product))
        operands[index] = node.operation(scaled, reshape(factor, shape_in_weights))
        term = None if affine.term is None else node.operation(affine.term, factor)
        reason = self.moved
        if graph.inference and graph.numerics == "safe":
            harm = (
                _why_unknown(product, [operands[index], term], graph)
                or _factor_harm(scaled, operands[index], shape_in_weights, graph)
                or _overflow([term], graph)
            )
            if harm:
                return self.harmful.declined(**facts, harm=harm)
            reason = self.checked
        return reason.applied(
            affine.with_product(product.operation(*operands), term),
            **facts,
            weights=named(scaled, graph),
            saved_flops=node.size,
        )


class TermsOfWeights(IntoWeights):
    """(x @ W + b) + c is x @ W + (b + c) for weights W, b and c."""

    merged = Reason(
        "terms_of_weights",
        "The terms `{first}` and `{second}` are combined into one, because neither depends on an input. The result of "
        "`{product}` then needs one addition instead of two.",
        meaning="(x @ W + b) + c is x @ W + (b + c).",
        change='ex.EvalPlan(without=["simplify"]) computes it as written.',
    )

    checked = Reason(
        "terms_of_weights",
        "The terms `{first}` and `{second}` are combined into one, because neither depends on an input. The result of "
        "`{product}` then needs one addition instead of two. The new term was checked: it is not so large "
        "that the result of `{product}` would lose digits when it is added.",
        meaning="(x @ W + b) + c is x @ W + (b + c).",
        change='ex.EvalPlan(without=["simplify"]) computes it as written.',
        numerics="reordering",
    )

    harmful = Reason(
        "harmful_values",
        "The terms `{first}` and `{second}` are added one after the other, not combined into one, because {harm}.",
        meaning="(x @ W + b) + c is x @ W + (b + c) in exact arithmetic. In floating point, b + c may overflow, and "
        "x @ W loses digits if a far larger number is added to it. A plan therefore checks b and c.",
        change='Use ex.EvalPlan(numerics="fast"), which does not check the values.',
    )

    numerics = "reassociating"
    roots = (Add, Subtract)

    def applies_over(self, operands: tuple[type[Operation], ...]) -> bool:
        return any(operation_class in _SUMS or _keeps_axes(operation_class) for operation_class in operands)

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        first, term = graph.operands(node)
        affine = _affine(first, graph)
        if (affine is None or affine.term is None) and node.operation.commutative:
            first, term = term, first
            affine = _affine(first, graph)
        if affine is None or affine.term is None or not is_constant(term, graph) or not is_constant(affine.term, graph):
            return None
        if _never_pays(node, graph) or _is_prepared(affine, graph):
            return None
        product, inner_term = affine.product, affine.term
        if node.type is not product.type or term.dtype != node.dtype or inner_term.dtype != node.dtype:
            return other_type(product, node, node, inner_term, term)
        declined = _read_elsewhere(node, affine, graph) or _decline_if_costly(
            [max((term, inner_term), key=_size)], node, product, graph
        )
        if declined is not None:
            return declined
        facts: Facts = {"first": named(inner_term, graph), "second": named(term, graph), "product": product}
        facts["saved_flops"] = node.size
        inner_subtracts, outer_subtracts = isinstance(first.operation, Subtract), isinstance(node.operation, Subtract)
        merged = (
            (inner_term - term if outer_subtracts and not inner_subtracts else term - inner_term)
            if inner_subtracts != outer_subtracts
            else inner_term + term
        )
        reason = self.merged
        if graph.inference and graph.numerics == "safe":
            harm = (
                _why_unknown(product, [merged, *graph.operands(product)], graph)
                or _overflow([merged], graph)
                or _terms_harm(product, (inner_term, term), graph)
            )
            if harm:
                return self.harmful.declined(**facts, harm=harm)
            reason = self.checked
        return reason.applied(product - merged if inner_subtracts and outer_subtracts else product + merged, **facts)


def _affine(value: Expr, graph: PlanGraph) -> Affine | None:
    """Return ``value`` as a product with weights and an optional constant term for channels, or None."""
    if _is_linear_product(value):
        return Affine(value, value)
    if not isinstance(value.operation, _SUMS):
        return None
    a, b = graph.operands(value)
    if _is_linear_product(a) and a.type is value.type and (b.size < value.size or is_constant(b, graph)):
        return Affine(value, a, b)
    if value.operation.commutative and _is_linear_product(b) and b.type is value.type:
        return Affine(value, b, a) if a.size < value.size or is_constant(a, graph) else None
    return None


def _value(node: Expr, graph: PlanGraph) -> Array:
    """Return the value of a constant, computed from known weights."""
    values: dict[int, Array] = {}
    pending = [node]
    while pending:
        current = pending[-1]
        operands = graph.operands(current)
        waiting = [operand for operand in operands if operand.uid not in values]
        if waiting:
            pending += waiting
            continue
        pending.pop()
        operation = current.operation
        if isinstance(current, Tensor):
            values[current.uid] = current.storage.peek()
            continue
        with np.errstate(all="ignore"):
            values[current.uid] = operation.compute(*[values[operand.uid] for operand in operands])
    return values[node.uid]


def _why_unknown(product: Expr, constants: Sequence[Expr | None], graph: PlanGraph) -> str:
    """Return why the values of ``constants`` are not known to the plan, or "" if they are known."""
    device = product.type.device
    if device is not cpu:
        return f"the weights are on the device {device.name}, so their values are not known to the plan"
    examined: dict[int, Expr] = {}
    pending = [each for each in constants if each is not None and is_constant(each, graph)]
    while pending:
        node = graph.resolve(pending.pop())
        if node.uid not in examined:
            examined[node.uid] = node
            pending += graph.operands(node)
    weights = max([node.size for node in examined.values() if isinstance(node, Tensor)], default=0)
    for node in examined.values():
        if not isinstance(node, Tensor) and node.size > max(weights, _MAX_EXAMINED):
            return f"{node.operation.label} computes {node.size:,} numbers from {weights:,}, too many to check"
    return ""


def _overflow(constants: Sequence[Expr | None], graph: PlanGraph) -> str:
    """Return a description of the problem if a constant of the rewritten program is not finite, otherwise ""."""
    finite = all(np.isfinite(_value(each, graph)).all() for each in constants if each is not None)
    return "" if finite else "a constant would be ∞ or NaN"


def _factor_harm(weights: Expr, scaled: Expr, channels: Shape, graph: PlanGraph) -> str:
    """Return a description of how scaled weights overflow or lose digits, or "" if they do not.

    Each channel is examined: if its largest weight is below tiny / eps², smaller weights would underflow although they
    are significant.
    """
    limits = np.finfo(weights.dtype)
    axes = tuple([axis for axis, size in enumerate(channels) if size == 1])
    after = _value(scaled, graph)
    before = np.abs(_value(weights, graph)).max(axis=axes, initial=0.0)
    largest = np.abs(after).max(axis=axes, initial=0.0)
    if not np.isfinite(largest).all():
        return "a weight would be ∞ or NaN"
    if (largest > np.sqrt(limits.max)).any():
        return f"a weight would be {largest.max():.3g}, which may overflow in a product"
    lost = (before > 0) & (largest < limits.tiny / limits.eps**2)
    return f"a weight would be {largest[lost].min():.3g}, which has too few digits" if lost.any() else ""


def _terms_harm(product: Expr, terms: Sequence[Expr], graph: PlanGraph) -> str:
    """Return a description of a term so large that adding it loses the product's digits, or "".

    For example, a program may add and subtract a large number to round to integers.
    """
    if product.dtype.kind not in "fc":  # integers wrap around in any order
        return "" if product.dtype.kind in "iu" else f"{product.dtype} has too few digits"
    weights = [operand for operand in graph.operands(product) if is_constant(operand, graph)]
    largest = max([float(np.abs(_value(each, graph)).max(initial=0.0)) for each in weights], default=0.0)
    term = max([float(np.abs(_value(each, graph)).max(initial=0.0)) for each in terms])
    if term <= largest * _LARGE / np.finfo(product.dtype).eps:
        return ""
    return f"a term is {term:.3g}, but no weight is above {largest:.3g}, so the product would lose digits"


def _is_integral(value: Expr, graph: PlanGraph) -> bool:
    """Return whether a value contains integers in a floating dtype.

    They are converted integers, possibly minus other integers (zero points).
    """
    remaining = [value]
    for _ in range(_MAX_NODES):
        if not remaining:
            return True
        part = remaining.pop()
        operands = graph.operands(part)
        if isinstance(part.operation, Cast):
            if operands[0].dtype.kind not in "iu":
                return False
        elif operands and (part.operation.view or isinstance(part.operation, _SUMS)):
            remaining += operands
        else:
            return False
    return False


def _is_linear_product(node: Expr) -> bool:
    """Return whether ``node`` is a product whose result keeps axes of its operands."""
    return _keeps_axes(type(node.operation))


def _keeps_axes(operation_class: type[Operation]) -> bool:
    """Return whether operations of this class are linear and declare which axes of their operands the result keeps."""
    return operation_class.linear and operation_class.kept_axes is not Operation.kept_axes


def varying(factor: Expr, node: Expr) -> list[int]:
    """Return the axes of the result along which ``factor`` varies; along the other axes it is broadcast."""
    missing = node.ndim - factor.ndim
    return [missing + axis for axis, size in enumerate(factor.shape) if size != 1]


def _placement(product: Expr, axes: list[int], graph: PlanGraph) -> tuple[int, Shape] | None:
    """Find the smallest constant operand of ``product`` that has ``axes``; return None if there is none.

    Returns its index, and the shape in which the factor broadcasts with it.
    """
    fitting: list[tuple[int, int, Shape]] = []
    operands = graph.operands(product)
    for index, operand in enumerate(operands):
        if is_constant(operand, graph):
            operand_axis = {
                after: operand_axes
                for operand_axes, after in product.operation.kept_axes(index, *[o.type for o in operands])
            }
            operand_axes = [operand_axis.get(axis, -1) for axis in axes]
            if -1 not in operand_axes and operand_axes == sorted(operand_axes):
                shape = tuple([size if axis in operand_axes else 1 for axis, size in enumerate(operand.shape)])
                fitting.append((operand.size, index, shape))
    return min(fitting)[1:] if fitting else None


def _read_elsewhere(node: Expr, affine: Affine, graph: PlanGraph) -> Declined | None:
    """Decline if another operation reads the product, because it would then be computed twice."""
    for read in (affine.value, affine.product):
        consumers = graph.consumers(read)
        if consumers > 1:
            return IntoWeights.other_consumers.declined(
                operation=node.operation.label, product=read, consumers=consumers
            )
    return None


def _is_prepared(affine: Affine, graph: PlanGraph) -> bool:
    """Return whether the product itself depends only on weights, so that it is computed once anyway."""
    return graph.has_parameters and is_constant(affine.product, graph)


def _never_pays(node: Expr, graph: PlanGraph) -> bool:
    """Return whether scaling the weights certainly costs more than it saves, so that no decision is needed."""
    return not graph.has_parameters and node.size / REFERENCE_COST_MODEL.flops < REFERENCE_COST_MODEL.call


def _decline_if_costly(scaled: list[Expr | None], node: Expr, product: Expr, graph: PlanGraph) -> Declined | None:
    """Decline if the weights would be scaled in every run, and this takes longer than ``node``."""
    if graph.has_parameters:
        return None
    saved_us = node.size / REFERENCE_COST_MODEL.flops
    scaling_us = sum(
        [REFERENCE_COST_MODEL.call + value.size / REFERENCE_COST_MODEL.flops for value in scaled if value is not None]
    )
    if scaling_us < saved_us:
        return None
    return IntoWeights.price.declined(
        operation=node.operation.label, product=product, before_us=saved_us, after_us=scaling_us
    )


def other_type(product: Expr, moved: Expr, result: Expr, *others: Expr) -> Declined:
    """Return the decision not to move the operation of ``moved``, for the first of these that is the case.

    An element of ``others`` has another dtype than ``product``, ``result`` has another shape, or the dtype has too few
    digits.
    """
    facts: Facts = {"product": product, "operation": moved.operation.label}
    other = next((each for each in others if each.dtype != product.dtype), None)
    if other is not None:
        dtypes = {"given": str(product.dtype), "beside": str(other.dtype)}
        return IntoWeights.dtype.declined(**facts, other=other, **dtypes)
    if result.shape != product.shape:
        shapes = {"before": shape_text(product.shape), "after": shape_text(result.shape)}
        return IntoWeights.shapes.declined(**facts, **shapes)
    return IntoWeights.digits.declined(**facts, given=str(product.dtype))


def named(value: Expr, graph: PlanGraph) -> Expr:
    """Return the value that ``value`` is a view of, or ``value``; decisions name it, because views have no names."""
    while value.operation.view and (operands := graph.operands(value)):
        value = operands[0]
    return value


def _size(node: Expr) -> int:
    return node.size
