"""Text export: one line per decision, one per kernel; equal programs and options give equal text.

``print(plan.explain())``, the command line and readers without widgets use it. It is canonical, free of addresses,
paths and measured values, so that two texts can be compared with diff; a table library would wrap lines by terminal
width.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from explorer.record import Decision, Kernel, Recording
from explorer.record.escape import visible
from explorer.record.history import decisions_about
from explorer.record.layer_rows import layer_lines
from explorer.record.reasons import bytes_text, count_text, fact_text
from explorer.view.model.decision_facts import fact_labels, note, stage_counts
from explorer.view.model.totals import of_scopes
from explorer.view.tree.box_tree import scope_name
from explorer.view.tree.scopes import scope_path

_MARK = {"applied": "✓", "declined": "✗"}
_NODES = 60
"""maximum number of listed nodes if there are no decisions"""
_SCOPES, _DEPTH = 40, 2
"""maximum number of listed scopes, and their maximum depth"""
_LAYERS = 60
"""maximum number of lines about layers in the short text"""
_WHOLE = 400
"""number of decisions and kernels up to which the short text lists all of them"""
_FIRST, _LAST = 24, 8
"""beyond that, how many are listed at the beginning and at the end of each stage and of the schedule"""
_KERNELS = 8
"""maximum number of listed kernels that compute a node together with others"""
_Row = TypeVar("_Row")


def text(recording: Recording, *, short: bool = False) -> str:
    """Return the canonical text of a recording, free of addresses, times, paths and measured values.

    The ``short`` text lists the first and last decisions of each stage, and kernels, if there are many.
    """
    kernels = recording.schedule.kernels if recording.schedule else ()
    cut = short and len(recording.decisions) + len(kernels) > _WHOLE
    lines = [_header(recording)]
    if recording.options:
        options = ", ".join(f"{name}={value}" for name, value in sorted(recording.options.items()))
        lines.append(f"options: {options}")
    lines += _scope_lines(recording)
    lines += _layer_lines(recording, short)
    for number, stage in enumerate(recording.stages):
        lines.append(_stage_line(recording, number))
        decisions = recording.decisions[stage.first : stage.last]
        listed = _listed(decisions, lambda _, row: decision_line(recording, row), "decisions", cut)
        lines += listed if cut else folded(listed)
    if not recording.decisions:
        lines += _node_lines(recording)
    lines += _schedule_lines(recording, cut)
    return "\n".join(visible(line) for line in lines) + "\n"


def explain(recording: Recording, node: int | None = None) -> str:
    """Return the decisions and their reasons as text, for the whole plan or for one node."""
    return text(recording) if node is None else why(recording, node)


def why(recording: Recording, node: int) -> str:
    """Return the history of a node as text: its decisions with facts, the declined ones in order, and its final state.

    Raises ValueError for an id that the recording does not have.
    """
    nodes = recording.nodes
    if not 0 <= node < len(nodes):
        raise ValueError(f"node {node} is not in this recording: it has nodes 0 to {len(nodes) - 1}")
    lines = [f"{recording.label(node)} · {recording.type_text(node)}"]
    row = nodes.source[node]
    if row >= 0:
        source = recording.sources[row]
        lines.append(f"recorded at {source.place}: {source.text.strip()}")
    scope = " / ".join(scope_path(recording, node))
    if scope:
        lines.append(f"scope {scope}")
    decisions = [recording.decisions[number] for number in decisions_about(recording, node)]
    if not decisions:
        lines.append("no rule matched this node")
    for decision in decisions:
        lines.append(decision_line(recording, decision, located=True))
        lines += _fact_lines(recording, decision)
    lines += _twins(recording, node)
    lines += _fate(recording, node)
    return "\n".join(visible(line) for line in lines) + "\n"


def _fact_lines(recording: Recording, decision: Decision) -> list[str]:
    """List the facts of a decision; for a batch that ran, estimates are marked as such."""
    labels = fact_labels(decision)
    lines = [
        f"      {labels[name]}: {fact_text(name, value, recording.label)}" for name, value in decision.facts.items()
    ]
    return [*lines, f"      {note(decision)}"] if note(decision) else lines


def _header(recording: Recording) -> str:
    return " · ".join(part for part in (recording.title or "recording", recording.fingerprint) if part)


def _stage_line(recording: Recording, number: int) -> str:
    stage = recording.stages[number]
    verdicts = [decision.verdict for decision in recording.decisions[stage.first : stage.last]]
    counts = [" ".join(count) for count in stage_counts(stage)]
    taken = [f"{verdicts.count('applied')} ✓ {verdicts.count('declined')} ✗"] if verdicts else []
    return f"{stage.name}: {', '.join(counts + taken) or 'nothing to do'}"


def decision_line(recording: Recording, decision: Decision, located: bool = False) -> str:
    """Return a decision as a line: verdict, stage, rule, sentence, code; ``located`` adds the rule's module."""
    stage = recording.stages[decision.stage].name
    # Without the line number: an edit above a rule would change every text that mentions it.
    module = re.sub(r":\d+$", "", decision.location)
    where = f" ({module})" if located and module else ""
    many = f" ({len(decision.subjects):,} nodes)" if len(decision.subjects) > 3 else ""
    sentence = recording.reason(decision)
    return f"  {_MARK[decision.verdict]} {stage} · {decision.rule}{where}: {sentence}{many} [{decision.code}]"


