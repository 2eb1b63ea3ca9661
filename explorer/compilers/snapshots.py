"""Recording of a compiler's passes, made from snapshots of its graph.

An adapter gives one `Snapshot` per pass: the graph after the pass, as a dict of names and values, and the rows of the
compiler's log. `recording_of` compares each snapshot with the one before it. Every connected region that changed
becomes one decision, with the nodes that it removed and made. After each pass, the graph that the recording stores is
compared with the compiler's graph, so a recording that exists is true at the end of every stage.

Identity of values:

- A value keeps its node if its name, operation, type and operands stay.
- A value with a new name keeps its node if a value of the same operation vanished that had the same operands, or was
  read in the same position: it was renamed.
- Every other value of a snapshot is a new node. It replaces the node that had its name.
- A vanished value is replaced by the value that all its remaining readers, or the results, read in its place.

All loops run over the rows of one snapshot, without recursion, so a graph may be 100,000 values deep.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

from explorer.record.errors import ExplorerError
from explorer.record.json_form.validate import check
from explorer.record.recording import Recording
from explorer.record.rows import (
    Body,
    Code,
    Decides,
    Decision,
    Group,
    Kernel,
    Kind,
    Placement,
    Run,
    Schedule,
    Scope,
    Source,
    Stage,
    StageKind,
    Step,
    Type,
    Verdict,
    total,
)

_READING = "Explorer's reading"
"""who states the changes that are found by comparing two graphs"""
_NAMED = 8
"""number of operations that the sentence of a decision names"""


@dataclass(frozen=True, slots=True)
class Value:
    """Value in a compiler's graph: the operation that computes it, and the names of its operands.

    ``scope`` is the path of boxes around it (``("encoder", "layer 1")``). A new value without scope or source gets
    those of the values that it replaces.
    """

    operation: str
    operands: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    kind: Literal["leaf", "constant", "operation"] = "operation"
    attributes: Mapping[str, str] = field(default_factory=dict)
    scope: tuple[str, ...] = ()
    source: Source | None = None
    flops: int | None = None
    """floating-point operations, if the compiler reports them"""

    @property
    def signature(self) -> Hashable:
        """Everything that distinguishes the value from another one with the same operands."""
        return (self.operation, self.kind, self.shape, self.dtype, tuple(sorted(self.attributes.items())))


@dataclass(frozen=True, slots=True)
class Statement:
    """Row of a compiler's log: a rule that was applied or declined, about values of the graph before the pass.

    ``reason`` is a template over ``facts``. A fact that is the name of a value refers to its node.
    """

    rule: str
    verdict: Verdict
    reason: str
    subjects: tuple[str, ...]
    code: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    location: str = ""
    author: str = "the compiler's log"
    """who states it; an adapter that finds a reason itself writes "Explorer's reading" """


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Graph after a pass: its values in topological order, its results, and what the compiler's log states.

    The first snapshot is the program as given. ``kernels`` are the groups of values that the compiler has fused so
    far: the name of a kernel, and its values with the result last.
    """

    name: str
    values: Mapping[str, Value]
    results: tuple[str, ...]
    statements: tuple[Statement, ...] = ()
    kernels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    purpose: str = ""
    micros: float = 0.0
    decides: Decides = ""
    """what the pass decides, as in ``explorer.record.Stage``; a pass that forms kernels decides "kernels" by default"""
    limits: str = ""
    """what a kernel of this compiler can contain, as a clause"""


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """Kernel that runs, with what the compiler reports about it; the rest stays unknown."""

    values: tuple[str, ...]
    """names of the values in the last snapshot that it computes, its result last; kernels may share values"""
    name: str = ""
    micros: float | None = None
    """measured time in µs"""
    estimate: float | None = None
    """estimated time in µs"""
    buffer: int | None = None
    """index in the program's buffers; −1 for memory that is not reused"""
    live: int | None = None
    """bytes in use while it runs"""
    provider: str = ""
    device: str = ""
    language: str = ""
    code: str = ""
    lines: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """value → numbers of the lines of the code that compute it, from 1"""


@dataclass(frozen=True, slots=True)
class Compiled:
    """Program that a compiler made: its kernels in the order in which they run, and its memory."""

    kernels: tuple[CompiledKernel, ...]
    compiler: str = ""
    """name and version"""
    buffers: tuple[int, ...] = ()
    """size of each buffer in bytes"""
    peak: int | None = None
    """memory that a run allocates, in bytes"""
    micros: float | None = None
    """time of a run in µs; by default, the sum of the kernels' times"""


