"""Candidate edits that could turn a declined decision into an applied one, by its code, the cheapest first.

``what_if`` plans the graph again with one edit after the other until the rule applies. Edits are written by hand for
each code: a search over arbitrary edits would find changes that nobody would make to a program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from explorer.core.ir.expr import Expr, record
from explorer.core.ir.function import Item, Parameter
from explorer.core.ir.operation import Operation
from explorer.core.types.tensor_type import TensorType, TupleType
from explorer.ops.base import broadcast_to, cast
from explorer.ops.elementwise.trigonometric_and_logs import exp2
from explorer.ops.elementwise.unary import absolute
from explorer.ops.nn.conv import Conv2d
from explorer.plan.graph.decisions import PlanDecision
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.passes.inline import Inline
from explorer.plan.planner import Plan
from explorer.record.dimension_names import shape_text
from explorer.run.diagnosis.replan import Counterfactual, Images, ReplanInput, placeholder

Changes: TypeAlias = Iterator[Counterfactual]
_MORE = (2, 4, 8, 16, 32, 64)


def split_consumers(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Leave the operand one reader: the others read another value."""
    operand = decision.facts["operand" if "operand" in decision.facts else "y"]
    other_readers = [reader for reader in base.nodes if reader is not node and operand in _reads(base, reader)]
    dropped = frozenset({root.uid for root in base.roots if root is operand})
    if not (other_readers or dropped):
        return
    names = " and ".join(dict.fromkeys([reader.operation.label for reader in other_readers]))
    changes = [f"{node.operation.label} alone read {operand.operation.label}"]
    changes += [f"{names} another value"] * bool(other_readers)
    changes += [f"{operand.operation.label} were not asked for"] * bool(dropped)
    edges = {(reader.uid, operand.uid): _another(operand, graph) for reader in other_readers}
    if len(base.roots) > len(dropped):
        text = f"if {', '.join(changes[:-1])}, and {changes[-1]}"
        yield Counterfactual(text, edges=edges, dropped=dropped)


