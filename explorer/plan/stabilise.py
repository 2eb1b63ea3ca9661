"""Numerically stable programs for gradients: ``ex.grad`` applies the stability rules before it differentiates.

The gradient of log(softmax(x)) as written divides by probabilities that may be rounded to 0. The gradients of
log_softmax(x), of any order, do not. The program is therefore rewritten before it is differentiated, with the same
rules that the planner applies later. If a rule created the node that is differentiated, the gradient's scope records
the rule, and the pass `Simplify` records a decision about it.

A formula may be spread over several calls: for example, one layer computes exp, and another the log of its sum. Only
calls that contain parts of such a formula are replaced by the operations in their bodies.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from explorer.core.ir.expr import Expr, Operation, make_replacement, next_uid, runs_on
from explorer.core.ir.function import Body, Call, Item, Parameter
from explorer.core.ir.recording_context import recording_at
from explorer.core.ir.traversal import reachable
from explorer.gradients.gradient_scopes import Origin
from explorer.ops.elementwise.arithmetic import Add, AddN, Divide, Multiply, Subtract
from explorer.ops.elementwise.unary import Negative, Reciprocal
from explorer.ops.manipulation.gather import Take, TakeAlong
from explorer.ops.manipulation.reshape import BroadcastTo, Cast, Reshape, Transpose
from explorer.ops.manipulation.slicing import Index0, Slice
from explorer.ops.reduction.reduce import Mean, Sum
from explorer.plan.passes.inline import inline
from explorer.plan.passes.simplify import ApplicableRules
from explorer.plan.rewrite.matchers import POWERS
from explorer.plan.rewrite.rule import Applied, Rule
from explorer.plan.rewrite.rules import stability
from explorer.plan.rewrite.rules.inverse_pairs import InversePair

_RULES = tuple(
    [rule for rule in Rule.rules if type(rule).__module__ == stability.__name__ or isinstance(rule, InversePair)]
)
_ROOTS = tuple({root for rule in _RULES for root in rule.roots})
_QUOTIENTS = (Divide, Reciprocal)
_CARRIERS = (
    Add, AddN, Subtract, Negative, Multiply, Divide, Reciprocal, Sum, Mean,
    Reshape, Transpose, BroadcastTo, Cast, Slice, Index0, Take, TakeAlong,
)  # fmt: skip
"""operations whose results the rules still recognise as a formula of powers"""


class Stable(NamedTuple):
    """Outputs of a program, rewritten to a stable form."""

    outputs: tuple[Expr, ...]
    origins: Mapping[int, Origin]
    """uid of a new node → the node of the given program that it replaces"""


def stabilise(outputs: Sequence[Expr], inputs: Iterable[Expr], border: Iterable[Expr] = ()) -> Stable:
    """Rewrite ``outputs`` so that every formula that a stability rule recognises is computed in stable form.

    ``inputs`` are the values with respect to which the gradient is computed. They are not replaced, and rules do not
    match the nodes from which they are computed. ``border`` contains the nodes at which the program starts.
    """
    fixed = {node.uid: node for node in (*inputs, *border)}
    nodes = reachable(outputs, stop=lambda node: node.uid in fixed)
    kinds = frozenset([kind for node in nodes for kind in _kinds(node)])
    rules = _applicable(kinds, tuple(Rule.rules))
    if rules is None:
        return Stable(tuple(outputs), {})
    origins: dict[int, Origin] = {}
    roots = tuple(outputs)
    if Call in kinds and (spread := _spread_calls(nodes, fixed)):
        roots = _opened(outputs, nodes, spread, origins)
        nodes = reachable(roots, stop=lambda node: node.uid in fixed)
    # Replace inputs by parameters, because no rule matches the nodes from which a parameter is computed.
    stand_ins = {
        node.uid: Parameter(node.type, node.operation.label)() for node in nodes if node.uid in fixed and node.operands
    }
    program = _Program(rules, origins)
    images = dict[int, Expr](stand_ins)
    for node in nodes:
        if node.uid not in fixed:
            image = program.settled(program.over(node, images), node)
            if image is not node:
                images[node.uid] = image
    results = [images.get(root.uid, root) for root in roots]
    if stand_ins:
        originals_of = {stand_in.uid: fixed[uid] for uid, stand_in in stand_ins.items()}
        for node in reachable(results, stop=lambda node: node.uid in fixed):
            image = program.over(node, originals_of)
            if node.uid not in originals_of and image is not node:
                originals_of[node.uid] = image
        results = [originals_of.get(root.uid, root) for root in results]
    return Stable(tuple(results), origins)


class _Program:
    """Program that is recorded again in stable form, node by node; rules use it like a graph that is being planned."""

    numerics, inference, has_parameters = "safe", False, False

    def __init__(self, rules: ApplicableRules, origins: dict[int, Origin]) -> None:
        self.rules, self.origins = rules, origins

    def operands(self, node: Expr) -> tuple[Expr, ...]:
        """Return the operands of ``node``."""
        return node.operands

    def resolve(self, node: Expr) -> Expr:
        """Return ``node``."""
        return node

    def over(self, node: Expr, images: Mapping[int, Expr]) -> Expr:
        """Return ``node`` applied to the images of its operands, or ``node`` itself if all operands are unchanged."""
        for operand in node.operands:
            if operand.uid in images:
                break
        else:
            return node
        operands = tuple([images.get(operand.uid, operand) for operand in node.operands])
        image = make_replacement(node.operation, operands, node, node.scope)
        self.origins[image.uid] = self.origins.get(node.uid, Origin(node))
        return image

    def settled(self, node: Expr, original: Expr) -> Expr:
        """Apply the rules to ``node`` and to all nodes that they create; return the result."""
        for _, rule in self.rules.at(type(node.operation), node.operands):
            first = next_uid()
            with recording_at(node.scope, node.code, node.instruction):
                answer = rule.match(node, self)  # type: ignore[arg-type]  # rules use only its operands
            if not isinstance(answer, Applied):
                continue
            fresh = _nodes_since(first, answer.new)
            if not all(runs_on(each.operation, each.type.device) for each in fresh):
                continue
            images: dict[int, Expr] = {}
            source = self.origins[original.uid].node if original.uid in self.origins else original
            for created in fresh:
                self.origins[created.uid] = Origin(source, (rule.name, node.operation.label))
                image = self.settled(self.over(created, images), created)
                if image is not created:
                    images[created.uid] = image
            return images.get(answer.new.uid, answer.new)
        return node


def _nodes_since(first: int, root: Expr) -> list[Expr]:
    """Return the nodes of the graph of ``root`` that were recorded after the uid ``first``, in topological order."""
    nodes = reachable([root], stop=lambda node: node.uid < first)
    return [node for node in nodes if node.uid > first]


@functools.lru_cache(maxsize=256)
def _applicable(kinds: frozenset[type[Operation]], registered: tuple[Rule, ...]) -> ApplicableRules | None:
    """Return all stability rules, or None if none can apply in a graph with these operations.

    If one rule can apply, all are returned, because its result may enable other rules.
    """

    def is_there(classes: tuple[type[Operation], ...]) -> bool:
        return any(issubclass(kind, classes) for kind in kinds)

    rules = tuple([rule for rule in _RULES if rule in registered])
    if not any(is_there(rule.roots) and is_there(rule.producers) for rule in rules):
        return None
    return ApplicableRules(kinds, rules)


def _kinds(node: Expr) -> Iterable[type[Operation]]:
    """Return the class of a node's operation; for a call, also the classes of the operations in its body."""
    operation = node.operation
    if not isinstance(operation, Call) or not operation.inlinable:
        return (type(operation),)
    return (Call, *_summary(operation.body).kinds)


