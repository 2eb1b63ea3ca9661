"""Comparison as text: the counts, nodes, decisions, kernels and weights that differ.

The text is canonical, so that it can be stored and compared: nodes are named by labels and source lines, and times are
omitted unless requested. Equal lines are merged before long lists are cut.
"""

from __future__ import annotations

from collections import Counter

from explorer.record import Recording
from explorer.record.compare.comparison import Comparison, Regrouped
from explorer.record.escape import visible
from explorer.record.reasons import counted_text
from explorer.view.compare.pair_payload import MAX_ROWS, Count, counted, folds, option_text, title
from explorer.view.export.decision_lines import decision_line, decision_lines
from explorer.view.model.labels import source_text

_LISTED = 40
"""maximum number of rows per difference"""
_MEMBERS = 6
"""maximum number of named nodes per kernel, and of kernels per group"""


def text(comparison: Comparison, *, measured: bool = False, nodes: bool = False) -> str:
    """Return the comparison as text, which is canonical unless ``measured`` adds measured times.

    If operators of two model files differ, recorded nodes, decisions and kernels are only listed if ``nodes`` is True.
    """
    operators = comparison.operators
    is_whole = nodes or operators is None or operators.equal
    lines = [f"{title(comparison.before)} → {title(comparison.after)}"]
    for name, pair in () if comparison.is_across else comparison.options.items():
        lines.append(f"option {name}: {' → '.join([option_text(value) or 'nothing' for value in pair])}")
    if operators is not None:
        lines += operators.lines()
    if is_whole:
        lines += _graph_lines(comparison)
    counts = counted(comparison, measured=measured)
    rows = [Count("", "before", "after", "difference" if any(row.difference for row in counts) else ""), *counts]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines += [f"  {a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip() for a, b, c, d in rows]
    if is_whole and not comparison.is_across:
        lines += _decision_lines(comparison)
    if is_whole:
        lines += _kernel_lines(comparison)
    if comparison.weights is not None:
        lines += [str(comparison.weights), *_limited([f"  {line}" for line in comparison.weights.differ])]
    return "\n".join(visible(line) for line in lines) + "\n"


def _graph_lines(comparison: Comparison) -> list[str]:
    nodes = comparison.nodes
    if nodes.equal:
        return [f"the same graph of {counted_text(len(nodes.pairs), 'recorded node')}"]
    lines = [
        f"recorded nodes: {nodes.same:,} the same, {len(nodes.renamed):,} renamed, {len(nodes.changed):,} changed, "
        f"{len(nodes.only_before):,} only before, {len(nodes.only_after):,} only after"
    ]
    rows = {node: f"  Δ {_pair(comparison, node)}: {'; '.join(words)}" for node, words in nodes.changed.items()}
    changed = [line for node, line in rows.items() if node not in nodes.rewired]
    rewired = [line for node, line in rows.items() if node in nodes.rewired]
    removed = [f"  - {_node(comparison.before, node)}" for node in nodes.only_before]
    added = [f"  + {_node(comparison.after, node)}" for node in nodes.only_after]
    listed = [line for part in (changed, removed, added) for line in _limited(_merge_equal(part))]
    few = _merge_equal(rewired) if len(rewired) <= MAX_ROWS else []
    return lines + listed + few + [f"  {fold.sign} {fold.summary}" for fold in folds(comparison)]


def _pair(comparison: Comparison, node: int) -> str:
    """Return the names and locations of a paired node on both sides, without duplicates."""
    other = comparison.nodes.pairs[node]
    names = dict.fromkeys([comparison.before.label(node), comparison.after.label(other)])
    locations = dict.fromkeys([source_text(comparison.before, node), source_text(comparison.after, other)])
    return ", ".join(part for part in (" → ".join(names), " → ".join(filter(None, locations))) if part)


def _decision_lines(comparison: Comparison) -> list[str]:
    """Return the decisions about the same nodes that changed, and those of one side only."""
    changed, lines = comparison.changed, list[str]()
    if changed:
        pairs = [
            (
                decision_line(comparison.before, comparison.before.decisions[old]),
                decision_line(comparison.after, comparison.after.decisions[new]),
            )
            for old, new in changed.items()
        ]
        rows = [
            f"  {' · '.join(filter(None, [new.stage, new.location]))}: was {old.mark} {old.sentence} [{old.code}], "
            f"now {new.mark} {new.sentence} [{new.code}]"
            for old, new in pairs
        ]
        lines += [f"decisions about the same nodes that changed: {len(changed):,}", *_limited(_merge_equal(rows))]
    for side, recording, paired in (
        ("before", comparison.before, {*comparison.decisions, *changed}),
        ("after", comparison.after, {*comparison.decisions.values(), *changed.values()}),
    ):
        decisions = [decision for number, decision in enumerate(recording.decisions) if number not in paired]
        if decisions:
            lines.append(f"decisions only {side}: {len(decisions):,}")
            lines += _limited([f"  {line}" for line in decision_lines(recording, decisions)])
    return lines


def _kernel_lines(comparison: Comparison) -> list[str]:
    differ = [regrouped for regrouped in comparison.kernels if not regrouped.same]
    same = sum(len(regrouped.before) for regrouped in comparison.kernels if regrouped.same)
    lines = [f"kernels: {same:,} the same, {len(differ):,} {'place' if len(differ) == 1 else 'places'} where not"]
    return lines + _limited(
        [f"  {_side(comparison, regrouped, 0)} → {_side(comparison, regrouped, 1)}" for regrouped in differ]
    )


def _side(comparison: Comparison, regrouped: Regrouped, side: int) -> str:
    recording, numbers = ((comparison.before, regrouped.before), (comparison.after, regrouped.after))[side]
    kernels = []
    scheduled = recording.schedule.kernels if recording.schedule else ()
    for number in numbers[:_MEMBERS]:
        kernel = scheduled[number].nodes
        names = [recording.label(node) for node in kernel[:_MEMBERS]] + ["…"] * (len(kernel) > _MEMBERS)
        kernels.append(f"{number + 1} {' · '.join(names)}")
    rest = len(numbers) - len(kernels)
    return ", ".join(kernels + [f"{rest:,} more"] * bool(rest)) or "nothing"


def _node(recording: Recording, node: int) -> str:
    where = source_text(recording, node)
    return f"{recording.label(node)} {recording.named_type_text(node)}" + (f", {where}" if where else "")


def _merge_equal(lines: list[str]) -> list[str]:
    """Merge equal lines into one line with their count."""
    return [line if count == 1 else f"{line} ×{count:,}" for line, count in Counter(lines).items()]


def _limited(lines: list[str], limit: int = _LISTED) -> list[str]:
    rest = len(lines) - limit
    return lines if rest <= 0 else [*lines[:limit], f"  … and {rest:,} more"]