def recording_of(title: str, snapshots: Sequence[Snapshot], compiled: Compiled | None = None) -> Recording:
    """Return the recording of a compiler's passes.

    Args:
        title: name of the program, shown above the graph.
        snapshots: the program as given, then the graph after each pass, in order.
        compiled: kernels, code, times and memory of the compiled program, if the compiler reports them.

    Raises:
        ExplorerError: if a snapshot is no graph (an operand that does not come before its reader, an unknown name), or
            cannot be recorded.

    >>> from explorer.compilers import Snapshot, Value, recording_of
    >>> given = {"x": Value("x", kind="leaf"), "a": Value("exp", ("x",)), "b": Value("log", ("a",))}
    >>> passes = [Snapshot("given", given, ("b",)), Snapshot("simplify", {"x": given["x"]}, ("x",))]
    >>> recording = recording_of("a program", passes)
    >>> [recording.reason(decision) for decision in recording.decisions]
    ['`exp · log` is removed.']
    """
    if not snapshots:
        raise ExplorerError(
            "no snapshots were given",
            rule="the first snapshot is the program as given",
            fix="recording_of(title, [Snapshot('given', values, results)])",
        )
    writer = _Writer(title)
    for snapshot in snapshots:
        _check_snapshot(snapshot)
        writer.add(snapshot)
    if compiled is not None:
        writer.compile(compiled)
    check(writer.recording)
    return writer.recording


def _check_snapshot(snapshot: Snapshot) -> None:
    """Raise ExplorerError unless every value comes after its operands, and results and kernels are values."""
    known: set[str] = set()
    for name, value in snapshot.values.items():
        for operand in value.operands:
            if operand not in known:
                problem = "comes later" if operand in snapshot.values else "is no value of the graph"
                raise ExplorerError(
                    f"in pass {snapshot.name!r}, value {name!r} reads {operand!r}, which {problem}",
                    rule="a snapshot lists each value after its operands",
                    fix="sort the values by their operands, and add the operands that are missing",
                )
        known.add(name)
        if not all(type(size) is int and size >= 0 for size in value.shape):
            raise ExplorerError(
                f"in pass {snapshot.name!r}, value {name!r} has the shape {value.shape!r}",
                rule="sizes are nonnegative integers",
                fix="give the sizes that were compiled",
            )
    kernels = [(f"kernel {name!r}", members) for name, members in snapshot.kernels.items()]
    for what, names in [("the tuple of results", snapshot.results), *kernels]:
        if unknown := [name for name in names if name not in known]:
            raise ExplorerError(
                f"in pass {snapshot.name!r}, {what} contains {unknown[0]!r}, which is no value of the graph",
                rule="results and kernels consist of values of the snapshot",
                fix="add the value to values, or leave the name out",
            )
        if not names:
            raise ExplorerError(
                f"in pass {snapshot.name!r}, {what} is empty",
                rule="a program has a result, and a kernel computes at least one value",
                fix="name the values, or leave the kernel out",
            )


@dataclass(slots=True)
class _Region:
    """Connected part of a graph that one decision changes."""

    died: list[int] = field(default_factory=list)
    """nodes of the graph before the pass"""
    made: list[str] = field(default_factory=list)
    """names in the graph after the pass, in topological order"""


@dataclass(frozen=True, slots=True)
class _Difference:
    """Difference between the graph before a pass and the snapshot after it."""

    same: dict[str, int]
    """name after the pass → the node that has the same name, or was renamed"""
    stands: dict[int, str]
    """node → name of the value that its readers read after the pass, where that is another value"""
    changed: list[str]
    """names that need a new node"""
    gone: list[int]
    """nodes that do not remain"""


