"""Answers to "why?" as text: the history and final state of a node, and the decisions about two nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence, Set

from explorer.record import Decision, Recording
from explorer.record.escape import visible
from explorer.record.node_decisions import absorption, decisions_about, pair_answer, replacements
from explorer.record.reasons import counted_text, fact_text
from explorer.view.export.decision_lines import DecisionLine, decision_line
from explorer.view.export.text import kernel_line
from explorer.view.model.decision_facts import fact_labels, note
from explorer.view.tree.scopes import scope_path

_KERNELS = 8
"""maximum number of listed kernels that compute a node together with other nodes"""


def why(recording: Recording, node: int) -> str:
    """Return the history of a node as text: the decisions about it with their facts, and its final state.

    Raise ValueError for an id that is not in the recording.
    """
    if not 0 <= node < len(recording.nodes):
        raise ValueError(f"node {node} is not in this recording: it has nodes 0 to {len(recording.nodes) - 1}")
    lines = [f"{recording.named_label(node)} · {recording.named_type_text(node)}", *_origins(recording, [node])]
    lines += _decision_lines(recording, [node]) or ["no rule matched this node"]
    lines += [*_gradients(recording, node), *_final_state(recording, node)]
    return "\n".join(visible(line) for line in lines) + "\n"


def why_operator(recording: Recording, name: str, nodes: Sequence[int]) -> str:
    """Return the common history of an operator's nodes as text.

    Each decision and each kernel is listed once; nodes without decisions share the last line.
    """
    if len(nodes) == 1:
        return why(recording, nodes[0])
    lines = [
        f"{name}: {counted_text(len(nodes), 'node')}",
        *_origins(recording, nodes),
        *_decision_lines(recording, nodes),
    ]
    ends: dict[str, list[str]] = {}
    """line about the final state of a node → the nodes that it describes"""
    undecided = []
    for node in nodes:
        if decisions_about(recording, node):
            for line in _gradients(recording, node) + _final_state(recording, node):
                ends.setdefault(line, []).append(recording.label(node))
        else:
            undecided.append(recording.label(node))
    lines += [
        line if line.startswith(("kernel ", "computed in kernel ")) else f"{', '.join(of)}: {line}"
        for line, of in ends.items()
    ]
    if undecided:
        lines.append(f"no rule matched {', '.join(dict.fromkeys(undecided))}")
    return "\n".join(visible(line) for line in lines) + "\n"


def why_pair(recording: Recording, nodes: Sequence[int], others: Sequence[int], names: Sequence[str] = ("", "")) -> str:
    """Return the decisions about both of two nodes or operators as text, or else the final state of each.

    ``names`` are the names given by the reader, empty for nodes. Raise ValueError for an unknown id.
    """
    count = len(recording.nodes)
    if wrong := [node for node in (*nodes, *others) if not 0 <= node < count]:
        raise ValueError(f"node {wrong[0]} is not in this recording: it has nodes 0 to {count - 1}")
    answer = pair_answer(recording, nodes, others)
    missing = [] if answer.is_common else ["no decision is about both"]
    cards, further = (_counted_lines(recording, numbers) for numbers in (answer.cards, answer.further))
    lines = [*cards, *missing, *answer.sentences, *further]
    labels = [
        name or ", ".join(dict.fromkeys(map(recording.named_label, side)))
        for name, side in zip(names, (nodes, others), strict=True)
    ]
    return "\n".join(visible(line) for line in [" and ".join(labels), *[f"  {line}" for line in lines]]) + "\n"


def _counted_lines(recording: Recording, numbers: Sequence[int]) -> list[str]:
    """List decisions with their authors; equal ones are counted: ``… [library] ×2``."""
    counts = Counter(
        (decision_line(recording, recording.decisions[number]), tuple(_author_lines(recording, number)))
        for number in numbers
    )
    return [part for (line, authors), count in counts.items() for part in (str(line._replace(times=count)), *authors)]


def _origins(recording: Recording, nodes: Sequence[int]) -> list[str]:
    """List the lines and scopes in which nodes were recorded, without duplicates."""
    sources = [recording.sources[row] for node in nodes if (row := recording.nodes.source[node]) >= 0]
    scopes = [" / ".join(scope_path(recording, node)) for node in nodes]
    lines = [f"recorded at {source.location}: {source.text.strip()}" for source in sources]
    lines += [note for node in nodes if (note := recording.variable_note(node))]
    lines += [f"scope {scope}" for scope in scopes if scope]
    declared = [recording.dimensions[node] for node in nodes if node in recording.dimensions]
    lines += [f"declared as {row.shape}: {row.origin}" for row in declared]
    return list(dict.fromkeys([*lines, *_compositions(recording, set(nodes))]))


def _compositions(recording: Recording, nodes: Set[int]) -> list[str]:
    """List the known functions that contain nodes: ``part of GELU of x: 5 operations, the last is multiply``."""
    label, lines = recording.label, []
    for row in recording.compositions:
        if not nodes.isdisjoint(row.members):
            operand = f" of {label(row.operand)}" if row.operand >= 0 else ""
            count = f"{counted_text(len(row.members), 'operation')}, the last is {label(row.node)}"
            lines.append(f"part of {row.name}{operand}: {count}")
    return lines


def _decision_lines(recording: Recording, nodes: Sequence[int]) -> list[str]:
    """List the decisions about nodes in order, each with its facts.

    Facts of a stage that plans memory are omitted unless the decision is only about ``nodes``.
    """
    lines = []
    for number in sorted({number for node in nodes for number in decisions_about(recording, node)}):
        decision = recording.decisions[number]
        lines.append(f"  {_line(recording, decision)}")
        if recording.stages[decision.stage].kind not in ("memory", "format") or set(decision.subjects) <= set(nodes):
            lines += _fact_lines(recording, number)
    return lines


def _line(recording: Recording, decision: Decision) -> DecisionLine:
    """Return the line of a decision with its rule's module, and without the location, which the heading contains."""
    line = decision_line(recording, decision)
    # Without the line number, since an edit above a rule would change every text that mentions the rule.
    module = re.sub(r":\d+$", "", decision.location)
    return line._replace(location="", rule=f"{line.rule} ({module})" if module else line.rule)


