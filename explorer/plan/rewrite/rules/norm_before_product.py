"""Norms before a product: factors and terms that are applied to each channel of an operand move into the weights of the
product.

A batch norm with stored statistics, or the scale and shift of a layer norm, thus disappears into the product that
follows. A factor scales the rows of the weights. A term t becomes t ∗ W, one number for each output channel. A term
cannot move if the product pads its operand, because t is not added to the zeros of the padding. All steps are moved
together: if weights are scaled in every run, a single step may cost more than it saves.
"""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

from dataclasses import dataclass

from explorer.core.ir.expr import Expr
from explorer.ops.base import broadcast_to, reshape
from explorer.ops.elementwise.arithmetic import Add, Divide, Multiply, Subtract
from explorer.ops.elementwise.unary import Negative
from explorer.ops.linalg.matmul import Matmul
from explorer.ops.nn.conv import Conv2d, Conv2dImageGradient
from explorer.plan.graph.constancy import is_constant
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.rule import Answer, Declined, Reason
from explorer.plan.rewrite.rules.scale_into_weights import DIGITS, IntoWeights, named, other_type, varying

_ARITHMETIC = (Add, Subtract, Multiply, Divide, Negative)
_STEPS = 16
"""maximum number of factors and terms that are moved for one operand"""


class NormIntoWeights(IntoWeights):
    """(x · s + t) @ W is x @ (s[:, None] · W) + t @ W for weights s and t with one number for each row of W."""

    moved = Reason(
        "norm_into_weights",
        "Before `{product}`, {count:multiplication or addition is|multiplications and additions are} moved into the "
        "weights `{weights}` of `{product}`, because the factors and terms depend only on weights.",
        meaning="(x · s + t) @ W is x @ (s[:, None] · W) + t @ W, where s and t have one number for each row of W or, "
        "before a convolution, for each channel. A norm is thus merged into the product after it.",
        change='ex.EvalPlan(without=["simplify"]) computes it as written.',
    )
    padding = Reason(
        "padding",
        "`{norm}` is computed as written, not moved into the weights of `{product}`, because `{product}` treats "
        "pixels outside the images as zeros, and the terms that `{norm}` adds would also be added to these zeros.",
        meaning="(x + t) ∗ W is x ∗ W + t ∗ W only if t is added to all pixels that the filters read. A term that is "
        "added before padding is not added to the zeros at the border.",
        change="Use a convolution without padding, or put the norm after the convolution.",
    )
    norm_consumers = Reason(
        "other_consumers",
        "`{norm}` is computed as written, not moved into the weights of the product or convolution after it, because "
        "{consumers} operations read the result of `{norm}`, so it must be computed anyway.",
        meaning="(x · s) @ W is x @ (s · W). This saves a step only if nothing else reads x · s.",
        change="Remove the other readers, if they are not needed.",
    )
    dear = Reason(
        "price",
        "Before `{product}`, {count:multiplication or addition is|multiplications and additions are} computed as "
        "written, not moved into the weights of `{product}`, because changing the weights takes an estimated "
        "{after_us} in every run and saves only {before_us}.",
        meaning="(x · s) @ W is x @ (s[:, None] · W). In a program that receives its data as inputs, s[:, None] · W "
        "is computed only once, before the first run. This program has no inputs, so it would be computed in every "
        "run.",
        change="Make the data an input of the program (ex.function, or a net), so that only weights are constant.",
    )

    numerics = "reassociating"
    roots = (Conv2d, Conv2dImageGradient, Matmul)
    producers = _ARITHMETIC

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        operands = graph.operands(node)
        for index, x in enumerate(operands if isinstance(node.operation, Matmul) else operands[:1]):
            if not isinstance(x.operation, _ARITHMETIC) or _never_pays(_STEPS * x.size, graph):
                continue
            # If the other factor is an input too, scaling it in each run saves nothing.
            if not _is_weights(operands[1 - index], graph):
                continue
            answer = self._move(_Product(node, index, operands[1 - index]), x, graph)
            if answer is not None:
                return answer
        return None

    def _move(self, product: _Product, x: Expr, graph: PlanGraph) -> Answer:
        """Return the answer for one operand of a product: move all steps applied to its channels, or decline."""
        node, weights = product.node, product.weights
        walk = _Walk(x, product, graph)
        steps: list[_Step] = []
        while len(steps) < _STEPS and (step := walk.next()) is not None:
            steps.append(step)
        saved = sum([step.node.size for step in steps])
        # Record why the next step cannot be moved, but only if moving it could save time.
        if not steps or _never_pays(saved, graph):
            return None if _never_pays(x.size, graph) else walk.declined
        parts = [x, walk.value, weights, *[step.constant for step in steps if step.constant is not None]]
        wrong = next((part for part in parts if part.dtype != node.dtype or part.dtype.kind not in "fc"), None)
        if wrong is not None or node.dtype.itemsize < DIGITS:
            return other_type(node, x, node, *([] if wrong is None else [wrong]))
        declined = _decline_if_costly(steps, product, saved, graph)
        if declined is not None:
            return declined
        terms: list[tuple[Expr, bool]] = []
        for step in steps:
            weights = step.into(product, weights, terms)
        result = product.over(walk.value, weights)
        for term, negative in terms:
            result = result - term if negative else result + term
        return self.moved.applied(
            result, count=len(steps), weights=named(product.weights, graph), product=node, saved_flops=saved
        )


