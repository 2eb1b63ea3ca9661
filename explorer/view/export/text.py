"""Text export, with a line per decision and per kernel; equal programs and options give equal text.

``print(plan.explain())``, the command line, notebooks and readers without widgets use it. It is canonical, without
addresses, paths and measured values, so that diff can compare two texts; a table library would wrap lines at the
terminal width. Decisions come first, and lines that change with any of them, such as counts and the fingerprint, come
last, so that tools that show the first difference between two texts show the decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TypeVar

from explorer.record import Decision, Kernel, Recording, Stage
from explorer.record.escape import visible
from explorer.record.glossary import GLOSSARY
from explorer.record.layer_rows import layer_lines
from explorer.record.reasons import bytes_text, counted_text, short_counted_text
from explorer.view.export.decision_lines import decision_lines
from explorer.view.model.stage_texts import (
    live_values_text,
    most_live_text,
    peak_text,
    stage_counts,
    without_reuse_text,
)
from explorer.view.model.totals import of_scopes
from explorer.view.tree.box_tree import scope_name

_NODES = 60
"""maximum number of listed nodes if there are no decisions"""
_SCOPES, _DEPTH = 40, 2
"""maximum number of listed scopes, and their maximum depth"""
_LAYERS = 60
"""maximum number of lines about layers in the short text"""
_METADATA = 40
"""maximum number of listed values that a model file states, and of its described operators"""
_WHOLE = 400
"""maximum number of decisions and kernels that the short text lists completely"""
_FIRST, _LAST = 24, 8
"""number of rows listed at the beginning and at the end of each stage, and of the schedule, if it is cut"""
_IDLE = 9
"""minimum number of consecutive passes without changes that share a line"""
_Row = TypeVar("_Row")


def text(recording: Recording, *, short: bool = False) -> str:
    """Return the canonical text of a recording, without addresses, times, paths and measured values.

    The ``short`` text lists only the first and last decisions of each stage, and kernels, if there are many.
    """
    kernels = recording.schedule.kernels if recording.schedule else ()
    cut = short and len(recording.decisions) + len(kernels) > _WHOLE
    lines: list[str] = []
    for stage in recording.stages:
        lines += _decision_lines(recording, recording.decisions[stage.first : stage.last], cut)
    if not recording.decisions:
        lines += _node_lines(recording)
    lines += _schedule_lines(recording, cut, short)
    lines += _scope_lines(recording)
    lines += _layer_lines(recording, short)
    lines += _metadata_lines(recording, short)
    counts = Counter([row.name for row in recording.compositions])
    if counts:
        lines.append(f"found: {', '.join([f'{name} ×{count:,}' for name, count in sorted(counts.items())])}")
    lines += _stage_lines(recording)
    if recording.options:
        options = ", ".join(f"{name}={value}" for name, value in sorted(recording.options.items()))
        lines.append(f"options: {options}")
    lines.append(" · ".join(filter(None, [recording.title or "recording", recording.fingerprint])))
    return "\n".join(visible(line) for line in lines) + "\n"


def _decision_lines(recording: Recording, decisions: Sequence[Decision], cut: bool) -> list[str]:
    def lines(some: Sequence[Decision]) -> list[str]:
        return list(map(str, decision_lines(recording, some)))

    return _ends(decisions, lines, _whole(recording, "decisions")) if cut else lines(decisions)


def _ends(rows: Sequence[_Row], lines: Callable[[Sequence[_Row]], list[str]], what: str) -> list[str]:
    """Return the lines of all rows; if there are many, format only the first and last rows."""
    hidden = len(rows) - _FIRST - _LAST
    if hidden <= 0:
        return lines(rows)
    rest = f"  … {hidden:,} more {what}"
    return [*lines(rows[:_FIRST]), rest, *lines(rows[-_LAST:])]


def _whole(recording: Recording, what: str) -> str:
    """Return what is left out, and the call that lists it: only Explorer's own recordings belong to a plan."""
    call = 'view.save("all.txt")' if recording.authors or recording.placements else "print(plan.explain())"
    return f"{what}: {call} lists them"


