"""What-if analysis: the smallest change that makes the planner apply a declined rule.

Candidate edits are actually planned, so the answer is not an estimate. Planning is fast enough to try a dozen edits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation, record
from explorer.core.ir.function import Item, Parameter
from explorer.core.types.tensor_type import TensorType, TupleType
from explorer.ops.base import broadcast_to, cast
from explorer.ops.elementwise.trigonometric_and_logs import exp2
from explorer.ops.elementwise.unary import absolute
from explorer.ops.nn.conv import Conv2d
from explorer.plan.graph.decisions import PlanDecision
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.options import Options
from explorer.plan.passes.inline import Inline
from explorer.plan.planner import Plan
from explorer.record import Decision, Recording
from explorer.record.dimension_names import shape_text
from explorer.record.reasons import bytes_text, micros_text
from explorer.run.diagnosis.replan import (
    Counterfactual,
    Images,
    ReplanInput,
    neighbourhood,
    placeholder,
    planned_input,
    recorded_input,
    replan,
)

_DEPTH = 3
"""levels of operands that are kept for a node that is neither in the recorded graph nor in the final graph"""
_FUSING = ("Epilogue", "ElementwiseChain", "Prologue")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A planned change: whether the rule is now applied, the plan's cost in µs and its peak memory in bytes."""

    change: str
    flips: bool
    estimated_us: float
    peak_bytes: int


@dataclass(frozen=True, slots=True, repr=False)
class WhatIf:
    """Changes that were tried for a declined decision, smallest first; only the last one may apply the rule.

    Example: see ``ex.EvalPlan``.
    """

    declined: str
    estimated_us: float
    """cost of the unchanged graph in µs; costs of changes that add work are scaled to the same work"""
    peak_bytes: int
    attempts: tuple[Attempt, ...]

    @property
    def change(self) -> Attempt | None:
        """The change that applies the rule; None if no tried change does."""
        return next((attempt for attempt in self.attempts if attempt.flips), None)

    def __repr__(self) -> str:
        return str(self).rstrip()

    def __str__(self) -> str:
        lines = [f"✗ {self.declined}"]
        lines += [f"  {self._line(attempt)}" for attempt in self.attempts]
        if self.change is None:
            lines.append("  no small change is known that applies it")
        return "\n".join(lines) + "\n"

    def _line(self, attempt: Attempt) -> str:
        price = f"estimated {micros_text(self.estimated_us)} → {micros_text(attempt.estimated_us)}"
        peak = f"peak {bytes_text(self.peak_bytes)} → {bytes_text(attempt.peak_bytes)}"
        mark, suffix = ("✓", "") if attempt.flips else ("·", "; still declined")
        return f"{mark} {attempt.change}: {price}, {peak}{suffix}"


def what_if(planned: Plan, recording: Recording, what: Decision | Expr) -> WhatIf:
    """Try the known changes for a declined decision, smallest first, until the rule is applied.

    If ``what`` is an expression, its costliest declined decision is used. Raises OperandError for a decision that was
    applied or that belongs to another plan, and for an expression without a declined decision.
    """
    index = _declined_decision(planned, recording, what)
    decision, sentence = planned.graph.decisions[index], recording.reason(recording.decisions[index])
    if decision.applied:
        raise OperandError(
            f"what it would take for {decision.rule} [{decision.code}]",
            rule="the decision must be a declined one; this one was applied",
            fix="plan.what_if(plan.recording.declined[0])",
        )
    graph, options = planned.graph, planned.options
    stage = graph.stages[decision.stage].name.removesuffix(" again")
    changes = CHANGES.get((stage, decision.code))
    for base, node in _bases(graph, decision, stage) if changes is not None else ():
        unchanged, images = replan(base, options)
        # A different reason applies in this graph, so editing it would prove nothing.
        if not _still_declined(unchanged, decision, images[node.uid]):
            continue
        assert changes is not None
        attempts = [*_try(changes(decision, node, base, graph), decision, node, base, options)]
        return WhatIf(sentence, _price(unchanged), unchanged.schedule.peak, tuple(attempts))
    return WhatIf(sentence, _price(planned), planned.schedule.peak, ())


