"""Reproducers: a notebook cell that shows one decision again, on the smallest part of the graph that takes it.

Parts around the decision's nodes are tried, smallest first, by running the generated source and looking for the
decision in its plan: no rule has to name the facts on which it depends, and a cell that is returned is known to work.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from explorer.core.errors import OperandError, StateError
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call, Item, Parameter
from explorer.core.types.tensor_type import TupleType
from explorer.plan.planner import Plan
from explorer.record import Decision, Recording
from explorer.run.diagnosis.python_source import Source, is_drawable, options
from explorer.run.recording.recorder import expressions

_NEAR = (0, 1, 2, 4, 8)
"""distances above and below the decision's nodes that are tried before the whole graph"""


class _Part(NamedTuple):
    """Part of the recorded graph: its operations, the values cut off below them, and its roots."""

    inside: frozenset[int]
    cut: frozenset[int]
    roots: tuple[Expr, ...]


def reproducer(planned: Plan, recording: Recording, decision: Decision) -> str:
    """Return Python source that records a small graph, plans it, asserts the decision again, and shows the plan.

    The source needs only ``explorer as ex`` and ``numpy as np``. Raises StateError if even the whole graph, recorded
    anew, does not show the decision.
    """
    if all(decision is not known for known in recording.decisions):
        raise OperandError(
            f"a reproducer of {decision!r:.80}",
            rule="the decision must belong to this plan's recording",
            fix="plan.reproducer(plan.recording.decisions[0])",
        )
    if decision.code == "differentiated":
        for source in _rewritten(planned, decision):
            if _shows(source, decision):
                return f"{source}{_claim(decision)}"
    unwritten: OperandError | None = None
    # A decision about value and gradient needs both functions, which only differentiating records.
    writers = (_written, _differentiated) if decision.code != "augmented" else (_differentiated,)
    for part, write in itertools.product(_parts(planned, recording, decision), writers):
        if write is _differentiated and _call(planned, part) is None:
            continue
        try:
            source = write(planned, part)
        except OperandError as error:
            unwritten = error
            continue
        if _shows(source, decision):
            return f"{source}{_claim(decision)}"
    raise StateError(
        f"no part of the graph shows {decision.rule} [{decision.code}] again",
        rule="the decision must depend on the graph and the options alone, not on other plans or on values",
        fix="plan.recording holds the whole; view.save('plan.explorer.json') sends it",
    ) from unwritten


def _parts(planned: Plan, recording: Recording, decision: Decision) -> Iterator[_Part]:
    """Yield parts of the recorded graph around a decision's nodes, smallest first, the whole graph last."""
    everything, graph = expressions(planned), planned.graph
    named = [*decision.subjects, *decision.produced, *_facts(decision)]
    before = recording.provenance
    cores = [{everything[node].uid for node in before.recorded(nodes)} for nodes in (decision.subjects, named)]
    readers: dict[int, list[Expr]] = {}
    for node in graph.recorded:
        for operand in dict.fromkeys(node.operands):
            readers.setdefault(operand.uid, []).append(node)
    by_uid = {node.uid: node for node in graph.recorded}
    items = {uid: [node for node in nodes if isinstance(node.operation, Item)] for uid, nodes in readers.items()}
    parts: dict[frozenset[int], _Part] = {}
    for core, above, below in itertools.product(cores, _NEAR[:3], _NEAR):
        inside = set(core)
        for _ in range(above):
            inside |= {reader.uid for uid in inside for reader in readers.get(uid, ())}
        for _ in range(below):
            inside |= {operand.uid for uid in inside for operand in by_uid[uid].operands}
        part = _closed(planned, inside, by_uid, items)
        # By its nodes: many distances give the same part, and each try runs a plan.
        parts[part.inside] = part
    yield from sorted(parts.values(), key=lambda part: len(part.inside))
    yield _closed(planned, set(by_uid), by_uid, items)


def _closed(planned: Plan, wanted: set[int], by_uid: Mapping[int, Expr], items: Mapping[int, list[Expr]]) -> _Part:
    """Return the wanted nodes as a part; values that no random array can replace are included with their operands."""
    inside: set[int] = set()
    pending = [by_uid[uid] for uid in wanted]
    while pending:
        node = pending.pop()
        if node.uid in inside:
            continue
        inside.add(node.uid)
        if isinstance(node.type, TupleType):
            pending.extend(items.get(node.uid, ()))
        pending.extend(operand for operand in node.operands if not operand.operands or not is_drawable(operand.type))
    read = {operand.uid for uid in inside for operand in by_uid[uid].operands}
    asked = {root.uid for root in planned.graph.recorded_roots}
    roots = [by_uid[uid] for uid in sorted(inside) if (uid not in read or uid in asked) and _is_asked_for(by_uid[uid])]
    return _Part(frozenset(inside), frozenset(read - inside), tuple(roots))