def _stage_lines(recording: Recording) -> list[str]:
    """Return a line per stage, per rounds of one pass, and per row of many passes that changed nothing."""
    lines: list[str] = []
    for is_idle, rows in groupby(recording.stages, lambda stage: stage.kind == "rewrite" and stage.first == stage.last):
        stages = list(rows)
        if is_idle and len(stages) >= _IDLE:
            lines.append(f"{len(stages):,} passes changed nothing: {', '.join([stage.name for stage in stages])}")
        else:
            lines += [_stage_line(recording, list(rounds)) for _, rounds in groupby(stages, lambda stage: stage.name)]
    return lines


def _stage_line(recording: Recording, rounds: Sequence[Stage]) -> str:
    stage = rounds[-1]
    verdicts = [decision.verdict for decision in recording.decisions[rounds[0].first : stage.last]]
    counts = [" ".join(count) for count in stage_counts(stage)]
    verdict_counts = [f"{verdicts.count('applied')} ✓ {verdicts.count('declined')} ✗"] if verdicts else []
    name = f"{stage.name} ×{len(rounds):,}" if len(rounds) > 1 else stage.name
    return f"{name}: {', '.join(counts + verdict_counts) or 'nothing to do'}"


def _scope_lines(recording: Recording) -> list[str]:
    """List the totals of scopes that have weights, with inner scopes indented."""
    totals = of_scopes(recording)
    inside: dict[int, list[int]] = {}
    for row, scope in enumerate(recording.scopes):
        if totals[row].parameters and scope.kind != "top":
            inside.setdefault(scope.parent, []).append(row)
    outermost = [row for row, scope in enumerate(recording.scopes) if scope.kind == "top"]
    # Reversed, since the stack is popped from its end.
    pending = [(row, 0) for top in reversed(outermost) for row in reversed(inside.get(top, ()))]
    lines = []
    while pending:
        row, depth = pending.pop()
        lines.append(f"{'  ' * depth}  {scope_name(recording, row)} · {totals[row].text}")
        if depth + 1 < _DEPTH:
            pending += [(inner, depth + 1) for inner in reversed(inside.get(row, ()))]
    if len(lines) > _SCOPES:
        lines[_SCOPES:] = [f"  … and {counted_text(len(lines) - _SCOPES, 'more scope')}"]
    whole = sum(totals[top].parameters for top in outermost)
    return [f"scopes: {counted_text(whole, 'parameter')}", *lines] if lines else []


def _layer_lines(recording: Recording, short: bool) -> list[str]:
    """List the layers with order, policies and gradients; the short text lists only the first."""
    lines = [f"  {line}" for line in layer_lines(recording.layers)]
    if short and len(lines) > _LAYERS:
        lines[_LAYERS:] = [f"  … and {len(lines) - _LAYERS:,} more: print(layer.describe()) has them all"]
    return [f"layers: {len(recording.layers):,}", *lines] if lines else []


def _metadata_lines(recording: Recording, short: bool) -> list[str]:
    """List what a model file states about itself and about its operators."""
    lines = [f"  {name}: {value}" for name, value in recording.metadata[:_METADATA]]
    if len(recording.metadata) > _METADATA:
        lines.append(f"  … and {counted_text(len(recording.metadata) - _METADATA, 'more value')}")
    described = [row for row in recording.operators if row.doc]
    lines += [f"  {scope_name(recording, row.scope)}: {row.doc}" for row in described[:_METADATA]]
    if len(described) > _METADATA:
        lines.append(f"  … and {counted_text(len(described) - _METADATA, 'more described operator')}")
    stated = [(row, name, value) for row in recording.operators for name, value in row.stated]
    if short and stated:
        # Exporters give every operator the same names, so values would fill the short text.
        counts = Counter([name for _, name, _ in stated])
        lines.append(f"  about operators: {', '.join([f'{name} ×{count:,}' for name, count in counts.most_common(8)])}")
        lines += [f"  … and {counted_text(len(counts) - 8, 'more name')}"] * (len(counts) > 8)
        return ["the file states:", *lines]
    lines += [f"  {scope_name(recording, row.scope)}: {name}: {value}" for row, name, value in stated[:_METADATA]]
    if len(stated) > _METADATA:
        lines.append(f"  … and {counted_text(len(stated) - _METADATA, 'more value')} about operators")
    return ["the file states:", *lines] if lines else []