def _scope_lines(recording: Recording) -> list[str]:
    """List the totals of scopes that have weights, inner ones indented."""
    totals = of_scopes(recording)
    inside: dict[int, list[int]] = {}
    for row, scope in enumerate(recording.scopes):
        if totals[row].parameters and scope.kind != "top":
            inside.setdefault(scope.parent, []).append(row)
    outermost = [row for row, scope in enumerate(recording.scopes) if scope.kind == "top"]
    pending = [(row, 0) for top in reversed(outermost) for row in reversed(inside.get(top, ()))]
    lines = []
    while pending:
        row, depth = pending.pop()
        lines.append(f"{'  ' * depth}  {scope_name(recording, row)} · {totals[row].text}")
        if depth + 1 < _DEPTH:
            pending += [(inner, depth + 1) for inner in reversed(inside.get(row, ()))]
    if len(lines) > _SCOPES:
        lines[_SCOPES:] = [f"  … and {len(lines) - _SCOPES:,} more scopes"]
    whole = sum(totals[top].parameters for top in outermost)
    return [f"scopes: {whole:,} parameters", *lines] if lines else []


def _layer_lines(recording: Recording, short: bool) -> list[str]:
    """List the layers with order, policies and gradients; the short text only the first ones."""
    lines = [f"  {line}" for line in layer_lines(recording.layers)]
    if short and len(lines) > _LAYERS:
        lines[_LAYERS:] = [f"  … and {len(lines) - _LAYERS:,} more lines: print(layer.describe()) has them all"]
    return [f"layers: {len(recording.layers):,}", *lines] if lines else []


def _node_lines(recording: Recording) -> list[str]:
    nodes = recording.nodes
    lines = []
    drawn = [node for node in recording.visible(recording.end) if nodes.kind[node] != "constant"]
    for node in drawn[:_NODES]:
        operands = [recording.label(operand) for operand in nodes.operands[node] if nodes.kind[operand] != "constant"]
        reads = f" ← {', '.join(operands)}" if operands else ""
        lines.append(f"  {recording.label(node)} · {recording.type_text(node)}{reads}")
    if len(drawn) > _NODES:
        lines.append(f"  … and {len(drawn) - _NODES:,} more nodes")
    return lines


def folded(lines: Iterable[str]) -> list[str]:
    """Merge equal consecutive lines, with their number."""
    counted = [(line, len(list(same))) for line, same in itertools.groupby(lines)]
    return [line if count == 1 else f"{line} ×{count:,}" for line, count in counted]


