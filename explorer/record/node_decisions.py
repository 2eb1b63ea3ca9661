"""Decisions about nodes: rules declined before a decision, and why two nodes run in one kernel or in two.

The reason why a node was changed often includes the rules that were asked before and declined. Panel, text output and
``plan.explain`` show both; ``plan.why(a, b)``, and the panel with two selected nodes, ask about two nodes. If no
decision concerns both, sentences about the kernel of each node are the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from explorer.record.reasons import mentioned
from explorer.record.recording import Recording

ACCOUNTS = {
    "kernel": "{node} runs in kernel {number} of {count}: {members}.",
    "leaf": "{node} exists before the run, so no kernel computes it.",
    "removed": "{node} is not in the final graph, because nothing reads it.",
    "planned": "{node} has no kernel in this recording.",
    "reads": "{reader} reads the result of {node} from memory: a kernel fuses elementwise operations, with at most one "
    "product, convolution or pooling before them, or one reduction behind them.",
    "through": "{reader} reads the result of {node} through {members}.",
    "through_planned": "In the final graph, {reader} reads the result of {node} through {members}.",
    "apart": "Neither reads the result of the other, nor anything computed from it.",
}
"""sentences about one node, or about two nodes in two kernels without a common decision"""
_NAMED = 5
"""maximum number of intermediate nodes that are named; more are counted"""
_MOST = 40
"""maximum number of declined decisions listed before one decision: the last ones"""


def declined_before(recording: Recording) -> list[tuple[int, ...]]:
    """Return, for each decision, the preceding declined ones of its stage about the nodes that it changed.

    Only applied decisions have any. At most the last 40 are kept: a value that thousands of operations read is the
    subject of thousands of decisions.
    """
    before: list[tuple[int, ...]] = [()] * len(recording.decisions)
    for stage in recording.stages:
        declined: dict[int, list[int]] = {}
        for number in range(stage.first, stage.last):
            decision = recording.decisions[number]
            if decision.verdict == "declined":
                for node in decision.subjects:
                    declined.setdefault(node, []).append(number)
            elif declined:
                earlier = {refusal for node in decision.subjects for refusal in declined.get(node, ())[-_MOST:]}
                before[number] = tuple(sorted(earlier)[-_MOST:])
    return before


def decisions_about(recording: Recording, node: int) -> list[int]:
    """Return the indices of the decisions about a node, each after the declined ones that precede it."""
    own = [
        number
        for number, decision in enumerate(recording.decisions)
        if node in decision.subjects or node in decision.produced
    ]
    before = declined_before(recording) if own else []
    return sorted({*own, *[earlier for number in own for earlier in before[number]]})


def decisions_between(recording: Recording, nodes: Collection[int], others: Collection[int]) -> list[int]:
    """Return the indices of the decisions about two nodes, or about the nodes of two operators, in order.

    A node also represents its replacements. A declined decision is about two nodes if one reads the other and they were
    not fused, or if its sentence names one and its subject is the other.
    """
    final = recording.resolver(recording.end)
    first, second = ({*side, *(final.get(node, node) for node in side)} for side in (nodes, others))
    # A decision not to fuse has many subjects; only its edges show which of them read which.
    edges: dict[int, bool] = {}
    for number, operand, reader in recording.declined_edges:
        between = (operand in first and reader in second) or (operand in second and reader in first)
        edges[number] = edges.get(number, False) or between
    return [
        number
        for number, decision in enumerate(recording.decisions)
        if (edges[number] if number in edges else _names_both(recording, number, first, second))
    ]


def _names_both(recording: Recording, number: int, first: set[int], second: set[int]) -> bool:
    decision = recording.decisions[number]
    if recording.stages[decision.stage].kind != "rewrite":
        return False
    subjects = {*decision.subjects, *decision.produced}
    named = {*mentioned(decision.reason, decision.facts)}
    if decision.verdict == "applied":
        return _meets(subjects | named, first, second)
    return bool((subjects & first and named & second - first) or (subjects & second and named & first - second))


def _meets(nodes: set[int], first: set[int], second: set[int]) -> bool:
    """Return whether there are two different nodes, one on each side."""
    return bool(nodes & first and nodes & second) and len(nodes & (first | second)) > 1


def accounts(recording: Recording, nodes: Collection[int], others: Collection[int]) -> list[str]:
    """Return sentences about why a node and its reader run in different kernels, and which kernels these are."""
    final, kernel_of = recording.resolver(recording.end), _kernel_of(recording)
    became = dict.fromkeys(_account(recording, node, final, kernel_of) for node in (*nodes, *others))
    fuses = any(stage.name == "fuse" for stage in recording.stages)
    pairs = [
        pair
        for sources, readers in (((nodes, others), (others, nodes)) if fuses else ())
        for pair in _read_from_memory(recording, sources, readers, final, kernel_of)
    ]
    apart = [
        ACCOUNTS["reads"].format(node=recording.label(node), reader=recording.label(reader)) for node, reader in pairs
    ]
    return [*dict.fromkeys(apart), *became, *_relation(recording, nodes, others, final)]


def _relation(
    recording: Recording, nodes: Collection[int], others: Collection[int], final: Mapping[int, int]
) -> list[str]:
    """Describe how one node reads another through others, or that it does not: as recorded, or after merging equal
    values."""
    unchanged: Mapping[int, int] = {}
    for sentence, resolved in (("through", unchanged), ("through_planned", final)):
        for readers, sources in ((others, nodes), (nodes, others)):
            first, last = (dict.fromkeys(resolved.get(node, node) for node in side) for side in (readers, sources))
            path = _path(recording, first, last, resolved)
            if len(path) > 2:
                between = path[1:-1]
                rest = len(between) - _NAMED
                shown = between if rest <= 1 else between[: _NAMED - 1]
                names = [*map(recording.label, shown), *[f"{rest:,} more", recording.label(between[-1])] * (rest > 1)]
                members = " → ".join(names)
                words = {"reader": recording.label(path[-1]), "node": recording.label(path[0]), "members": members}
                return [ACCOUNTS[sentence].format(**words)]
            if path:
                return []
    return [ACCOUNTS["apart"]]


def _path(
    recording: Recording, readers: Collection[int], sources: Collection[int], resolved: Mapping[int, int]
) -> list[int]:
    """Return a shortest path from a source to a reader along operands or their replacements; empty if there is none."""
    reached = dict.fromkeys(readers, -1)
    waiting = list(reached)
    for node in waiting:
        if node in sources:
            path = [node]
            while reached[path[-1]] >= 0:
                path.append(reached[path[-1]])
            return path
        for recorded in recording.nodes.operands[node]:
            operand = resolved.get(recorded, recorded)
            if operand not in reached:
                reached[operand] = node
                waiting.append(operand)
    return []


def _kernel_of(recording: Recording) -> dict[int, int]:
    kernels = recording.schedule.kernels if recording.schedule else ()
    return {node: number for number, kernel in enumerate(kernels, 1) for node in kernel.nodes}


def _read_from_memory(
    recording: Recording,
    nodes: Collection[int],
    readers: Collection[int],
    final: Mapping[int, int],
    kernel_of: Mapping[int, int],
) -> list[tuple[int, int]]:
    """Return the (node, reader) pairs in which the reader's kernel reads a node of another kernel, in node order."""
    # Iterate over operands instead of pairs: two boxes with thousands of nodes have millions of pairs.
    places: dict[int, list[int]] = {}
    sources = list(nodes)
    for place, node in enumerate(sources):
        places.setdefault(final.get(node, node), []).append(place)
    pairs: list[tuple[int, int, int]] = []
    for number, reader in enumerate(readers):
        last = final.get(reader, reader)
        for operand in {final.get(operand, operand) for operand in recording.nodes.operands[last]}:
            if {last, operand} <= kernel_of.keys() and kernel_of[last] != kernel_of[operand]:
                pairs += [(place, number, reader) for place in places.get(operand, ())]
    return [(sources[place], reader) for place, _, reader in sorted(pairs)]


def _account(recording: Recording, node: int, final: Mapping[int, int], kernel_of: Mapping[int, int]) -> str:
    """Return a sentence about a node's fate: the kernel that computes it, or why no kernel does."""
    last = final.get(node, node)
    if last in kernel_of and recording.schedule:
        number, kernels = kernel_of[last], recording.schedule.kernels
        members = " → ".join(map(recording.label, kernels[number - 1].nodes))
        return ACCOUNTS["kernel"].format(
            node=recording.label(node), number=f"{number:,}", count=f"{len(kernels):,}", members=members
        )
    is_leaf = recording.nodes.kind[last] in ("leaf", "input", "constant")
    state = "leaf" if is_leaf else "removed" if recording.nodes.gone[last] >= 0 else "planned"
    return ACCOUNTS[state].format(node=recording.label(node))
