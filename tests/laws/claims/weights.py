"""Checks of rules that move factors and terms into the weights of products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import explorer as ex
from explorer.core.ir.expr import Operation
from explorer.ops.elementwise.arithmetic import Add, Divide, Multiply, Subtract
from explorer.ops.elementwise.unary import Negative
from explorer.ops.linalg.matmul import Matmul
from explorer.ops.nn.conv import Conv2d, Conv2dImageGradient
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Facts
from explorer.plan.rewrite.rules.norm_before_product import NormIntoWeights
from explorer.plan.rewrite.rules.scale_into_weights import FactorIntoWeights, IntoWeights, TermsOfWeights
from tests.laws.claims.decisions import At, Claim, of_decision, of_nodes, shape_text
from tests.laws.claims.nodes import kind

Expr = ex.Expr


def base(at: At, node: Expr) -> Expr:
    """Return the value that a node is a view of."""
    while node.operation.view and node.operands:
        node = at.below_at(node, 0)
    return node


def is_product(node: Expr) -> bool:
    """Return whether an operation is linear and keeps axes of its operands."""
    operation_class = type(node.operation)
    return operation_class.linear and operation_class.kept_axes is not Operation.kept_axes


class Scaled(NamedTuple):
    """Product, optionally with a term added, and the constant applied to it."""

    value: Expr
    product: Expr
    term: Expr | None
    other: Expr
    """the factor, or the second term"""


def around(at: At, node: Expr) -> Scaled:
    """Return the product and the term among a node's operands, and the constant that multiplies or is added."""
    operands = at.operands(node)
    needs_term = isinstance(node.operation, (Add, Subtract))
    for value, other in (operands, operands[::-1])[: 1 + node.operation.commutative]:
        if is_product(value) and not needs_term:
            return Scaled(value, value, None, other)
        if isinstance(value.operation, (Add, Subtract)):
            a, b = at.operands(value)
            for product, term in ((a, b), (b, a))[: 1 + value.operation.commutative]:
                small = term.size < value.size or not at.varies(term)
                if is_product(product) and product.type is value.type and small:
                    return Scaled(value, product, term, other)
    raise AssertionError("no product below")


def axes_of(factor: Expr, node: Expr) -> list[int]:
    """Return the axes of the result along which a factor varies."""
    return [axis + node.ndim - factor.ndim for axis, size in enumerate(factor.shape) if size != 1]


def scaled_weights(at: At, node: Expr) -> list[tuple[int, int]]:
    """Return (size, position) of the product's constant operands that keep the factor's axes."""
    site = around(at, node)
    operands = at.operands(site.product)
    places = []
    for place, operand in enumerate(operands):
        if not at.varies(operand):
            kept = {after: own for own, after in site.product.operation.kept_axes(place, *[o.type for o in operands])}
            own = [kept.get(axis, -1) for axis in axes_of(site.other, node)]
            if -1 not in own and own == sorted(own):
                places.append((operand.size, place))
    return sorted(places)


def weights_of(at: At, node: Expr) -> Expr:
    return at.below_at(around(at, node).product, scaled_weights(at, node)[0][1])


def read_once(at: At, node: Expr) -> bool:
    site = around(at, node)
    return at.uses(site.value) == at.uses(site.product) == 1


def constant_parts(at: At, node: Expr) -> bool:
    site = around(at, node)
    return not at.varies(site.other) and (site.term is None or not at.varies(site.term))


def moves(at: At, node: Expr) -> bool:
    """Return whether a constant moves in a plan with fast numerics."""
    return at.graph.numerics == "fast" and constant_parts(at, node) and read_once(at, node)


def moves_checked(at: At, node: Expr) -> bool:
    """Return whether a constant moves in the plan of a net, which knows the values of its weights."""
    return at.graph.numerics == "safe" and at.graph.inference and constant_parts(at, node) and read_once(at, node)


@of_nodes(FactorIntoWeights.checked, holds=moves_checked)
@of_nodes(FactorIntoWeights.moved, holds=moves)
def factor_moved(at: At, node: Expr) -> Facts:
    weights = base(at, weights_of(at, node))
    return {**factor_facts(at, node), "weights": weights, "saved_flops": node.size}


def factor_facts(at: At, node: Expr) -> Facts:
    site = around(at, node)
    work = {"multiply": "multiplication", "divide": "division"}[kind(node)]
    return {"product": site.product, "factor": base(at, site.other), "work": work}


@of_nodes(FactorIntoWeights.column_factors, holds=lambda at, node: not scaled_weights(at, node))
def factor_shape(at: At, node: Expr) -> Facts:
    return {**factor_facts(at, node), "shape": shape_text(around(at, node).other)}