_Tags: TypeAlias = frozenset[int]
"""origin of a formula: −1 for powers, otherwise the index of a parameter"""
_POWERS: _Tags = frozenset([-1])


class _Summary(NamedTuple):
    """Formulas of powers in a body that begin at its parameters or end at its outputs."""

    kinds: frozenset[type[Operation]]
    outputs: tuple[_Tags, ...]
    """for each output, the origins of its formula"""
    read: frozenset[int]
    """indices of parameters whose formula is read by a log, or by another root of a rule"""


def _summary(body: Body) -> _Summary:
    """Return the cached summary of ``body``. Calls may be nested thousands deep, so the function is not recursive."""
    pending = [body]
    while "stability" not in body.derived:
        current = pending[-1]
        inner = [node.operation.body for node in current.nodes if _is_call(node.operation)]  # type: ignore[attr-defined]
        unfinished = [inner_body for inner_body in inner if "stability" not in inner_body.derived]
        if unfinished:
            pending += unfinished
            continue
        pending.pop()
        inputs = {node.uid: index for index, node in enumerate((*current.parameters, *current.captured))}
        tags: dict[int, _Tags] = {uid: frozenset([index]) for uid, index in inputs.items()}
        parts: dict[int, tuple[_Tags, ...]] = {}
        read: set[int] = set()
        inside = [node for node in current.nodes if node.uid not in inputs]
        for node in inside:
            operands = [tags.get(operand.uid, frozenset()) for operand in node.operands]
            tags[node.uid], consumed = _flow(node, operands, parts)
            read.update(index for index in consumed if index >= 0)
        outputs = tuple([tags.get(output.uid, frozenset()) for output in current.outputs])
        kinds = frozenset([kind for node in inside for kind in _kinds(node)])
        current.derived["stability"] = _Summary(kinds, outputs, frozenset(read))
    summary: _Summary = body.derived["stability"]
    return summary