def _declined_decision(planned: Plan, recording: Recording, what: Decision | Expr) -> int:
    """Return the index of the decision ``what``, or of the costliest declined decision about an expression."""
    if isinstance(what, Expr):
        choices = planned.graph.decisions
        indices = [
            index
            for index, decision in enumerate(choices)
            if not decision.applied and any(node is what for node in decision.subjects)
        ]
        if not indices:
            raise OperandError(
                f"what it would take for {what!r}",
                rule="a rule must have been declined for the expression, but none was",
                fix="see all its decisions: plan.explain(expression)",
            )
        return max(indices, key=lambda index: recording.decisions[index].facts["estimated_cost_us"])
    index = next((index for index, recorded in enumerate(recording.decisions) if recorded is what), -1)
    if index < 0:
        raise OperandError(
            f"what it would take for {what!r:.80}",
            rule="the decision must belong to this plan's recording",
            fix="plan.what_if(plan.recording.declined[0])",
        )
    return index


def _bases(graph: PlanGraph, decision: PlanDecision, stage: str) -> Iterator[tuple[ReplanInput, Expr]]:
    """Yield each graph that may be changed, with the node in it: the user's graph and the final graph.

    If neither contains the node, yield the node with its operands.
    """
    reader = next((node for node in decision.subjects if node.operands), decision.subjects[0])
    # A convolution's algorithm depends only on the node itself.
    if stage == "algorithms":
        yield neighbourhood(graph, reader, 0), reader
        return
    required = {reader.uid, *[fact.uid for fact in decision.facts.values() if isinstance(fact, Expr)]}
    for base in (recorded_input(graph), planned_input(graph)):
        if required <= {node.uid for node in base.nodes}:
            yield base, reader
    yield neighbourhood(graph, reader, _DEPTH), reader


def _try(
    changes: Iterator[Counterfactual], decision: PlanDecision, node: Expr, base: ReplanInput, options: Options
) -> Iterator[Attempt]:
    for change in changes:
        try:
            changed, images = replan(base, options, change)
        except OperandError:
            continue  # not valid here; try the next edit
        flips = change.shows(changed, images) if change.shows else _is_applied(changed, decision, node, images)
        # Scaled to equal work: twice as many images in less than twice the time is a gain.
        yield Attempt(change.text, flips, _price(changed) / change.work, changed.schedule.peak)
        if flips:
            return


def _still_declined(planned: Plan, decision: PlanDecision, node: Expr) -> bool:
    return any(
        other.rule == decision.rule
        and other.code == decision.code
        and any(subject is node for subject in other.subjects)
        for other in planned.graph.decisions
        if not other.applied
    )


def _is_applied(planned: Plan, decision: PlanDecision, node: Expr, images: Images) -> bool:
    """Return whether the rule is now applied to the node; for fusion, whether the node is fused with an operand."""
    image = images[node.uid]
    if decision.rule in _FUSING:
        if _still_declined(planned, decision, image):
            return False
        for kernel in planned.schedule.kernels:
            if any(member is image for member in kernel.nodes):
                member_uids = {member.uid for member in kernel.nodes}
                return any(operand.uid in member_uids for operand in planned.graph.inputs[image.uid])
        return False
    return any(
        other.applied and other.rule == decision.rule and any(subject is image for subject in other.subjects)
        for other in planned.graph.decisions
    )


def _price(planned: Plan) -> float:
    return sum([kernel.cost.estimate for kernel in planned.schedule.kernels if not kernel.constant])


Changes: TypeAlias = Iterator[Counterfactual]
_FACTORS = (2, 4, 8, 16, 32, 64)


