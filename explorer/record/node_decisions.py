"""Decisions about nodes: rules that declined before a decision, and reasons why two nodes share a kernel or not.

The explanation of a change to a node often includes the rules that declined to change the node before. The panel, the
text output and ``plan.explain`` show both. ``plan.why(a, b)``, and the panel if two nodes are selected, ask about two
nodes. If no decision concerns both nodes, the answer consists of sentences about the kernel of each node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from explorer.record.reasons import mentioned
from explorer.record.recording import Recording

ACCOUNTS = {
    "kernel": "{node} runs in kernel {number} of {count}: {members}.",
    "kernel_of_several": "{nodes} run in kernel {number} of {count}: {members}.",
    "leaf": "{node} exists before the run, so no kernel computes it.",
    "removed": "{node} is not in the final graph, because nothing reads it.",
    "replaced": "{node} is not in the final graph, because the rule {rule} ({stage}) replaced it with {replacement}.",
    "absorbed": "{node} is not in the final graph, because the rule {rule} ({stage}) replaced {changed}, which is "
    "computed from it, with {replacement}.",
    "replacement": "The replacement runs in kernel {number} of {count}: {members}.",
    "planned": "{node} has no kernel in this recording.",
    "kernels": "{node} is computed {times} times, in the kernels {numbers} of {count}.",
    "reads": "{reader} reads the result of {node} from memory{limits}.",
    "reads_several": "Kernel {reader} reads results of kernel {number} from memory{limits}. It reads {pairs}.",
    "reads_for": "{node} for {reader}",
    "through": "{reader} reads the result of {node} through {members}.",
    "through_planned": "In the final graph, {reader} reads the result of {node} through {members}.",
    "same": "{node} and {reader} run in one kernel, number {number} of {count}.",
    "cut": "On the path from {node} to {reader}, the first two that do not run in one kernel are {first} and {second}: "
    "{reason}",
    "apart": "Neither reads the result of the other, nor anything computed from it.",
}
"""sentences about one node, or about two nodes that are in different kernels and have no common decision"""
_KernelsOf: TypeAlias = Mapping[int, tuple[int, ...]]
_MAX_NAMED = 5
"""maximum number of intermediate nodes that a sentence names; further nodes are only counted"""
_MAX_DECLINED = 40
"""maximum number of declined decisions that are listed before another decision; only the last 40 are listed"""


class PairAnswer(NamedTuple):
    """Answer to the question why two nodes or boxes are not one kernel."""

    cards: list[int]
    """indices of the decisions to show before the sentences"""
    sentences: list[str]
    further: list[int]
    """indices of the decisions to show after the sentences"""
    is_common: bool
    """whether a decision is about both"""


def pair_answer(recording: Recording, nodes: Collection[int], others: Collection[int]) -> PairAnswer:
    """Return the decisions about two nodes, or about the nodes of two operators or boxes, and sentences about kernels.

    The answer about two nodes begins with the decisions that replaced one by another operation, which has another name.
    With more nodes, it begins with the edges between both sides that separate kernels, and other decisions come last.
    """
    numbers, renamed = decisions_between(recording, nodes, others), renamings(recording, nodes, others)
    fusions = [number for number in numbers if is_fusion(recording, number)]
    sentences = [] if fusions else (kernel_answers if numbers else accounts)(recording, nodes, others)
    if len(nodes) == len(others) == 1:
        return PairAnswer([*renamed, *numbers], sentences, [], bool(numbers))
    rest = [number for number in numbers if number not in fusions]
    return PairAnswer(fusions, sentences, [*renamed, *rest], bool(numbers))


def declined_before(recording: Recording) -> list[tuple[int, ...]]:
    """Return, for each decision, the preceding declined decisions about the nodes that the decision changed.

    The declined decisions belong to the same stage, and the list of a decision that was itself declined is empty. At
    most the last 40 are returned, because a value with thousands of readers is the subject of thousands of decisions.
    """
    preceding: list[tuple[int, ...]] = [()] * len(recording.decisions)
    for stage in recording.stages:
        declined: dict[int, list[int]] = {}
        for index in range(stage.first, stage.last):
            decision = recording.decisions[index]
            if decision.verdict == "declined":
                for node in decision.subjects:
                    declined.setdefault(node, []).append(index)
            elif declined:
                earlier = {refusal for node in decision.subjects for refusal in declined.get(node, ())[-_MAX_DECLINED:]}
                preceding[index] = tuple(sorted(earlier)[-_MAX_DECLINED:])
    return preceding


def decisions_about(recording: Recording, node: int) -> list[int]:
    """Return the indices of the decisions about ``node``, and of the declined decisions that precede them, in order."""
    direct = [
        index
        for index, decision in enumerate(recording.decisions)
        if node in decision.subjects or node in decision.produced
    ]
    preceding = declined_before(recording) if direct else []
    return sorted({*direct, *[earlier for index in direct for earlier in preceding[index]]})


def decisions_between(recording: Recording, nodes: Collection[int], others: Collection[int]) -> list[int]:
    """Return the indices of the decisions about two nodes, or about the nodes of two operators, in order.

    A node also represents each of its replacements, and an operation the operations that it became. A declined decision
    is about two nodes if one node reads the other and they were not fused. It is also about two nodes if its sentence
    names one node and its subject is the other. A statement about another compiler is about all its subjects.
    """
    first, second = (_with_replacements(recording, side) for side in (nodes, others))
    # A decision not to fuse has many subjects, and only its edges relate subjects to their readers.
    edges: dict[int, bool] = {}
    for index, operand, reader in recording.declined_edges:
        connects = (operand in first and reader in second) or (operand in second and reader in first)
        edges[index] = edges.get(index, False) or connects
    return [
        index
        for index, decision in enumerate(recording.decisions)
        if (edges[index] if index in edges else _names_both(recording, index, first, second))
        or (index in recording.authors and _on_both_sides({*decision.subjects}, first, second))
    ]


def _with_replacements(recording: Recording, nodes: Collection[int]) -> set[int]:
    """Return nodes with all their replacements, and the operations that each one became: ``gelu`` with its ``erf``."""
    replacement = {old: new for _, old, new in recording.substitutions}
    pending = list(nodes)
    reached: set[int] = set()
    for node in pending:
        if node not in reached:
            reached.add(node)
            if node in replacement:
                pending.append(replacement[node])
            gone = recording.nodes.gone[node]
            if gone >= 0 and recording.decisions[gone].subjects == (node,):
                pending += recording.decisions[gone].produced
    return reached


def renamings(recording: Recording, nodes: Collection[int], others: Collection[int]) -> list[int]:
    """Return the indices of the decisions that replaced a node by one with another label, or introduced it, in order.

    Decisions about both nodes are left out, and so are operators and boxes with many nodes.
    """
    replaced_by = {old: (index, new) for index, old, new in recording.substitutions}
    replaces = {new: (index, old) for index, old, new in reversed(recording.substitutions)}
    found = set()
    for side in (nodes, others):
        for node in side if len(side) <= _MAX_NAMED else ():
            for step in (replaced_by, replaces):
                at = node
                while at in step:
                    index, following = step[at]
                    if recording.label(at) != recording.label(following):
                        found.add(index)
                    at = following
    return sorted(found - {*decisions_between(recording, nodes, others)})


def _names_both(recording: Recording, index: int, first: set[int], second: set[int]) -> bool:
    decision = recording.decisions[index]
    if recording.stages[decision.stage].kind != "rewrite":
        return False
    subjects = {*decision.subjects, *decision.produced}
    named_nodes = {*mentioned(decision.reason, decision.facts)}
    if decision.verdict == "applied":
        return _on_both_sides(subjects | named_nodes, first, second)
    return bool(
        (subjects & first and named_nodes & second - first) or (subjects & second and named_nodes & first - second)
    )


def _on_both_sides(nodes: set[int], first: set[int], second: set[int]) -> bool:
    """Return whether ``nodes`` contains two different nodes, one in ``first`` and one in ``second``."""
    return bool(nodes & first and nodes & second) and len(nodes & (first | second)) > 1


def accounts(recording: Recording, nodes: Collection[int], others: Collection[int]) -> list[str]:
    """Return sentences that say in which kernels two nodes run and, if these differ, why."""
    final, kernels_of = recording.resolver(recording.end), recording.kernels_of()
    answers = kernel_answers(recording, nodes, others)
    sentences = _node_sentences(recording, nodes, others, final, kernels_of)
    return [*dict.fromkeys([*answers, *sentences]), *_relation(recording, nodes, others, final)]


def _node_sentences(
    recording: Recording,
    nodes: Collection[int],
    others: Collection[int],
    final: Mapping[int, int],
    kernels_of: _KernelsOf,
) -> list[str]:
    """Return a sentence about the kernel of each node; nodes that one kernel computes share a sentence."""
    described = [node for side in (nodes, others) for node in _computed(side, final, kernels_of)]
    removed = [node for node in described if recording.nodes.gone[final.get(node, node)] >= 0]
    paths = _paths_to_replacements(recording, removed, final)
    name = node_names(recording)
    together: dict[int, dict[str, None]] = {}
    """kernel → the names of the nodes that only it computes"""
    only = {node: kernels[0] for node in described if len(kernels := kernels_of.get(final.get(node, node), ())) == 1}
    for node, kernel in only.items():
        together.setdefault(kernel, {})[name(node)] = None

    def sentence(node: int) -> str:
        if len(names := together.get(only.get(node, -1), {})) < 2:
            return _node_sentence(recording, node, final, kernels_of, paths, name)
        words = _kernel_words(recording, only[node])
        return ACCOUNTS["kernel_of_several"].format(nodes=", ".join(_named([*names])), **words)

    return list(dict.fromkeys(map(sentence, described)))


def _computed(nodes: Collection[int], final: Mapping[int, int], kernels_of: _KernelsOf) -> Collection[int]:
    """Return the nodes of an operator that kernels compute, without its weights; all nodes if there are none."""
    return [node for node in nodes if final.get(node, node) in kernels_of] or nodes


def node_names(recording: Recording) -> Callable[[int], str]:
    """Return a function from nodes to labels, with the operator's name for a file: ``relu (node_relu_1)``.

    The name includes the boxes around the operator if others have its last part: ``conv2d (conv1 / Conv)``. If several
    recorded operations have a label, it returns their variables or else numbers: ``matmul (no. 2)``.
    """
    operators = Counter(scope.name for scope in recording.scopes if scope.type)
    of_label: dict[str, list[int]] = {}
    for node, (kind, born) in enumerate(zip(recording.nodes.kind, recording.nodes.born, strict=True)):
        if kind == "operation" and born < 0:
            of_label.setdefault(recording.label(node), []).append(node)
    counts = Counter(
        (recording.label(node), recording.variables.get(node)) for nodes in of_label.values() for node in nodes
    )
    numbers = {node: number for nodes in of_label.values() for number, node in enumerate(nodes, 1)}

    def name(node: int) -> str:
        label, row = recording.label(node), recording.nodes.scope[node]
        while row >= 0 and not recording.scopes[row].type:
            row = recording.scopes[row].parent
        if row >= 0:
            own = recording.scopes[row].name
            if operators[own] > 1:
                own = " / ".join(_box_names(recording, row))
            return label if own == label else f"{label} ({own})"
        if len(of_label.get(label, ())) < 2:
            return label
        variable = recording.variables.get(node)
        if variable and counts[label, variable] < 2:
            return f"{label} ({variable})"
        return f"{label} (no. {numbers[node]:,})" if node in numbers else label

    return name


def replacements(recording: Recording, node: int) -> list[tuple[int, int]]:
    """Return (decision, new node) of each replacement of a node, of the node that replaced it, and so on."""
    direct = {old: (index, new) for index, old, new in reversed(recording.substitutions)}
    chain = []
    while node in direct:
        chain.append(direct[node])
        node = direct[node][1]
    return chain


class Absorption(NamedTuple):
    """Replacement because of which a removed node is not needed."""

    decision: int
    changed: int
    """replaced node, which is computed from the removed one"""
    new: int
    """node that replaced it"""
    result: int
    """first node of the final graph that is computed in place of the readers of the removed node"""


def absorption(recording: Recording, node: int) -> Absorption | None:
    """Return the replacement because of which a removed node, or its last replacement, is not needed.

    The result is None if no requested result depends on ``node``, or if the node is in the final graph.
    """
    final = recording.resolver(recording.end)
    last = final.get(node, node)
    if recording.nodes.gone[last] < 0:
        return None
    path = list(_paths_to_replacements(recording, [last], final).get(last, ()))
    for changed in path:
        if chain := replacements(recording, changed):
            return Absorption(chain[-1][0], changed, chain[-1][1], final.get(path[-1], path[-1]))
    return None


def _box_names(recording: Recording, row: int) -> list[str]:
    """Return the names of a box and of the boxes around it, outermost first."""
    names: list[str] = []
    while row >= 0:
        names.append(recording.scopes[row].name)
        row = recording.scopes[row].parent
    return [name for name in reversed(names) if name]


def is_fusion(recording: Recording, number: int) -> bool:
    """Return whether the decision with index ``number`` determines which nodes run in one kernel."""
    return recording.stages[recording.decisions[number].stage].decides == "kernels"


def kernel_answers(recording: Recording, nodes: Collection[int], others: Collection[int]) -> list[str]:
    """Return sentences about whether two nodes run in one kernel.

    If they do not, the sentences explain at which edge of the path between them the kernels are separated, and why. If
    there is no such edge, for example because a node is not in the final graph, they describe the kernel of each node.
    """
    final, kernels_of = recording.resolver(recording.end), recording.kernels_of()
    fuses = any(stage.decides == "kernels" for stage in recording.stages)
    pairs = [
        pair
        for sources, readers in (((nodes, others), (others, nodes)) if fuses else ())
        for pair in _read_from_memory(recording, sources, readers, final, kernels_of)
    ]
    if pairs:
        return _read_sentences(recording, pairs, final, kernels_of)
    if shared := _shared_kernel(recording, nodes, others, final, kernels_of):
        return [shared]
    separation = _first_separation(recording, nodes, others, final, kernels_of) if fuses else []
    return separation or _node_sentences(recording, nodes, others, final, kernels_of)


def _read_sentences(
    recording: Recording, pairs: Sequence[tuple[int, int]], final: Mapping[int, int], kernels_of: _KernelsOf
) -> list[str]:
    """Return sentences about pairs (node, reader) in different kernels; pairs in the same kernels share a sentence."""
    name, limits = node_names(recording), kernel_limits(recording)
    between: dict[tuple[tuple[int, ...], ...], dict[tuple[str, str], None]] = {}
    for pair in pairs:
        kernels = tuple([kernels_of[final.get(node, node)] for node in pair])
        between.setdefault(kernels, {})[name(pair[0]), name(pair[1])] = None
    sentences = []
    for (sources, readers), named in between.items():
        if len(named) == 1 or len(sources) > 1 or len(readers) > 1:
            sentences += [ACCOUNTS["reads"].format(node=node, reader=reader, limits=limits) for node, reader in named]
            continue
        rows = [ACCOUNTS["reads_for"].format(node=node, reader=reader) for node, reader in named]
        words = {"number": f"{sources[0] + 1:,}", "reader": f"{readers[0] + 1:,}", "pairs": ", ".join(_named(rows))}
        sentences.append(ACCOUNTS["reads_several"].format(**words, limits=limits))
    return sentences


def _named(names: Sequence[str]) -> list[str]:
    """Return the first names and the last one, with the number of names omitted between them."""
    rest = len(names) - _MAX_NAMED
    return [*names[: _MAX_NAMED - 1], f"{rest:,} more", names[-1]] if rest > 1 else [*names]


def kernel_limits(recording: Recording) -> str:
    """Return what a kernel can contain, after a colon, as the stage that decides the kernels declares it."""
    limits = next((stage.limits for stage in recording.stages if stage.decides == "kernels" and stage.limits), "")
    return f": {limits}" if limits else ""


def _shared_kernel(
    recording: Recording,
    nodes: Collection[int],
    others: Collection[int],
    final: Mapping[int, int],
    kernels_of: _KernelsOf,
) -> str:
    """Return a sentence about the first two nodes, one from each side, in the same kernel; "" if there are none."""
    name = node_names(recording)
    first: dict[int, int] = {}
    for node in nodes:
        for kernel in kernels_of.get(final.get(node, node), ()):
            first.setdefault(kernel, node)
    for other in others:
        last = final.get(other, other)
        for kernel in kernels_of.get(last, ()):
            if kernel in first and final.get(first[kernel], first[kernel]) != last:
                words = {"node": name(first[kernel]), "reader": name(other)}
                count = f"{len(recording.schedule.kernels):,}" if recording.schedule else ""
                return ACCOUNTS["same"].format(**words, number=f"{kernel + 1:,}", count=count)
    return ""


def _first_separation(
    recording: Recording,
    nodes: Collection[int],
    others: Collection[int],
    final: Mapping[int, int],
    kernels_of: _KernelsOf,
) -> list[str]:
    """Return a sentence about the first two adjacent nodes on the path that run in different kernels.

    The path connects ``nodes`` and ``others``.
    """
    name = node_names(recording)
    declined = {
        (final.get(operand, operand), final.get(reader, reader)): number
        for number, operand, reader in recording.declined_edges
        if is_fusion(recording, number)
    }
    for readers, sources in ((others, nodes), (nodes, others)):
        first, last = (dict.fromkeys(final.get(node, node) for node in side) for side in (readers, sources))
        path = _path(recording, first, last, final)
        for node, reader in pairwise(path):
            if _in_different_kernels(kernels_of, node, reader):
                words = {"first": name(node), "second": name(reader)}
                number = declined.get((node, reader), -1)
                reason = (
                    recording.reason(recording.decisions[number]).replace("`", "")
                    if number >= 0
                    else ACCOUNTS["reads"].format(
                        node=words["first"], reader=words["second"], limits=kernel_limits(recording)
                    )
                )
                ends = {"node": name(path[0]), "reader": name(path[-1])}
                return [ACCOUNTS["cut"].format(**ends, **words, reason=reason)]
        if path:
            return []
    return []


def _relation(
    recording: Recording, nodes: Collection[int], others: Collection[int], final: Mapping[int, int]
) -> list[str]:
    """Return a sentence about the path on which one node reads another, or about its absence.

    The path may exist as recorded, or in the final graph.
    """
    name = node_names(recording)
    unchanged: Mapping[int, int] = {}
    for sentence, resolved in (("through", unchanged), ("through_planned", final)):
        for readers, sources in ((others, nodes), (nodes, others)):
            first, last = (dict.fromkeys(resolved.get(node, node) for node in side) for side in (readers, sources))
            path = _path(recording, first, last, resolved)
            if len(path) > 2:
                members = " → ".join(_named([*map(recording.label, path[1:-1])]))
                fields = {"reader": name(path[-1]), "node": name(path[0]), "members": members}
                return [ACCOUNTS[sentence].format(**fields)]
            if path:
                return []
    return [ACCOUNTS["apart"]]


def _path(
    recording: Recording, readers: Collection[int], sources: Collection[int], resolved: Mapping[int, int]
) -> list[int]:
    """Return a shortest path from a source to a reader, along operands or their replacements; [] if there is none."""
    successor = dict.fromkeys(readers, -1)
    pending = list(successor)
    for node in pending:
        if node in sources:
            path = [node]
            while successor[path[-1]] >= 0:
                path.append(successor[path[-1]])
            return path
        for recorded in recording.nodes.operands[node]:
            operand = resolved.get(recorded, recorded)
            if operand not in successor:
                successor[operand] = node
                pending.append(operand)
    return []


def _in_different_kernels(kernels_of: _KernelsOf, node: int, reader: int) -> bool:
    """Return whether kernels compute both nodes, and no kernel computes both."""
    return {node, reader} <= kernels_of.keys() and set(kernels_of[node]).isdisjoint(kernels_of[reader])


def _read_from_memory(
    recording: Recording,
    nodes: Collection[int],
    readers: Collection[int],
    final: Mapping[int, int],
    kernels_of: _KernelsOf,
) -> list[tuple[int, int]]:
    """Return the pairs (node, reader), in node order, for which the reader's kernel reads a node of another kernel."""
    # Iterate over operands instead of pairs, because two boxes with thousands of nodes have millions of pairs.
    positions: dict[int, list[int]] = {}
    sources = list(nodes)
    for position, node in enumerate(sources):
        positions.setdefault(final.get(node, node), []).append(position)
    pairs: list[tuple[int, int, int]] = []
    for reader_position, reader in enumerate(readers):
        last = final.get(reader, reader)
        for operand in {final.get(operand, operand) for operand in recording.nodes.operands[last]}:
            if _in_different_kernels(kernels_of, last, operand):
                pairs += [(position, reader_position, reader) for position in positions.get(operand, ())]
    return [(sources[position], reader) for position, _, reader in sorted(pairs)]