class _Writer:
    """Recording that grows by one snapshot at a time."""

    def __init__(self, title: str) -> None:
        self.recording = Recording(title=title, fingerprint=title)
        self._rows: dict[Hashable, int] = {}
        self._node_of: dict[str, int] = {}
        """name in the last snapshot → node"""
        self._values: dict[int, Value] = {}
        """node → its value, for the nodes of the last snapshot"""
        self._operands: dict[int, tuple[int, ...]] = {}
        """node → nodes that it reads in the last snapshot"""
        self._results: tuple[int, ...] = ()
        self._kernels: dict[str, tuple[int, ...]] = {}
        self._replacement: dict[int, int] = {}

    def add(self, snapshot: Snapshot) -> None:
        first = self.recording.end
        if not self.recording.bodies:
            for name, value in snapshot.values.items():
                self._node_of[name] = self._make(name, value, -1, value.scope, value.source)
            leaves = tuple(self._node_of[name] for name, value in snapshot.values.items() if value.kind == "leaf")
            results = tuple(self._node_of[name] for name in snapshot.results)
            self.recording.bodies.append(Body("", leaves, results))
        else:
            self._state(snapshot)
            self._rewrite(snapshot)
        self._group(snapshot)
        self._operands = {
            self._node_of[name]: tuple(self._node_of[operand] for operand in value.operands)
            for name, value in snapshot.values.items()
        }
        self._values = {self._node_of[name]: value for name, value in snapshot.values.items()}
        self._results = tuple(self._node_of[name] for name in snapshot.results)
        self._verify(snapshot)
        self._finish_stage(snapshot, first)

    def _state(self, snapshot: Snapshot) -> None:
        """Add the rows of the compiler's log, which are about the graph before the pass."""
        for statement in snapshot.statements:
            unknown = [name for name in statement.subjects if name not in self._node_of]
            if unknown or not statement.subjects:
                raise ExplorerError(
                    f"a statement of pass {snapshot.name!r} is about {unknown[0] if unknown else 'no value'!r}",
                    rule="the subjects of a statement are values of the graph before the pass",
                    fix="give the names that these values had before the pass, or leave the statement out",
                )
            subjects = tuple(dict.fromkeys(self._node_of[name] for name in statement.subjects))
            facts = {
                name: {"node": self._node_of[fact]} if isinstance(fact, str) and fact in self._node_of else fact
                for name, fact in statement.facts.items()
            }
            decision = self._decide(
                statement.rule,
                statement.verdict,
                statement.code,
                statement.reason,
                facts,
                subjects,
                statement.author,
                statement.location,
            )
            if statement.verdict == "declined" and len(subjects) == 2:
                self.recording.declined_edges.append((decision, subjects[0], subjects[1]))

    def _rewrite(self, snapshot: Snapshot) -> None:
        """Add one decision per region that changed, each after the regions that its new values read."""
        difference = self._difference(snapshot)
        new = set(difference.changed)
        node_of = {name: node for name, node in difference.same.items() if name not in new}
        for region in self._regions(snapshot, difference):
            self._apply(snapshot, difference, region, node_of)
        self._node_of = {name: node_of[name] for name in snapshot.values}

    def _difference(self, snapshot: Snapshot) -> _Difference:
        values = snapshot.values
        same = {name: self._node_of[name] for name in values if name in self._node_of}
        kept_names = set(same.values())
        # Renamed values: an operation of a new name, whose signature and operands are those of a vanished node.
        vanished: dict[Hashable, deque[int]] = defaultdict(deque)
        for node, value in self._values.items():
            if node not in kept_names and value.kind != "leaf":
                vanished[value.signature, self._operands[node]].append(node)
        for name, value in values.items():
            if name not in same and vanished and all(operand in same for operand in value.operands):
                key = (value.signature, tuple(same[operand] for operand in value.operands))
                if candidates := vanished.get(key):
                    same[name] = candidates.popleft()
        self._match_from_results(snapshot, same)
        remaining = set(same.values())
        stands = self._moved_results(snapshot, same)
        votes: dict[int, set[str]] = defaultdict(set)
        for name, value in values.items():
            if name in same and self._values[same[name]].signature == value.signature:
                for before, after in zip(self._operands[same[name]], value.operands, strict=False):
                    if before not in remaining:
                        votes[before].add(after)
        for node, names in votes.items():
            if len(names) == 1:
                stands.setdefault(node, next(iter(names)))
        changed = []
        for name, value in values.items():
            node = same.get(name, -1)
            if node < 0 or node in stands or self._values[node].signature != value.signature:
                changed.append(name)
                continue
            operands = self._operands[node]
            if len(operands) != len(value.operands) or any(
                stands[before] != after if before in stands else same.get(after) != before
                for before, after in zip(operands, value.operands, strict=True)
            ):
                changed.append(name)
        new = set(changed)
        staying = {node for name, node in same.items() if name not in new}
        return _Difference(same, stands, changed, [node for node in self._values if node not in staying])

    def _match_from_results(self, snapshot: Snapshot, same: dict[str, int]) -> None:
        """Add renamed values to ``same`` that are read as before, by the results or by values that were matched.

        The operands of a value may change while its readers stay, so this finds renamed values after a change in the
        same graph that the comparison of operands misses.
        """
        matched = set(same.values())
        pending = list(zip(self._results, snapshot.results, strict=False))
        visited: set[tuple[int, str]] = set()
        for name, node in same.items():
            pending += zip(self._operands[node], snapshot.values[name].operands, strict=False)
        while pending:
            node, name = pending.pop()
            if (node, name) in visited:
                continue
            visited.add((node, name))
            before, after = self._values[node], snapshot.values[name]
            if name in same or node in matched or before.signature != after.signature or before.kind == "leaf":
                continue
            same[name] = node
            matched.add(node)
            pending += zip(self._operands[node], after.operands, strict=False)

    def _moved_results(self, snapshot: Snapshot, same: Mapping[str, int]) -> dict[int, str]:
        """Return node → name of the value that is the result in its place, for results that became other values."""
        if len(self._results) != len(snapshot.results):
            raise ExplorerError(
                f"pass {snapshot.name!r} has {len(snapshot.results)} results, and the program {len(self._results)}",
                rule="each snapshot has the results of the program, in the same order",
                fix="Snapshot(results=…) with one name per result of the first snapshot",
            )
        after_of: dict[int, str] = {}
        for before, after in zip(self._results, snapshot.results, strict=True):
            if after_of.setdefault(before, after) != after:
                raise ExplorerError(
                    f"pass {snapshot.name!r} computes {after_of[before]!r} and {after!r} for one result",
                    rule="a value that is a result several times stays one value",
                    fix="give each result its own value in the first snapshot, such as a copy",
                )
        return {before: after for before, after in after_of.items() if same.get(after) != before}

    def _regions(self, snapshot: Snapshot, difference: _Difference) -> list[_Region]:
        """Return the connected regions of vanished nodes and new values, in order of their first member."""
        values, same = snapshot.values, difference.same
        loose = self._loose(snapshot, difference)
        changed, gone = {*difference.changed} - loose, {*difference.gone} - loose
        members: list[int | str] = [*difference.gone, *difference.changed]
        parent = {member: member for member in members if member not in loose}

        def root(member: int | str) -> int | str:
            while parent[member] != member:
                parent[member] = member = parent[parent[member]]
            return member

        def join(one: int | str, other: int | str) -> None:
            parent[root(one)] = root(other)

        for node in difference.gone:
            for read in self._operands[node]:
                if node in gone and read in gone:
                    join(read, node)
        for name in difference.changed:
            if name in same:
                join(same[name], name)
            for operand in values[name].operands:
                if name in changed and operand in changed and (name not in same or operand not in same):
                    join(operand, name)
        for before, after in difference.stands.items():
            if after in changed:
                join(before, after)
        regions: dict[int | str, _Region] = {}
        for member in parent:
            region = regions.setdefault(root(member), _Region())
            if isinstance(member, int):
                region.died.append(member)
            else:
                region.made.append(member)
        return self._with_loose(loose, _ordered(snapshot, difference, list(regions.values())), snapshot)

    def _loose(self, snapshot: Snapshot, difference: _Difference) -> set[int | str]:
        """Return the leaves and constants that appear or vanish without replacement.

        Many regions may read one constant, and it does not connect them.
        """
        named = {difference.same[name] for name in difference.changed if name in difference.same}
        targets = set(difference.stands.values())
        vanished = {
            node
            for node in difference.gone
            if self._values[node].kind != "operation" and node not in named and node not in difference.stands
        }
        appeared = {
            name
            for name in difference.changed
            if snapshot.values[name].kind != "operation" and name not in difference.same and name not in targets
        }
        return {*vanished, *appeared}

    def _with_loose(self, loose: set[int | str], ordered: list[_Region], snapshot: Snapshot) -> list[_Region]:
        """Add each appearing constant to its first reader's region, and each vanishing one to its last reader's."""
        home: dict[int | str, _Region] = {}
        for region in ordered:
            for node in region.died:
                home.update((operand, region) for operand in self._operands[node] if operand in loose)
        for region in reversed(ordered):
            for name in region.made:
                home.update((operand, region) for operand in snapshot.values[name].operands if operand in loose)
        unread: list[_Region] = []
        for member in (*self._values, *snapshot.values):
            if member not in loose:
                continue
            if member not in home:
                home[member] = _Region()
                unread.append(home[member])
            if isinstance(member, int):
                home[member].died.append(member)
            else:
                home[member].made.insert(0, member)
        return [*unread, *ordered]

    def _apply(self, snapshot: Snapshot, difference: _Difference, region: _Region, node_of: dict[str, int]) -> None:
        """Add the decision that removes the nodes of a region and makes its values."""
        decision = self.recording.end
        values, nodes = snapshot.values, self.recording.nodes
        replaced = [node for node in region.died if self._values[node].kind == "operation"]
        became = [name for name in region.made if values[name].kind == "operation"]
        # A value without a box or a line of its own has the box and line of what it replaces.
        scope = next((nodes.scope[node] for node in replaced if nodes.scope[node]), 0)
        source = next((nodes.source[node] for node in reversed(replaced) if nodes.source[node] >= 0), -1)
        produced = []
        self._node_of = node_of
        for name in region.made:
            value = values[name]
            node = node_of[name] = self._make(name, value, decision, value.scope, value.source)
            if not value.scope:
                nodes.scope[node] = scope
            if value.source is None:
                nodes.source[node] = source
            produced.append(node)
        code = "replaced"
        if not became:
            code = "removed"
        elif not replaced:
            code = "added"
        elif len(became) == 1 and len(replaced) > 1:
            code = "fused"
        facts = {
            "before": _listed(self._values[node].operation for node in replaced) or "a constant",
            "after": _listed(values[name].operation for name in became) or "nothing",
        }
        subjects = tuple(region.died) or tuple(produced[:1])
        reason = {"removed": "`{before}` is removed.", "added": "`{after}` is added."}.get(
            code, "`{before}` became `{after}`."
        )
        self._decide(snapshot.name, "applied", code, reason, facts, subjects, _READING, produced=tuple(produced))
        name_of = {difference.same[name]: name for name in region.made if name in difference.same}
        for node in region.died:
            nodes.gone[node] = decision
            replacement = difference.stands.get(node, name_of.get(node))
            if replacement is not None:
                self.recording.substitutions.append((decision, node, node_of[replacement]))
                self._replacement[node] = node_of[replacement]

    def _group(self, snapshot: Snapshot) -> None:
        """Add a decision for each kernel of several values that is new, or has other values than before."""
        kernels = {name: tuple(self._node_of[value] for value in members) for name, members in snapshot.kernels.items()}
        for name, members in kernels.items():
            if len(members) > 1 and self._kernels.get(name) != members and self.recording.stages:
                operations = _listed(snapshot.values[value].operation for value in snapshot.kernels[name])
                facts = {"operations": operations, "kernel": name}
                reason = "`{operations}` are one kernel, `{kernel}`."
                decision = self._decide(snapshot.name, "applied", "kernel", reason, facts, members, _READING)
                self.recording.groups.append(Group(decision, "kernel", name, members))
        self._kernels = kernels

    def _verify(self, snapshot: Snapshot) -> None:
        """Raise AssertionError unless the stored operands, read through replacements, are those of the compiler."""
        stored = self.recording.nodes.operands
        for name, value in snapshot.values.items():
            read = tuple(self._final(operand) for operand in stored[self._node_of[name]])
            assert read == tuple(self._node_of[operand] for operand in value.operands), (snapshot.name, name)
        results = tuple(self._final(node) for node in self.recording.roots)
        assert results == tuple(self._node_of[name] for name in snapshot.results), snapshot.name

    def _final(self, node: int) -> int:
        """Return the node that readers of ``node`` read now."""
        chain = []
        while node in self._replacement:
            chain.append(node)
            node = self._replacement[node]
        self._replacement.update(dict.fromkeys(chain, node))  # path compression: no chain is followed twice
        return node

    def _finish_stage(self, snapshot: Snapshot, first: int) -> None:
        live = list(self._values)
        nodes = self.recording.nodes
        operations = [node for node in live if nodes.kind[node] == "operation"]
        unwritten = {member for members in self._kernels.values() for member in members[:-1]}
        unwritten -= {members[-1] for members in self._kernels.values()}
        counts = {
            "nodes": len(live),
            "operations": len(operations),
            "bytes": sum(nodes.bytes[node] for node in operations if node not in unwritten),
        }
        if flops := total(nodes.flops[node] for node in operations):
            counts["flops"] = flops
        kind: Literal["rewrite", "record"] = "rewrite" if self.recording.stages else "record"
        forms_kernels = any(group.decision >= first for group in self.recording.groups)
        decides = snapshot.decides or ("kernels" if forms_kernels else "")
        facts = snapshot.purpose, snapshot.micros, decides, snapshot.limits
        self.recording.stages.append(Stage(snapshot.name, kind, first, self.recording.end, counts, *facts))

    def compile(self, compiled: Compiled) -> None:
        """Add the schedule of the compiled program, with stages for its order, memory and run."""
        recording, kernels, steps, start = self.recording, [], [], 0.0
        for index, kernel in enumerate(compiled.kernels):
            nodes = self._computed(kernel)
            recording.placements[index] = Placement(kernel.name, compiled.compiler, kernel.provider, kernel.device)
            if kernel.code:
                lines = [(line, self._node_of[value]) for value, numbers in kernel.lines.items() for line in numbers]
                recording.codes[index] = Code(kernel.language, kernel.code, tuple(sorted(lines)))
            flops = total(recording.nodes.flops[node] for node in nodes)
            size = recording.nodes.bytes[nodes[-1]]
            kernels.append(
                Kernel(
                    nodes,
                    flops=flops,
                    bytes=size,
                    estimate=kernel.estimate,
                    buffer=kernel.buffer,
                    live=kernel.live,
                )
            )
            if kernel.micros is not None:
                steps.append(Step(index, start, kernel.micros, kernel.live))
                start += kernel.micros
        recording.schedule = Schedule(tuple(kernels), compiled.buffers, compiled.peak)
        self._close("order", "order", {"kernels": len(kernels)}, "The kernels, in the order in which they run.")
        if compiled.buffers or compiled.peak is not None:
            counts = {"buffers": len(compiled.buffers), **({} if compiled.peak is None else {"peak": compiled.peak})}
            self._close("memory", "memory", counts, "The memory of results.")
        if steps:
            micros = start if compiled.micros is None else compiled.micros
            recording.run = Run(compiled.compiler, tuple(steps), micros, warm=True)
            self._close(
                "run", "run", {"steps": len(steps)}, f"Measured by {compiled.compiler or 'the compiler'}.", micros
            )

    def _computed(self, kernel: CompiledKernel) -> tuple[int, ...]:
        """Return the nodes that a kernel computes; raise ExplorerError for unknown values and lines."""
        unknown = [name for name in (*kernel.values, *kernel.lines) if name not in self._node_of]
        if unknown or not kernel.values:
            raise ExplorerError(
                f"kernel {kernel.name!r} computes {unknown[0]!r}, which is no value of the last snapshot"
                if unknown
                else f"kernel {kernel.name!r} computes no value",
                rule="a kernel computes values of the last snapshot",
                fix="name these values, with the result last",
            )
        count = kernel.code.count("\n") + 1
        if wrong := [line for numbers in kernel.lines.values() for line in numbers if not 1 <= line <= count]:
            raise ExplorerError(
                f"kernel {kernel.name!r} names line {wrong[0]} of code with {count} lines",
                rule="lines are numbered from 1",
                fix="leave the line out, or give the whole code",
            )
        return tuple([self._node_of[name] for name in kernel.values])

    def _close(
        self, name: str, kind: StageKind, counts: dict[str, int], purpose: str, micros: float = 0.0,
        decides: Decides = "",
    ) -> None:  # fmt: skip
        end = self.recording.end
        self.recording.stages.append(Stage(name, kind, end, end, counts, purpose, micros, decides))

    def _decide(
        self,
        rule: str,
        verdict: Verdict,
        code: str,
        reason: str,
        facts: dict[str, Any],
        subjects: tuple[int, ...],
        author: str,
        location: str = "",
        produced: tuple[int, ...] = (),
    ) -> int:
        stage = len(self.recording.stages)
        decision = Decision(stage, rule, verdict, code or rule, reason, facts, subjects, produced, 0, location)
        self.recording.decisions.append(decision)
        self.recording.authors[self.recording.end - 1] = author
        return self.recording.end - 1

    def _make(self, name: str, value: Value, born: int, scope: Sequence[str], source: Source | None) -> int:
        nodes = self.recording.nodes
        node = len(nodes)
        box = 0
        for part in scope:
            box = self._row(self.recording.scopes, Scope(part, "file", box))
        kind: Kind = value.kind
        nodes.operation.append(self._row(self.recording.operations, value.operation))
        nodes.kind.append(kind)
        nodes.label.append(value.operation if kind == "operation" else name)
        nodes.type.append(self._row(self.recording.types, Type(tuple(value.shape), value.dtype, "cpu")))
        nodes.operands.append(tuple(self._node_of[operand] for operand in value.operands))
        nodes.scope.append(box)
        nodes.source.append(-1 if source is None else self._row(self.recording.sources, source))
        nodes.flops.append(value.flops)
        nodes.bytes.append(_bytes_of(value) if kind == "operation" else 0)
        nodes.born.append(born)
        nodes.gone.append(-1)
        nodes.body.append(0)
        nodes.callee.append(-1)
        nodes.attributes[node] = {"name": name, **value.attributes}
        return node

    def _row(self, table: list[Any], row: Hashable) -> int:
        """Return the index of a row in a table, to which it is added if it is new."""
        key = (type(row), row)
        if key not in self._rows:
            self._rows[key] = len(table)
            table.append(row)
        return self._rows[key]