@dataclass(frozen=True)
class _Product:
    """Product, the index of the operand whose channels are scaled, and the weights, which are the other operand."""

    node: Expr
    operand_index: int
    weights: Expr

    @property
    def axis(self) -> int:
        """Axis of the operand over which the product sums."""
        x = self.node.operands[self.operand_index]
        if isinstance(self.node.operation, Matmul):
            return x.ndim - 1 if self.operand_index == 0 else max(0, x.ndim - 2)
        return 1

    @property
    def borders(self) -> bool:
        """Return whether some elements of the result are sums over fewer elements than others, as next to padding."""
        operation = self.node.operation
        if isinstance(operation, Conv2d):
            return any(count for sides in operation.padding for count in sides)
        return isinstance(operation, Conv2dImageGradient)

    def over(self, x: Expr, weights: Expr) -> Expr:
        """Record the same product of other operands."""
        return self.node.operation(*((x, weights) if self.operand_index == 0 else (weights, x)))

    def by_channel(self, channels: Expr) -> Expr:
        """Reshape ``channels``, one number for each channel or one for all, so that it broadcasts with the weights."""
        operation, shape = self.node.operation, self.weights.shape
        if channels.size == 1:
            return reshape(channels, ())
        if isinstance(operation, Conv2dImageGradient):
            return reshape(channels, (channels.size, 1, 1, 1))
        if not isinstance(operation, Conv2d):
            return reshape(
                channels, (channels.size, 1) if self.operand_index == 0 and len(shape) > 1 else (channels.size,)
            )
        if operation.groups == 1:
            return reshape(channels, (channels.size, 1, 1))
        groups, group_channels = operation.groups, shape[1]
        by_group = broadcast_to(
            reshape(channels, (groups, 1, group_channels)), (groups, shape[0] // groups, group_channels)
        )
        return reshape(by_group, (shape[0], group_channels, 1, 1))

    def of(self, channels: Expr, weights: Expr) -> Expr:
        """Record the product for an operand that has the value ``channels[c]`` everywhere in channel c."""
        if isinstance(self.node.operation, Conv2d):
            return reshape((weights * self.by_channel(channels)).sum(axis=(1, 2, 3)), (weights.shape[0], 1, 1))
        x = self.node.operands[self.operand_index]
        size = x.shape[self.axis]
        row = broadcast_to(reshape(channels, (channels.size,)), (size,))
        if x.ndim > 1:
            row = reshape(row, (1, size) if self.operand_index == 0 else (size, 1))
        return self.over(row, weights)


@dataclass(frozen=True)
class _Step:
    """One operation applied to a value: arithmetic with a constant, or negation."""

    node: Expr
    constant: Expr | None
    first: bool
    """whether the constant is the first operand"""

    @property
    def adds(self) -> bool:
        """Return whether the step adds or subtracts; otherwise it multiplies, divides or negates."""
        return isinstance(self.node.operation, (Add, Subtract))

    def into(self, product: _Product, weights: Expr, terms: list[tuple[Expr, bool]]) -> Expr:
        """Return ``weights`` with this step applied.

        If the step adds, append (term, whether the term is subtracted) to ``terms``.
        """
        operation = self.node.operation
        if self.constant is None:
            return -weights
        if not self.adds:
            return operation(weights, product.by_channel(self.constant))
        subtracts = isinstance(operation, Subtract)
        terms.append((product.of(self.constant, weights), subtracts and not self.first))
        return -weights if subtracts and self.first else weights


class _Walk:
    """Steps that scale or shift the channels of a product's operand, found from the last step to the first."""

    def __init__(self, value: Expr, product: _Product, graph: PlanGraph) -> None:
        self.value, self.product, self.graph = value, product, graph
        self.declined: Declined | None = None
        """the decision why no further step can be moved, if there is one"""

    def next(self) -> _Step | None:
        """Return the last step that was not returned yet, or None if there is no further step that can be moved."""
        node, graph = self.value, self.graph
        if not isinstance(node.operation, _ARITHMETIC) or (graph.has_parameters and is_constant(node, graph)):
            return None
        operands = graph.operands(node)
        if isinstance(node.operation, Negative):
            return self._below(_Step(node, None, False), operands[0])
        for index, (inner, other) in enumerate((operands, operands[::-1])):
            if inner.shape != node.shape or not set(varying(other, node)) <= {self.product.axis}:
                continue
            if is_constant(other, graph):
                inverted = index == 1 and isinstance(node.operation, Divide)
                return None if inverted else self._below(_Step(node, other, index == 1), inner)
            if 1 < other.size < node.size:
                self.declined = NormIntoWeights.not_constant.declined(
                    part=named(other, graph), norm=node, operation=node.operation.name
                )
        return None

    def _below(self, step: _Step, inner: Expr) -> _Step | None:
        """Return ``step`` and continue before it; return None if the step cannot be moved."""
        if step.adds and self.product.borders:
            self.declined = NormIntoWeights.padding.declined(product=self.product.node, norm=step.node)
            return None
        consumers = self.graph.consumers(step.node)
        if consumers > 1:
            self.declined = NormIntoWeights.norm_consumers.declined(norm=step.node, consumers=consumers)
            return None
        self.value = inner
        return step


def _is_weights(value: Expr, graph: PlanGraph) -> bool:
    """Return whether ``value`` depends only on weights; if the program has no inputs, whether it is a stored tensor."""
    return is_constant(value, graph) if graph.has_parameters else not named(value, graph).operands


def _never_pays(saved: int, graph: PlanGraph) -> bool:
    """Return whether scaling the weights certainly costs more than it saves, so that no decision is needed."""
    return not graph.has_parameters and saved / REFERENCE_COST_MODEL.flops < REFERENCE_COST_MODEL.call


def _decline_if_costly(steps: list[_Step], product: _Product, saved: int, graph: PlanGraph) -> Declined | None:
    """Decline if the weights would be scaled in every run, and this takes longer than it saves."""
    if graph.has_parameters:
        return None
    saved_us = saved / REFERENCE_COST_MODEL.flops
    scaling_us = sum(
        [
            (1 + step.adds) * REFERENCE_COST_MODEL.call + product.weights.size / REFERENCE_COST_MODEL.flops
            for step in steps
        ]
    )
    if scaling_us < saved_us:
        return None
    return NormIntoWeights.dear.declined(
        count=len(steps), product=product.node, before_us=saved_us, after_us=scaling_us
    )