def split_consumers(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Yield the change that leaves the operand with only one reader; the other readers read another value."""
    operand = decision.facts["operand" if "operand" in decision.facts else "y"]
    other_readers = [reader for reader in base.nodes if reader is not node and operand in _reads(base, reader)]
    dropped = frozenset({root.uid for root in base.roots if root is operand})
    if not (other_readers or dropped):
        return
    names = " and ".join(dict.fromkeys([reader.operation.label for reader in other_readers]))
    changes = [f"{node.operation.label} alone read {operand.operation.label}"]
    changes += [f"{names} another value"] * bool(other_readers)
    changes += [f"{operand.operation.label} were not requested"] * bool(dropped)
    edges = {(reader.uid, operand.uid): _another(operand, graph) for reader in other_readers}
    if len(base.roots) > len(dropped):
        text = f"if {', '.join(changes[:-1])}, and {changes[-1]}"
        yield Counterfactual(text, edges=edges, dropped=dropped)


def drop_output(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Yield the change that requests one value less."""
    operand = decision.facts["operand"]
    # A plan needs at least one root.
    if operand is not node and len(base.roots) > 1:
        yield Counterfactual(f"the value of {operand.operation.label} not requested", dropped=frozenset({operand.uid}))


def broadcast_first(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Yield the change that broadcasts before the operand's operation."""
    for operand in base.operands(node):
        if operand.shape == node.shape or not operand.operation.elementwise or not operand.operands:
            continue

        # The default binds the current operand, because the generator continues before the edit is tried.
        def broadcast_operands(image: Expr, operation: Callable[..., Expr] = operand.operation) -> Expr:
            return operation(*[broadcast_to(source, node.shape) for source in image.operands])

        text = f"{operand.operation.label} of operands broadcast to {shape_text(node.shape)} first"
        yield Counterfactual(text, edges={(node.uid, operand.uid): broadcast_operands})


def move_view_after(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Yield the change that applies a unary operation before the view instead of to its result."""
    operands = base.operands(node)
    view = operands[0]
    if len(operands) != 1 or not view.operation.view or len(base.operands(view)) != 1:
        return
    (x,) = base.operands(view)

    def view_last(images: tuple[Expr, ...]) -> Expr:
        return view.operation(node.operation(*images[0].operands))

    def shows(planned: Plan, images: Images) -> bool:
        return any(
            member.operation is node.operation and any(neighbour is images[x.uid] for neighbour in kernel.nodes)
            for kernel in planned.schedule.kernels
            for member in kernel.nodes
        )

    text = f"{node.operation.label} taken before {view.operation.label}"
    yield Counterfactual(text, nodes={node.uid: view_last}, shows=shows)


def convert_first(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Yield the change that first converts the operand to the dtype of the result."""
    operand = decision.facts.get("x", decision.facts.get("value"))
    if not isinstance(operand, Expr) or not isinstance(operand.type, TensorType):
        return

    def converted(image: Expr) -> Expr:
        return broadcast_to(cast(image, node.dtype), node.shape)

    edges = {(reader.uid, operand.uid): converted for reader in base.nodes if operand in _reads(base, reader)}
    yield Counterfactual(f"{operand.label} as {node.tensor_type!r} from the beginning", edges=edges)


def restrict_domain(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Yield changes that make the operand known to be non-negative, or positive."""
    operand = decision.facts["x"]
    readers = [reader for reader in base.nodes if operand in _reads(base, reader)]
    for text, restriction in (
        ("not to be negative, as absolute(…) is", absolute),
        ("to be positive, as exp2(…) is", exp2),
    ):
        yield Counterfactual(
            f"{operand.label} known {text}", edges={(r.uid, operand.uid): restriction for r in readers}
        )


def reveal_type(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Yield the change that declares the type that dynamic data hides from the rule."""
    operand = decision.facts["x"]
    if operand.operands:
        edges = {(node.uid, operand.uid): _below}
        yield Counterfactual(f"{operand.operands[0].label} itself, its type not hidden", edges=edges)


def reverse_operands(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Yield the change that gives two operations their operands in the same order."""
    replacements = {node.uid: _reversed(node)}
    yield Counterfactual(f"{node.operation.label} with its operands in the other order", nodes=replacements)


def add_members(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Yield changes that record more calls or operations of the same kind."""
    count = len(decision.subjects)
    columns = list(zip(*[base.operands(member) for member in decision.subjects], strict=True))
    differ = [any(operand is not column[0] for operand in column) for column in columns]

    def more_roots(times: int) -> Callable[[Images], list[Expr]]:
        def record_members(images: Images) -> list[Expr]:
            added: list[Expr] = []
            for _ in range((times - 1) * count):
                pairs = zip(base.operands(node), differ, strict=True)
                operands = tuple(
                    [placeholder(source, graph) if varies else images[source.uid] for source, varies in pairs]
                )
                call = record(node.operation, operands)
                added.append(record(Item(0), (call,)) if isinstance(call.type, TupleType) else call)
            return added

        return record_members

    if all(not isinstance(operand.type, TupleType) for operand in base.operands(node)):
        for times in _FACTORS:
            if times * count <= 4096:
                text = f"{times * count} of {node.operation.label} in place of {count}"
                yield Counterfactual(text, further=more_roots(times), work=times)


def raise_limit(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Yield the change that raises the size limit for inlined calls."""
    for times in (2, 4, 8, 16, 32):
        limit = decision.facts["limit"] * times or times
        yield Counterfactual(f"inline=ex.passes.Inline(limit={limit})", passes={Inline: {"limit": limit}})


def add_images(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Yield changes that convolve more images at once."""
    images = base.operands(node)[0]
    count, *image_shape = images.shape
    for times in _FACTORS:
        larger = Parameter(images.tensor_type.with_shape((count * times, *image_shape)), images.label)()
        text = f"{count * times} images at once in place of {count}"
        yield Counterfactual(text, nodes={images.uid: _always(larger)}, work=times)


def add_channels(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Yield changes with enough channels to make Winograd's method faster, then also with more images."""
    images, filters = base.operands(node)
    minimum = decision.facts["least"]
    output_channels, input_channels = [max(size, minimum) for size in filters.shape[:2]]
    count, _, *window = images.shape
    weights = placeholder(
        filters, graph, filters.tensor_type.with_shape((output_channels, input_channels, *filters.shape[2:]))
    )
    text = f"{input_channels} channels to {output_channels} in place of {filters.shape[1]} to {filters.shape[0]}"
    work = output_channels * input_channels / (filters.shape[0] * filters.shape[1])
    for times in (1, *_FACTORS):
        pixels = Parameter(images.tensor_type.with_shape((count * times, input_channels, *window)), images.label)()
        yield Counterfactual(
            text + f", and {count * times} images at once in place of {count}" * (times > 1),
            nodes={images.uid: _always(pixels), filters.uid: _always(weights)},
            work=work * times,
        )


def change_window(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Yield changes towards a window that suits Winograd's method: one option at a time, then all options."""
    operation = node.operation
    assert isinstance(operation, Conv2d)
    required = {"strides": (1, 1), "dilation": (1, 1)}
    different = {name: value for name, value in required.items() if getattr(operation, name) != value}
    attempts = [{name: value} for name, value in different.items()] + [different] * (len(different) > 1)
    for options in attempts:
        changed_operation = Conv2d(**{**operation.attributes, **options})
        changed_options = " and ".join([f"{name}={value}" for name, value in options.items()])
        yield Counterfactual(f"{changed_options} of the windows", nodes={node.uid: _applied(changed_operation)})


def keep_filters(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Yield the change that makes the filters constants and the images parameters."""
    images, filters = base.operands(node)
    pixels = Parameter(images.tensor_type, images.label)()
    weights = placeholder(filters, graph) if not filters.operands and not graph.has_parameters else None
    replacements = {images.uid: _always(pixels)}
    if weights is not None:
        replacements[filters.uid] = _always(weights)
    yield Counterfactual("images passed at each run, and filters that stay", nodes=replacements)


def _reads(base: ReplanInput, reader: Expr) -> list[Expr]:
    """Return the operands of ``reader`` in a list that compares by identity."""
    return _Identical(base.operands(reader))


class _Identical(list[Expr]):
    """Expressions that ``in`` compares by identity, since == records an operation."""

    def __contains__(self, other: object) -> bool:
        return any(node is other for node in self)


def _another(operand: Expr, graph: PlanGraph) -> Callable[[Expr], Expr]:
    return lambda image: placeholder(operand, graph)


def _always(value: Expr) -> Callable[[tuple[Expr, ...]], Expr]:
    return lambda images: value


def _applied(operation: Operation) -> Callable[[tuple[Expr, ...]], Expr]:
    return lambda images: operation(*images)


def _reversed(node: Expr) -> Callable[[tuple[Expr, ...]], Expr]:
    return lambda images: node.operation(*reversed(images))


def _below(image: Expr) -> Expr:
    return image.operands[0]


CHANGES: dict[tuple[str, str], Callable[[PlanDecision, Expr, ReplanInput, PlanGraph], Changes]] = {
    ("fuse", "other_consumers"): split_consumers,
    ("fuse", "asked_for"): drop_output,
    ("fuse", "shape"): broadcast_first,
    ("fuse", "producer"): move_view_after,
    ("simplify", "other_consumers"): split_consumers,
    ("simplify", "dtype"): convert_first,
    ("simplify", "type"): convert_first,
    ("simplify", "domain"): restrict_domain,
    ("simplify", "hidden_type"): reveal_type,
    ("dedup", "order_of_zeros"): reverse_operands,
    ("batch", "stacking_costs_more"): add_members,
    ("inline", "too_large"): raise_limit,
    ("algorithms", "few_tiles"): add_images,
    ("algorithms", "few_channels"): add_channels,
    ("algorithms", "windows"): change_window,
    ("algorithms", "filters_vary"): keep_filters,
}
"""(stage, code) → function that yields candidate edits; no small edits are known for other codes"""