def is_whole(at: At, value: Expr) -> bool:
    """Return whether a value was converted from integers, or is a difference of two such values."""
    value = base(at, value)
    operands = at.operands(value)
    if isinstance(value.operation, (Add, Subtract)):
        return all(is_whole(at, operand) for operand in operands)
    return value.operation.name == "cast" and operands[0].dtype.kind in "iu"


@of_nodes(
    FactorIntoWeights.exact,
    holds=lambda at, node: all(is_whole(at, operand) for operand in at.operands(around(at, node).product)),
)
def factor_of_exact_sums(at: At, node: Expr) -> Facts:
    return factor_facts(at, node)


@of_nodes(TermsOfWeights.checked, holds=moves_checked)
@of_nodes(TermsOfWeights.merged, holds=moves)
def terms_merged(at: At, node: Expr) -> Facts:
    site = around(at, node)
    assert site.term is not None
    first, second = base(at, site.term), base(at, site.other)
    return {"first": first, "second": second, "product": site.product, "saved_flops": node.size}


@of_decision(FactorIntoWeights.harmful)
@of_decision(TermsOfWeights.harmful)
def harmful(claim: Claim) -> Facts:
    """Check the weights' values again; a net's plan declines for the same reason."""
    (node,) = claim.subjects
    (rule,) = [rule for rule in ex.Rule.rules if type(rule).__name__ == claim.choice.rule]
    answer = rule.match(node, PlanGraph([node], inference=True))
    assert isinstance(answer, ex.Declined)
    assert claim.planned.graph.inference
    is_factor = kind(node) in ("multiply", "divide")
    facts = factor_facts(claim.before, node) if is_factor else terms_merged(claim.before, node)
    return {**facts, "harm": answer.facts["harm"]}


class Step(NamedTuple):
    """One operation on a value, with its other, constant operand."""

    node: Expr
    inner: Expr
    constant: Expr | None


def channel_axis(at: At, product: Expr, x: Expr) -> int:
    """Return the axis of a product's operand that is contracted with its weights."""
    if not isinstance(product.operation, Matmul):
        return 1
    return x.ndim - 1 if at.below_at(product, 0) is x else max(0, x.ndim - 2)


def normed(at: At, product: Expr) -> Iterator[Expr]:
    """Return the operands of a product that multiplies."""
    operands = at.operands(product)
    for x in operands if isinstance(product.operation, Matmul) else operands[:1]:
        if isinstance(x.operation, (Add, Subtract, Multiply, Divide, Negative)):
            yield x


def steps_around(at: At, product: Expr, x: Expr) -> tuple[list[Step], Expr, Expr | None]:
    """Return the per-channel operations on a value, outermost first, the value itself, and its varying part, if any."""
    steps: list[Step] = []
    axis = channel_axis(at, product, x)
    while isinstance(x.operation, (Add, Subtract, Multiply, Divide, Negative)) and len(steps) < 16:
        if at.has_parameters and not at.varies(x):
            break
        step = None
        operands = at.operands(x)
        if isinstance(x.operation, Negative):
            step = Step(x, operands[0], None)
        for place, (inner, other) in enumerate((operands, operands[::-1])) if step is None else ():
            if inner.shape != x.shape or not set(axes_of(other, x)) <= {axis}:
                continue
            if not at.varies(other):
                if place == 0 or not isinstance(x.operation, Divide):
                    step = Step(x, inner, other)
                break
            if 1 < other.size < x.size:
                return steps, x, other
        if step is None or at.uses(x) > 1 or (pads(product) and isinstance(x.operation, (Add, Subtract))):
            break
        steps.append(step)
        x = step.inner
    return steps, x, None


def pads(product: Expr) -> bool:
    operation = product.operation
    if isinstance(operation, Conv2d):
        return any(size for side in operation.padding for size in side)
    return isinstance(operation, Conv2dImageGradient)


@of_decision(NormIntoWeights.moved)
def norm_moved(claim: Claim) -> Facts:
    at, (product,) = claim.before, claim.subjects
    for x in normed(at, product):
        steps, _, _ = steps_around(at, product, x)
        place = next(place for place, operand in enumerate(at.operands(product)) if operand is x)
        weights = at.below_at(product, 1 - place)
        if steps and not at.varies(weights):
            assert all(at.uses(step.node) == 1 for step in steps)
            saved = sum(step.node.size for step in steps)
            return {"count": len(steps), "weights": base(at, weights), "product": product, "saved_flops": saved}
    raise AssertionError("no norm before the product")


def innermost(at: At, product: Expr) -> Iterator[tuple[Expr, Expr | None]]:
    """Return the end of the walk through the norms before a product, and the varying part there."""
    for x in normed(at, product):
        _, last, part = steps_around(at, product, x)
        yield last, part


@of_nodes(NormIntoWeights.padding, holds=lambda at, node: pads(node))
def norm_padding(at: At, node: Expr) -> Facts:
    norm = next(last for last, _ in innermost(at, node) if isinstance(last.operation, (Add, Subtract)))
    return {"product": node, "norm": norm}