def _listed(rows: Sequence[_Row], line: Callable[[int, _Row], str], what: str, cut: bool) -> list[str]:
    """Return one line per row, numbered from 1; if ``cut``, only the first and the last ones."""
    if not cut or len(rows) <= _FIRST + _LAST:
        return [line(number, row) for number, row in enumerate(rows, 1)]
    left = len(rows) - _FIRST - _LAST
    first = [line(number, row) for number, row in enumerate(rows[:_FIRST], 1)]
    last = [line(number, row) for number, row in enumerate(rows[-_LAST:], len(rows) - _LAST + 1)]
    return [*first, f"  … {left:,} more {what}: print(plan.explain()) lists them", *last]


def _schedule_lines(recording: Recording, cut: bool) -> list[str]:
    schedule = recording.schedule
    if schedule is None:
        return []
    peak, without = bytes_text(schedule.peak), bytes_text(schedule.peak_without_reuse)
    kernels = f"{len(schedule.kernels):,} kernels, {len(schedule.buffers):,} buffers"
    lines = [f"schedule: {kernels}, peak {peak}, {without} without reuse"]
    return lines + _listed(schedule.kernels, lambda number, row: _kernel_line(recording, number, row), "kernels", cut)


def _kernel_line(recording: Recording, number: int, kernel: Kernel) -> str:
    names = [recording.label(node) for node in kernel.nodes[:8]]
    names += ["…"] if len(kernel.nodes) > 8 else []
    place = "no buffer" if kernel.buffer < 0 else f"buffer {kernel.buffer}" + (" in place" if kernel.in_place else "")
    size = f"{bytes_text(kernel.bytes)}, {count_text(kernel.flops)} flops"
    return (
        f"  {number} {' → '.join(names)}: level {kernel.level}, chain {kernel.chain}, "
        f"{size}, {place}; {kernel.pick_reason}"
    )


def _twins(recording: Recording, node: int) -> list[str]:
    """Describe the gradient of a node, the values saved for it, and the gradient that the node is part of."""
    lines = []
    for row in recording.gradients:
        if row.node == node:
            saved = ", ".join(map(recording.label, row.saved)) or "nothing"
            lines.append(f"gradient: {', '.join(map(recording.label, row.backward))}; saved for it: {saved}")
        elif node in row.backward:
            lines.append(f"part of the gradient of {recording.label(row.node)}")
    return lines


def _batched(recording: Recording, node: int) -> tuple[int, ...]:
    """Return the batched nodes that replace a node; empty if it was not batched."""
    gone = recording.nodes.gone[node]
    is_batched = any(group.decision == gone and group.kind == "batch" for group in recording.groups)
    return recording.decisions[gone].produced if is_batched else ()


def _fate(recording: Recording, node: int) -> list[str]:
    """Describe the node's final state and the kernels that compute it."""
    nodes = recording.nodes
    final = recording.resolver(recording.end).get(node, node)
    lines = []
    if final != node:
        lines.append(f"replaced by {recording.label(final)} in the final graph")
    elif batched := _batched(recording, node):
        lines.append(
            f"in the final graph it is a row of {recording.label(batched[0])} · {recording.type_text(batched[0])}"
        )
    elif nodes.gone[node] >= 0:
        lines.append("removed: nothing reads it")
    kernels = recording.schedule.kernels if recording.schedule else ()
    own = [number for number, kernel in enumerate(kernels) if final in kernel.nodes]
    lines += [f"kernel {_kernel_line(recording, number + 1, kernels[number]).strip()}" for number in own]
    account = recording.provenance.nodes.get(node)
    others = [number for number in account.kernels if number not in own] if account is not None else []
    for number in others[:_KERNELS]:
        lines.append(f"computed in kernel {_kernel_line(recording, number + 1, kernels[number]).strip()}")
    if len(others) > _KERNELS:
        lines.append(f"and in {len(others) - _KERNELS:,} more kernels")
    return lines