def _bytes_of(value: Value) -> int:
    """Return the size of a value in bytes; the numbers in the name of a dtype are bits."""
    number = re.search(r"\d+", value.dtype)
    bits = int(number[0]) if number else 8 * (value.dtype == "bool")
    return prod(value.shape) * bits // 8


def _listed(operations: Iterable[str]) -> str:
    """Return the names of operations for a sentence; a long list is abbreviated."""
    names = list(operations)
    return " · ".join(names[:_NAMED]) + " …" * (len(names) > _NAMED)


def _ordered(snapshot: Snapshot, difference: _Difference, regions: list[_Region]) -> list[_Region]:
    """Return regions in an order in which the graph has no cycle between any two of them.

    A region comes after the regions that its new values read, directly or through values that remain. Regions that
    read each other become one. Values that remain are therefore regions too while the order is found.
    """
    region_of = {name: number for number, region in enumerate(regions) for name in region.made}
    count = len(regions)
    for name in snapshot.values:
        if name not in region_of:
            region_of[name] = count
            count += 1
    reads: list[set[int]] = [set() for _ in range(count)]
    for name, value in snapshot.values.items():
        reads[region_of[name]].update(region_of[operand] for operand in value.operands)
    for number, region in enumerate(regions):
        reads[number].update(region_of[difference.stands[node]] for node in region.died if node in difference.stands)
    position = {name: index for index, name in enumerate(snapshot.values)}
    ordered = []
    for component in _components(reads):
        parts = [regions[number] for number in sorted(component) if number < len(regions)]
        if parts:
            made = sorted([name for part in parts for name in part.made], key=position.__getitem__)
            ordered.append(_Region(sorted(node for part in parts for node in part.died), made))
    return ordered


def _components(reads: Sequence[Iterable[int]]) -> list[list[int]]:
    """Return the strongly connected components of a graph, each after the components that it reads (Tarjan, 1972)."""
    order, lowest = [-1] * len(reads), [0] * len(reads)
    path: list[int] = []
    on_path = [False] * len(reads)
    found: list[list[int]] = []
    visited = 0
    for start in range(len(reads)):
        if order[start] >= 0:
            continue
        pending = [(start, iter(reads[start]))]
        while pending:
            row, operands = pending[-1]
            if order[row] < 0:
                order[row] = lowest[row] = visited
                visited += 1
                path.append(row)
                on_path[row] = True
            for operand in operands:
                if order[operand] < 0:
                    pending.append((operand, iter(reads[operand])))
                    break
                if on_path[operand]:
                    lowest[row] = min(lowest[row], order[operand])
            else:
                pending.pop()
                if pending:
                    reader = pending[-1][0]
                    lowest[reader] = min(lowest[reader], lowest[row])
                if lowest[row] == order[row]:
                    component = [path.pop()]
                    while component[-1] != row:
                        component.append(path.pop())
                    for member in component:
                        on_path[member] = False
                    found.append(component)
    return found