@of_nodes(NormIntoWeights.norm_consumers)
def norm_consumers(at: At, node: Expr) -> Facts:
    norm = next(last for last, _ in innermost(at, node) if at.uses(last) > 1)
    return {"norm": norm, "consumers": at.uses(norm)}


def price_of_norm(at: At, product: Expr) -> tuple[float, float]:
    """Return the cost in µs of a norm, and of changing the weights in each run."""
    model = REFERENCE_COST_MODEL
    for place, x in enumerate(at.operands(product)):
        steps = steps_around(at, product, x)[0]
        if steps:
            size = at.below_at(product, 1 - place).size
            calls = sum(1 + isinstance(step.node.operation, (Add, Subtract)) for step in steps)
            after = calls * model.call + len(steps) * size / model.flops
            return sum(step.node.size for step in steps) / model.flops, after
    raise AssertionError("no norm before the product")


@of_nodes(NormIntoWeights.dear, holds=lambda at, node: not at.has_parameters)
def norm_dear(at: At, node: Expr) -> Facts:
    before, after = price_of_norm(at, node)
    assert after >= before
    count = next(len(steps) for x in at.operands(node) if (steps := steps_around(at, node, x)[0]))
    return {"count": count, "product": node, "before_us": before, "after_us": after}


def of_norms(node: Expr) -> bool:
    return isinstance(node.operation, (Conv2d, Conv2dImageGradient, Matmul))


@of_nodes(IntoWeights.price, holds=lambda at, node: not at.has_parameters)
def price(at: At, node: Expr) -> Facts:
    site, model = around(at, node), REFERENCE_COST_MODEL
    if isinstance(node.operation, (Add, Subtract)):
        assert site.term is not None
        values = [max(site.term.size, site.other.size)]
    else:
        values = [weights_of(at, node).size, *([] if site.term is None else [site.term.size])]
    after = sum(model.call + size / model.flops for size in values)
    assert after >= node.size / model.flops
    prices = {"before_us": node.size / model.flops, "after_us": after}
    return {"operation": node.operation.label, "product": site.product, **prices}


@of_nodes(IntoWeights.other_consumers)
def product_consumers(at: At, node: Expr) -> Facts:
    site = around(at, node)
    read = next(each for each in (site.value, site.product) if at.uses(each) > 1)
    return {"operation": node.operation.label, "product": read, "consumers": at.uses(read)}


@of_nodes(IntoWeights.not_constant)
def not_constant(at: At, node: Expr) -> Facts:
    if of_norms(node):
        norm, part = next((last, part) for last, part in innermost(at, node) if part is not None)
        assert part is not None
        assert at.varies(part)
        return {"norm": norm, "part": base(at, part), "operation": kind(norm)}
    site = around(at, node)
    pairs = (site.term, site.value), (site.other, node)
    part, reader = next((part, reader) for part, reader in pairs if part is not None and at.varies(part))
    return {**factor_facts(at, node), "part": base(at, part), "operation": kind(reader)}


def parts(at: At, node: Expr) -> tuple[Expr, Expr, list[Expr]]:
    """Return the product, the operation next to it, and the other values whose dtypes matter."""
    if of_norms(node):
        for place, x in enumerate(at.operands(node)):
            steps, value, _ = steps_around(at, node, x)
            if steps:
                constants = [step.constant for step in steps if step.constant is not None]
                return node, x, [x, value, at.below_at(node, 1 - place), *constants]
    site = around(at, node)
    if isinstance(node.operation, (Add, Subtract)):
        assert site.term is not None
        return site.product, node, [site.term, site.other]
    return site.product, node, [site.other, *([weights_of(at, node)] if scaled_weights(at, node) else [])]


def parts_facts(at: At, node: Expr) -> Facts:
    product, moved, _ = parts(at, node)
    return {"product": product, "operation": moved.operation.label}


@of_nodes(IntoWeights.dtype)
def other_dtype(at: At, node: Expr) -> Facts:
    product, _, others = parts(at, node)
    other = next(each for each in others if each.dtype != product.dtype)
    return {**parts_facts(at, node), "other": other, "given": str(product.dtype), "beside": str(other.dtype)}


@of_nodes(IntoWeights.shapes)
def broadcast(at: At, node: Expr) -> Facts:
    product = parts(at, node)[0]
    assert product.shape != node.shape
    return {**parts_facts(at, node), "before": shape_text(product), "after": shape_text(node)}


@of_nodes(IntoWeights.digits, holds=lambda at, n: parts(at, n)[0].dtype.kind not in "fc" or n.dtype.itemsize < 4)
def few_digits(at: At, node: Expr) -> Facts:
    return {**parts_facts(at, node), "given": str(parts(at, node)[0].dtype)}