def _is_call(operation: Operation) -> bool:
    return isinstance(operation, Call) and operation.inlinable


def _flow(node: Expr, operands: Sequence[_Tags], parts: dict[int, tuple[_Tags, ...]]) -> tuple[_Tags, _Tags]:
    """Return the tags of the value of ``node``, and the tags of the operands that it reads as the root of a rule."""
    operation, none = node.operation, frozenset[int]()
    if isinstance(operation, Call) and operation.inlinable:
        summary = _summary(operation.body)
        through = tuple(
            [none.union(*[_POWERS if tag < 0 else operands[tag] for tag in tags]) for tags in summary.outputs]
        )
        parts[node.uid] = through
        return through[0] if len(through) == 1 else none, none.union(*[operands[index] for index in summary.read])
    if isinstance(operation, Item):
        return parts.get(node.operands[0].uid, {operation.index: none})[operation.index], none
    if isinstance(operation, POWERS):
        return _POWERS, none
    if isinstance(operation, _QUOTIENTS):
        return none.union(*operands), operands[-1]
    if isinstance(operation, _CARRIERS):
        return none.union(*operands), none
    return none, none.union(*operands) if isinstance(operation, _ROOTS) else none


def _spread_calls(nodes: Sequence[Expr], fixed: Collection[int]) -> set[int]:
    """Return the uids of the calls that contain a part of a formula of powers that is spread over calls."""
    through: dict[int, frozenset[int]] = {}
    """uid of a formula of powers → uids of the calls that compute parts of it"""
    calls: set[int] = set()
    none = frozenset[int]()
    parts: dict[int, tuple[frozenset[int] | None, ...]] = {}
    for node in nodes:
        operation = node.operation
        if node.uid in fixed or not node.operands:
            continue
        powers = [through.get(operand.uid) for operand in node.operands]
        if isinstance(operation, Call) and operation.inlinable:
            summary = _summary(operation.body)
            consumed = [powers[index] for index in summary.read]
            values: list[frozenset[int] | None] = []
            for tags in summary.outputs:
                below = [none if tag < 0 else powers[tag] for tag in tags]
                known = [each for each in below if each is not None]
                values.append(none.union(*known, [node.uid]) if known else None)
            parts[node.uid] = tuple(values)
            own = values[0] if len(values) == 1 else None
            for each in consumed:
                if each is not None:
                    calls |= {*each, node.uid}
        elif isinstance(operation, Item):
            own = parts.get(node.operands[0].uid, {operation.index: None})[operation.index]
        else:
            tags, consumed_tags = _flow(node, [_POWERS if each is not None else none for each in powers], {})
            known = [each for each in powers if each is not None]
            own = none.union(*known) if tags else None
            if consumed_tags:
                read = powers[-1:] if isinstance(operation, _QUOTIENTS) else powers
                calls |= none.union(*[each for each in read if each is not None])
        if own is not None:
            through[node.uid] = own
    return calls


def _opened(
    outputs: Sequence[Expr], nodes: Sequence[Expr], calls: Collection[int], origins: dict[int, Origin]
) -> tuple[Expr, ...]:
    """Return ``outputs`` recorded with ``calls`` replaced by the operations in their bodies."""
    images: dict[int, Expr] = {}
    results: dict[int, tuple[Expr, ...]] = {}
    for node in nodes:
        operands = tuple([images.get(operand.uid, operand) for operand in node.operands])
        if node.uid in calls:
            assert isinstance(node.operation, Call)
            inside, results[node.uid] = inline(node.operation.body, node, operands)
            origins.update({copy.uid: Origin(node) for copy in inside})
            if len(results[node.uid]) == 1:
                images[node.uid] = results[node.uid][0]
        elif isinstance(node.operation, Item) and node.operands[0].uid in results:
            images[node.uid] = results[node.operands[0].uid][node.operation.index]
        elif any(new is not old for new, old in zip(operands, node.operands, strict=True)):
            images[node.uid] = image = make_replacement(node.operation, operands, node, node.scope)
            origins[image.uid] = Origin(node)
    return tuple([images.get(output.uid, output) for output in outputs])