def _node_lines(recording: Recording) -> list[str]:
    nodes = recording.nodes
    lines = []
    drawn = [node for node in recording.visible(recording.end) if nodes.kind[node] != "constant"]
    for node in drawn[:_NODES]:
        operands = [
            recording.named_label(operand) for operand in nodes.operands[node] if nodes.kind[operand] != "constant"
        ]
        reads = f" ← {', '.join(operands)}" if operands else ""
        lines.append(f"  {recording.named_label(node)} · {recording.named_type_text(node)}{reads}")
    if len(drawn) > _NODES:
        lines.append(f"  … and {counted_text(len(drawn) - _NODES, 'more node')}")
    return lines


def _schedule_lines(recording: Recording, cut: bool, short: bool) -> list[str]:
    schedule = recording.schedule
    if schedule is None:
        return []
    has_buffers = any(kernel.buffer is not None for kernel in schedule.kernels) or not schedule.kernels
    sizes = [counted_text(len(schedule.kernels), "kernel")]
    sizes += [counted_text(len(schedule.buffers), "buffer")] * has_buffers
    memory = [peak_text(recording), most_live_text(recording), without_reuse_text(recording)]
    lines = [f"schedule: {'; '.join(filter(None, [', '.join(sizes), *memory]))}"]
    values = "" if short else live_values_text(recording)
    lines += [f"  {values}"] * bool(values)
    if any(kernel.level is not None for kernel in schedule.kernels):
        lines += [f"  {term}: {GLOSSARY[term]}" for term in ("level", "chain")]
    numbered = list(enumerate(schedule.kernels, 1))

    def kernel_lines(some: Sequence[tuple[int, Kernel]]) -> list[str]:
        return [kernel_line(recording, number, kernel) for number, kernel in some]

    return lines + (_ends(numbered, kernel_lines, _whole(recording, "kernels")) if cut else kernel_lines(numbered))


def kernel_line(recording: Recording, number: int, kernel: Kernel) -> str:
    """Return the line of a kernel, whose 1-based position in the schedule is ``number``."""
    names = [recording.named_label(node) for node in kernel.nodes[:8]]
    names += ["…"] if len(kernel.nodes) > 8 else []
    row = recording.nodes.source[kernel.nodes[-1]]
    line = f", {recording.sources[row].short_location}" if row >= 0 else ""
    facts = [
        None if kernel.level is None else f"level {kernel.level}, chain {kernel.chain}",
        bytes_text(kernel.bytes),
        None if kernel.flops is None else short_counted_text(kernel.flops, "flop"),
        _memory(kernel),
        recording.placements[number - 1].text if number - 1 in recording.placements else "",
        _code_size(recording, number - 1),
    ]
    reason = "nothing else was ready" if kernel.pick_reason == "only" else kernel.pick_reason
    known = "; ".join(filter(None, [", ".join(filter(None, facts)), reason]))
    return f"  {number} {' → '.join(names)}{line}: {known}"


def _code_size(recording: Recording, index: int) -> str:
    """Return the size of a kernel's code: ``12 lines of LLVM IR``; "" if there is none."""
    code = recording.codes.get(index)
    return "" if code is None else f"{counted_text(code.text.count(chr(10)) + 1, 'line')} of {code.language}"


def _memory(kernel: Kernel) -> str:
    """Return the memory of a kernel's result: ``buffer 1 in place``; "" if it is unknown."""
    if kernel.buffer is None:
        return ""
    if kernel.buffer < 0:
        return "memory of its own" if kernel.bytes else "no memory"
    return f"buffer {kernel.buffer}" + (" in place" if kernel.in_place else "")