def _is_asked_for(node: Expr) -> bool:
    """Whether a node's value can be requested: tuples cannot."""
    return not isinstance(node.type, TupleType)


def _facts(decision: Decision) -> list[int]:
    """Return the nodes named in a decision's facts."""
    nodes: list[int] = []
    pending: list[Any] = list(decision.facts.values())
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            nodes.append(value["node"])
        elif isinstance(value, (list, tuple)):
            pending.extend(value)
    return nodes


def _written(planned: Plan, part: _Part) -> str:
    """Return the source of a part and its plan; raise OperandError if something has no source, such as a function."""
    graph = planned.graph
    nodes = [node for node in graph.recorded if node.uid in part.inside or node.uid in part.cut]
    # In the order of recording, on which decisions between equal nodes depend.
    nodes.sort(key=lambda node: node.uid)
    from_parameters: set[int] = set()
    for node in graph.recorded:
        if isinstance(node.operation, Parameter) or any(operand.uid in from_parameters for operand in node.operands):
            from_parameters.add(node.uid)
    source, chosen = Source(nodes, part.cut, from_parameters), options(planned.options)
    roots = ", ".join([source.names[root.uid] for root in part.roots])
    return _cell(source, [f"plan = ex.EvalPlan({chosen})", f"for root in [{roots}]:"])


def _call(planned: Plan, part: _Part) -> Expr | None:
    """Return the first call of a function in a part."""
    inside = (node for node in planned.graph.recorded if node.uid in part.inside)
    return next((node for node in inside if isinstance(node.operation, Call) and node.operation.inlinable), None)


def _differentiated(planned: Plan, part: _Part) -> str:
    """Return the source of the first call of a part and of its gradient, which only together record both functions."""
    call = _call(planned, part)
    assert call is not None
    operands = list({operand.uid: operand for operand in call.operands}.values())
    source = Source([*operands, call], {operand.uid for operand in operands})
    asked = [source.names[operand.uid] for operand in operands if operand.dtype.kind == "f"]
    result = source.names[call.uid]
    several = isinstance(call.type, TupleType)
    return _cell(
        source,
        [
            f"outputs = [*{result}]" if several else f"outputs = [{result}]",
            "loss = ex.add_n(*[output.sum() for output in outputs])",
            f"plan = ex.EvalPlan({options(planned.options)})",
            f"for root in [*outputs, *ex.grad(loss, [{', '.join(asked)}])]:",
        ],
    )


def _rewritten(planned: Plan, decision: Decision) -> Iterator[str]:
    """Yield sources of the value of which a gradient was recorded in stable form, with more and more of what is below
    it, and of its gradient."""
    forward = {expressions(planned)[node].scope.payload for node in decision.subjects}  # type: ignore[union-attr]
    for value in [node for node in planned.graph.recorded if node.uid in forward]:
        inside = {value.uid: value}
        for _ in range(_NEAR[-1]):
            inside |= {each.uid: each for node in [*inside.values()] for each in node.operands}
            kept = [node for node in inside.values() if node.operands]
            cut = {
                each.uid: each for node in kept for each in node.operands if each.uid not in inside or not each.operands
            }
            cut |= {node.uid: node for node in inside.values() if not node.operands}
            borders = {uid: node for uid, node in inside.items() if any(o.uid not in inside for o in node.operands)}
            nodes = sorted({**inside, **cut}.values(), key=lambda node: node.uid)
            source = Source(nodes, {*cut, *borders})
            asked = [
                source.names[node.uid] for node in nodes if node.uid in {*cut, *borders} and node.dtype.kind == "f"
            ]
            lines = [
                f"plan = ex.EvalPlan({options(planned.options)})",
                f"for root in ex.grad({source.names[value.uid]}.sum(), [{', '.join(asked)}]):",
            ]
            if asked and value.uid not in borders:
                yield _cell(source, lines)


def _cell(source: Source, last: list[str]) -> str:
    lines = ["import numpy as np", "", "import explorer as ex", ""]
    if source.functions:
        lines += ["", *source.functions, ""]
    if any("random." in line for line in source.lines):
        lines.append("random = np.random.default_rng(0)")
    return "\n".join([*lines, *source.lines, *last, "    plan.register(root)", "plan.prepare()", ""])


def _shows(source: str, decision: Decision) -> bool:
    names: dict[str, Any] = {}
    # Names of a program or a file stand in it as identifiers or quoted texts only (python_source.py).
    exec(compile(source, "<reproducer>", "exec"), names)
    recording: Recording = names["plan"].recording
    return (decision.rule, decision.code) in [(candidate.rule, candidate.code) for candidate in recording.decisions]


def _claim(decision: Decision) -> str:
    return (
        "taken = [(decision.rule, decision.code) for decision in plan.recording.decisions]\n"
        f"assert ({decision.rule!r}, {decision.code!r}) in taken, taken\n"
        "plan.explore()\n"
    )