def drop_output(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Request one value less."""
    operand = decision.facts["operand"]
    # A plan needs a root: the only one cannot be given up.
    if operand is not node and len(base.roots) > 1:
        yield Counterfactual(f"the value of {operand.operation.label} not asked for", dropped=frozenset({operand.uid}))


def broadcast_first(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Broadcast before the operand's operation, not after it."""
    for operand in base.operands(node):
        if operand.shape == node.shape or not operand.operation.elementwise or not operand.operands:
            continue

        # A default binds the operand of this round; the generator goes on before the edit is tried.
        def spread(image: Expr, operation: Callable[..., Expr] = operand.operation) -> Expr:
            return operation(*[broadcast_to(below, node.shape) for below in image.operands])

        text = f"{operand.operation.label} of operands broadcast to {shape_text(node.shape)} first"
        yield Counterfactual(text, edges={(node.uid, operand.uid): spread})


def move_view_after(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Apply a unary operation before the view that it reads, not after it."""
    operands = base.operands(node)
    view = operands[0]
    if len(operands) != 1 or not view.operation.view or len(base.operands(view)) != 1:
        return
    (x,) = base.operands(view)

    def turned(images: tuple[Expr, ...]) -> Expr:
        return view.operation(node.operation(*images[0].operands))

    def shows(planned: Plan, images: Images) -> bool:
        return any(
            member.operation is node.operation and any(neighbour is images[x.uid] for neighbour in kernel.nodes)
            for kernel in planned.schedule.kernels
            for member in kernel.nodes
        )

    text = f"{node.operation.label} taken before {view.operation.label}"
    yield Counterfactual(text, nodes={node.uid: turned}, shows=shows)


def convert_first(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Convert the operand to the dtype of the result first."""
    operand = decision.facts.get("x", decision.facts.get("value"))
    if not isinstance(operand, Expr) or not isinstance(operand.type, TensorType):
        return

    def converted(image: Expr) -> Expr:
        return broadcast_to(cast(image, node.dtype), node.shape)

    edges = {(reader.uid, operand.uid): converted for reader in base.nodes if operand in _reads(base, reader)}
    yield Counterfactual(f"{operand.label} as {node.tensor_type!r} from the beginning", edges=edges)


def restrict_domain(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Make the operand known to be non-negative, or positive."""
    operand = decision.facts["x"]
    readers = [reader for reader in base.nodes if operand in _reads(base, reader)]
    for text, known in (
        ("not to be negative, as absolute(…) is", absolute),
        ("to be positive, as exp2(…) is", exp2),
    ):
        yield Counterfactual(f"{operand.label} known {text}", edges={(r.uid, operand.uid): known for r in readers})


def reveal_type(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Let the rule see the type that dynamic data hides."""
    operand = decision.facts["x"]
    if operand.operands:
        edges = {(node.uid, operand.uid): _below}
        yield Counterfactual(f"{operand.operands[0].label} itself, its type not hidden", edges=edges)


def reverse_operands(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Give both operations their operands in the same order."""
    turned = {node.uid: _reversed(node)}
    yield Counterfactual(f"{node.operation.label} with its operands in the other order", nodes=turned)


def add_members(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Record more calls, or operations, of this kind."""
    count = len(decision.subjects)
    columns = list(zip(*[base.operands(member) for member in decision.subjects], strict=True))
    differ = [any(operand is not column[0] for operand in column) for column in columns]

    def further(times: int) -> Callable[[Images], list[Expr]]:
        def make(images: Images) -> list[Expr]:
            added: list[Expr] = []
            for _ in range((times - 1) * count):
                pairs = zip(base.operands(node), differ, strict=True)
                operands = tuple(
                    [placeholder(source, graph) if varies else images[source.uid] for source, varies in pairs]
                )
                call = record(node.operation, operands)
                added.append(record(Item(0), (call,)) if isinstance(call.type, TupleType) else call)
            return added

        return make

    if all(not isinstance(operand.type, TupleType) for operand in base.operands(node)):
        for times in _MORE:
            if times * count <= 4096:
                text = f"{times * count} of {node.operation.label} in place of {count}"
                yield Counterfactual(text, further=further(times), work=times)


def raise_limit(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Inline larger calls."""
    for times in (2, 4, 8, 16, 32):
        more = decision.facts["limit"] * times or times
        yield Counterfactual(f"inline=ex.passes.Inline(limit={more})", options={"inline": Inline(more)})


def add_images(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Convolve more images at once."""
    images = base.operands(node)[0]
    count, *rest = images.shape
    for times in _MORE:
        larger = Parameter(images.tensor_type.with_shape((count * times, *rest)), images.label)()
        text = f"{count * times} images at once in place of {count}"
        yield Counterfactual(text, nodes={images.uid: _always(larger)}, work=times)


def add_channels(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Use as many channels as Winograd pays for, then more images as well."""
    images, filters = base.operands(node)
    least = decision.facts["least"]
    outer, inner = [max(size, least) for size in filters.shape[:2]]
    count, _, *window = images.shape
    weights = placeholder(filters, graph, filters.tensor_type.with_shape((outer, inner, *filters.shape[2:])))
    text = f"{inner} channels to {outer} in place of {filters.shape[1]} to {filters.shape[0]}"
    work = outer * inner / (filters.shape[0] * filters.shape[1])
    for times in (1, *_MORE):
        pixels = Parameter(images.tensor_type.with_shape((count * times, inner, *window)), images.label)()
        yield Counterfactual(
            text + f", and {count * times} images at once in place of {count}" * (times > 1),
            nodes={images.uid: _always(pixels), filters.uid: _always(weights)},
            work=work * times,
        )


def change_window(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Use the window that Winograd needs: one option at a time, then all."""
    operation = node.operation
    assert isinstance(operation, Conv2d)
    wanted = {"strides": (1, 1), "dilation": (1, 1)}
    wrong = {name: value for name, value in wanted.items() if getattr(operation, name) != value}
    attempts = [{name: value} for name, value in wrong.items()] + [wrong] * (len(wrong) > 1)
    for changed in attempts:
        better = Conv2d(**{**operation.attributes, **changed})
        changed_options = " and ".join([f"{name}={value}" for name, value in changed.items()])
        yield Counterfactual(f"{changed_options} of the windows", nodes={node.uid: _applied(better)})


def keep_filters(decision: PlanDecision, node: Expr, base: ReplanInput, graph: PlanGraph) -> Changes:
    """Make the filters constants, and the images parameters."""
    images, filters = base.operands(node)
    pixels = Parameter(images.tensor_type, images.label)()
    weights = placeholder(filters, graph) if not filters.operands and not graph.has_parameters else None
    replacements = {images.uid: _always(pixels)}
    if weights is not None:
        replacements[filters.uid] = _always(weights)
    yield Counterfactual("images passed at each run, and filters that stay", nodes=replacements)


def _reads(base: ReplanInput, reader: Expr) -> list[Expr]:
    """Return the operands of a reader, compared by identity."""
    return _Identical(base.operands(reader))


class _Identical(list[Expr]):
    """Expressions compared by identity in ``in``, since == records an operation."""

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
"""(stage, code) → candidate edits; for other codes no small edit is known"""