def _node_sentence(
    recording: Recording,
    node: int,
    final: Mapping[int, int],
    kernels_of: _KernelsOf,
    paths: Mapping[int, Sequence[int]],
    name: Callable[[int], str],
) -> str:
    """Return a sentence about the kernel that computes ``node``, or about the reason why no kernel does."""
    last = final.get(node, node)
    if last in kernels_of and recording.schedule:
        numbers, kernels = kernels_of[last], recording.schedule.kernels
        if len(numbers) > 1:
            words = {"node": name(node), "count": f"{len(kernels):,}"}
            named = [f"{kernel + 1:,}" for kernel in numbers[:_MAX_NAMED]] + ["…"] * (len(numbers) > _MAX_NAMED)
            return ACCOUNTS["kernels"].format(**words, times=f"{len(numbers):,}", numbers=", ".join(named))
        return ACCOUNTS["kernel"].format(node=name(node), **_kernel_words(recording, numbers[0]))
    if path := paths.get(node):
        return _replaced_sentence(recording, path, kernels_of.get(final.get(path[-1], path[-1]), ()), name)
    is_leaf = recording.nodes.kind[last] in ("leaf", "input", "constant")
    state = "leaf" if is_leaf else "removed" if recording.nodes.gone[last] >= 0 else "planned"
    return ACCOUNTS[state].format(node=name(node))