def _fact_lines(recording: Recording, number: int) -> list[str]:
    """List the facts of a decision, and who states it; for a measured batch, estimates are marked."""
    decision = recording.decisions[number]
    labels = fact_labels(decision)
    lines = [
        f"      {labels[name]}: {fact_text(name, value, recording.label)}" for name, value in decision.facts.items()
    ]
    lines += _author_lines(recording, number)
    return [*lines, f"      {note(decision)}"] if note(decision) else lines


def _gradients(recording: Recording, node: int) -> list[str]:
    """Describe the gradient of a node, the values saved for it, and the gradient that the node is part of."""
    lines = []
    for row in recording.gradients:
        if row.node == node:
            saved = ", ".join(map(recording.label, row.saved)) or "nothing"
            lines.append(f"gradient: {', '.join(map(recording.label, row.backward))}; saved for it: {saved}")
        elif node in row.backward:
            lines.append(f"part of the gradient of {recording.label(row.node)}")
    return lines


def _batched_nodes(recording: Recording, node: int) -> tuple[int, ...]:
    """Return the batched nodes that replace a node; empty if it was not batched."""
    gone = recording.nodes.gone[node]
    is_batched = any(group.decision == gone and group.kind == "batch" for group in recording.groups)
    return recording.decisions[gone].produced if is_batched else ()


def _author_lines(recording: Recording, number: int) -> list[str]:
    """Return a line with the author of a decision; none for Explorer's own planner."""
    author = recording.authors.get(number)
    return [] if author is None else [f"      stated by: {author}"]


def _code_lines(recording: Recording, kernel: int, node: int) -> list[str]:
    """List the lines of a kernel's code that compute a node, with their numbers."""
    code = recording.codes.get(kernel)
    if code is None:
        return []
    text = code.text.expandtabs(4).split("\n")
    numbers = sorted({line for line, computed in code.lines if computed == node})
    return [f"    {code.language} {number}: {text[number - 1]}" for number in numbers]


def _replacement(recording: Recording, decision: int, new: int) -> str:
    """Return ``replaced by softmax (rule SoftmaxPattern, stage simplify)``, or ``merged into …`` for equal nodes."""
    row = recording.decisions[decision]
    stage = recording.stages[row.stage]
    verb = "merged into" if stage.decides == "merging" else "replaced by"
    return f"{verb} {recording.label(new)} (rule {row.rule}, stage {stage.name})"


def _final_state(recording: Recording, node: int) -> list[str]:
    """Describe the node's final state and the kernels that compute it."""
    nodes = recording.nodes
    final = recording.resolver(recording.end).get(node, node)
    account = recording.provenance.nodes.get(node)
    lines = []
    if chain := replacements(recording, node):
        lines.append("; then ".join([_replacement(recording, *step) for step in chain]))
    elif batched := _batched_nodes(recording, node):
        lines.append(
            f"in the final graph it is a row of {recording.label(batched[0])} · {recording.named_type_text(batched[0])}"
        )
    if row := absorption(recording, node):
        it = f"{recording.label(final)} is" if final != node else ""
        lines.append(
            f"{it} absorbed: {recording.label(row.changed)}, which is computed from it, is".lstrip()
            + f" {_replacement(recording, row.decision, row.new)}"
        )
    elif nodes.gone[final] >= 0 and not _batched_nodes(recording, final):
        stage = recording.stages[recording.decisions[nodes.gone[final]].stage]
        lines.append(f"removed in the stage {stage.name}: nothing reads it")
    kernels = recording.schedule.kernels if recording.schedule else ()
    own = [number for number, kernel in enumerate(kernels) if final in kernel.nodes]
    for number in own:
        lines.append(f"kernel {kernel_line(recording, number + 1, kernels[number]).strip()}")
        lines += _code_lines(recording, number, final)
    others = [number for number in account.kernels if number not in own] if account is not None else []
    if row:  # the kernel of the result, rather than those that compute parts of it, such as a product of weights
        others = list(recording.kernels_of().get(row.result, others))
    for number in others[:_KERNELS]:
        lines.append(f"computed in kernel {kernel_line(recording, number + 1, kernels[number]).strip()}")
    if len(others) > _KERNELS:
        lines.append(f"and in {counted_text(len(others) - _KERNELS, 'more kernel')}")
    return lines