def _kernel_words(recording: Recording, kernel: int) -> dict[str, str]:
    """Return the words of a sentence about a kernel, given by its index in the schedule."""
    kernels = recording.schedule.kernels if recording.schedule else ()
    members = " → ".join(map(recording.label, kernels[kernel].nodes))
    return {"number": f"{kernel + 1:,}", "count": f"{len(kernels):,}", "members": members}


def _replaced_sentence(
    recording: Recording, path: Sequence[int], kernels: Sequence[int], name: Callable[[int], str]
) -> str:
    """Return which rule replaced a removed node, or what is computed from it, and with what.

    ``path`` leads from the node to one whose replacement is in the final graph, and ``kernels`` compute that.
    """
    replacements = {old: (index, new) for index, old, new in reversed(recording.substitutions)}
    changed = next(node for node in path if node in replacements)
    index, new = replacements[changed]
    decision = recording.decisions[index]
    words = {
        "node": name(path[0]),
        "changed": name(changed),
        "rule": decision.rule,
        "stage": recording.stages[decision.stage].name,
        "replacement": recording.label(new),
    }
    sentence = ACCOUNTS["replaced" if changed == path[0] else "absorbed"].format(**words)
    runs = [ACCOUNTS["replacement"].format(**_kernel_words(recording, kernel)) for kernel in kernels[:1]]
    return " ".join([sentence, *runs])


def _paths_to_replacements(
    recording: Recording, removed: Collection[int], final: Mapping[int, int]
) -> dict[int, list[int]]:
    """Return, for each removed node, a shortest path along readers to one whose replacement is in the final graph.

    A node is left out if no rule replaced it or anything computed from it, because no requested result depends on it.
    """
    readers: dict[int, list[int]] = {}
    for reader, operands in enumerate(recording.nodes.operands if removed else ()):
        for operand in operands:
            readers.setdefault(final.get(operand, operand), []).append(reader)
    paths = {node: _path_to_replacement(recording, node, final, readers) for node in removed}
    return {node: path for node, path in paths.items() if not final.keys().isdisjoint(path)}


def _path_to_replacement(
    recording: Recording, node: int, final: Mapping[int, int], readers: Mapping[int, Sequence[int]]
) -> list[int]:
    previous = {node: -1}
    pending = [node]
    for current in pending:
        last = final.get(current, current)
        if recording.nodes.gone[last] < 0:
            path = [current]
            while previous[path[-1]] >= 0:
                path.append(previous[path[-1]])
            return path[::-1]
        for reader in readers.get(last, ()):
            if reader not in previous:
                previous[reader] = current
                pending.append(reader)
    return []
