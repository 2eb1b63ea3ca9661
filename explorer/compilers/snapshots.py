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
from hashlib import sha256
from math import prod
from typing import Any, Literal, TypeVar

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

_Key = TypeVar("_Key", int, str)
_READING = "Explorer's reading"
"""who states the changes that are found by comparing two graphs"""
_EXTERNAL = ("leaf", "constant")
"""kinds of values that no operation of the graph computes"""
_REASONS = {
    "removed": "`{before}` is removed.",
    "added": "`{after}` is added.",
    "changed": "`{node}` changed: {changes}.",
    "merged": "`{before}` is replaced by `{after}`, which the graph already contains.",
}
"""templates of the reasons for changes that are found by comparing two graphs, by code"""
_NAMED = 8
"""number of operations that the sentence of a decision names"""


@dataclass(frozen=True, slots=True)
class Value:
    """Value in a compiler's graph: the operation that computes it, and the names of its operands.

    ``scope`` is the path of boxes around it (``("encoder", "layer 1")``). A new value without scope or source gets
    those of the values that it replaces. An operation with several results is a value with ``parts``, and each result
    that is read is an "item" with this value as its operand.
    """

    operation: str
    operands: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    kind: Literal["leaf", "constant", "operation", "item"] = "operation"
    attributes: Mapping[str, str] = field(default_factory=dict)
    scope: tuple[str, ...] = ()
    source: Source | None = None
    flops: int | None = None
    """floating-point operations, if the compiler reports them"""
    parts: tuple[tuple[tuple[int, ...], str], ...] = ()
    """shapes and dtypes of the results of an operation with several results"""
    label: str = ""
    """name in the view; by default, the operation, or the name of a leaf or constant"""
    is_view: bool = False
    """whether the result is memory of an operand, so it needs none"""

    @property
    def shown(self) -> str:
        """Name of the operation in the view."""
        return self.label or self.operation

    @property
    def signature(self) -> Hashable:
        """Everything that distinguishes the value from another one with the same operands."""
        attributes = tuple(sorted(self.attributes.items()))
        return (self.operation, self.kind, self.shape, self.dtype, self.parts, attributes)


@dataclass(frozen=True, slots=True)
class Statement:
    """Row of a compiler's log: a rule that was applied or declined, about values of the graph before the pass.

    ``reason`` is a template over ``facts``. A fact that is the name of a value refers to its node. If a rule that was
    declined has several subjects, the first two are the operation and the reader that it does not fuse.
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


def refusal(
    rule: str,
    operand: str,
    reader: str,
    why: str,
    reason: str = "`{operand}` is not fused into `{reader}`: {why}",
    location: str = "",
) -> Statement:
    """Return the statement that a compiler's log declines to fuse a value with its reader.

    ``why`` has the words of the log, from which the code of the statement is made.
    """
    facts = {"operand": operand, "reader": reader, "why": why}
    code = re.sub(r"\W+", "_", why.lower())[:40].strip("_")
    return Statement(rule, "declined", reason, (operand, reader), code, facts, location)


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
    pipeline: str = ""
    """name of the passes that the compiler runs together, which share a chip in the view"""


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
    bytes: int | None = None
    """bytes that it writes; by default, the size of its values that are results or that other kernels read"""


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
    writer.recording.fingerprint = _fingerprint(snapshots[0])
    check(writer.recording)
    return writer.recording


def _fingerprint(given: Snapshot) -> str:
    """Return a digest of a program's graph."""
    rows = [(name, value.signature, value.operands) for name, value in given.values.items()]
    return sha256(repr((rows, given.results)).encode()).hexdigest()[:16]


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
        self.recording = Recording(title=title)
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
            if statement.verdict == "declined" and len(subjects) > 1:
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
        """Return the connected regions of vanished nodes and new values, in order of their first member.

        A value that keeps its name separates the operations that compute it from those that read it.
        """
        values, same = snapshot.values, difference.same
        loose = self._loose(snapshot, difference)
        changed, gone = {*difference.changed} - loose, {*difference.gone} - loose
        named = {same[name] for name in difference.changed if name in same}
        members: list[int | str] = [*difference.gone, *difference.changed]
        parent = {member: member for member in members if member not in loose}

        def root(member: int | str) -> int | str:
            while parent[member] != member:
                parent[member] = member = parent[parent[member]]
            return member

        def join(one: int | str, other: int | str) -> None:
            parent[root(one)] = root(other)

        # A value that keeps its name is where one region ends and the next one begins.
        named = {same[name] for name in difference.changed if name in same}
        for node in difference.gone:
            for read in self._operands[node]:
                if node in gone and read in gone and read not in named:
                    join(read, node)
        for name in difference.changed:
            if name in same:
                join(same[name], name)
            for operand in values[name].operands:
                if name in changed and operand in changed and operand not in same:
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
            if self._values[node].kind in _EXTERNAL and node not in named and node not in difference.stands
        }
        appeared = {
            name
            for name in difference.changed
            if snapshot.values[name].kind in _EXTERNAL and name not in difference.same and name not in targets
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
        replaced = _operations(region.died, self._values)
        became = _operations(region.made, values)
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
        instead = [difference.stands[node] for node in replaced if node in difference.stands]
        code = "replaced"
        if not became:
            code = "merged" if len(instead) == len(replaced) else "removed"
        elif not replaced:
            code = "added"
        elif len(replaced) > 1 and len(became) == 1 and values[became[0]].kind == "operation":
            code = "fused"
        facts = {
            "before": _listed(self._values[node].shown for node in replaced) or "nothing",
            "after": _listed(values[name].shown for name in became or dict.fromkeys(instead)) or "nothing",
        }
        subjects = tuple(region.died) or tuple(produced[:1])
        if facts["before"] == facts["after"] and len(replaced) == len(became) == 1:
            code, before, after = "changed", self._values[replaced[0]], values[became[0]]
            facts = {"node": facts["after"], "changes": _changes(before, after) or "it reads other operands"}
        reason = _REASONS.get(code, "`{before}` became `{after}`.")
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
                operations = _listed(snapshot.values[value].shown for value in snapshot.kernels[name])
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

    def _written(self, kernels: Sequence[tuple[int, ...]]) -> set[int]:
        """Return the nodes whose values are written to memory.

        They are nodes in no kernel, results, the last node of each kernel, and nodes that a kernel reads without
        computing them.
        """
        kernels_of: dict[int, set[int]] = defaultdict(set)
        for index, members in enumerate(kernels):
            for member in members:
                kernels_of[member].add(index)
        written = {node for node in self._values if node not in kernels_of}
        written.update(self._results, (members[-1] for members in kernels))
        for reader, operands in self._operands.items():
            at = kernels_of[reader]
            written.update(node for node in operands if not at or not at <= kernels_of[node])
        return written

    def _finish_stage(self, snapshot: Snapshot, first: int) -> None:
        live = list(self._values)
        nodes = self.recording.nodes
        operations = [node for node in live if nodes.kind[node] == "operation"]
        written = self._written([*self._kernels.values()])
        counts = {
            "nodes": len(live),
            "operations": len(operations),
            "bytes": sum(nodes.bytes[node] for node in operations if node in written),
        }
        if flops := total(nodes.flops[node] for node in operations):
            counts["flops"] = flops
        kind: Literal["rewrite", "record"] = "rewrite" if self.recording.stages else "record"
        forms_kernels = any(group.decision >= first for group in self.recording.groups)
        decides = snapshot.decides or ("kernels" if forms_kernels else "")
        facts = snapshot.purpose, snapshot.micros, decides, snapshot.limits, snapshot.pipeline
        self.recording.stages.append(Stage(snapshot.name, kind, first, self.recording.end, counts, *facts))

    def compile(self, compiled: Compiled) -> None:
        """Add the schedule of the compiled program, with stages for its order, memory and run."""
        recording, kernels, steps, start = self.recording, [], [], 0.0
        members = [self._computed(kernel) for kernel in compiled.kernels]
        written, frees = self._written(members), self._frees(compiled.kernels, members)
        in_place = self._in_place(compiled.kernels, members, frees)
        for index, (kernel, nodes) in enumerate(zip(compiled.kernels, members, strict=True)):
            recording.placements[index] = Placement(kernel.name, compiled.compiler, kernel.provider, kernel.device)
            if kernel.code:
                lines = [(line, self._node_of[value]) for value, numbers in kernel.lines.items() for line in numbers]
                recording.codes[index] = Code(kernel.language, kernel.code, tuple(sorted(lines)))
            flops = total(recording.nodes.flops[node] for node in nodes)
            size = kernel.bytes
            if size is None:
                size = sum(recording.nodes.bytes[node] for node in nodes if node in written)
            kernels.append(
                Kernel(
                    nodes,
                    flops=flops,
                    bytes=size,
                    estimate=kernel.estimate,
                    buffer=kernel.buffer,
                    in_place=index in in_place,
                    frees=frees[index],
                    live=kernel.live,
                )
            )
            if kernel.micros is not None:
                steps.append(Step(index, start, kernel.micros, kernel.live))
                start += kernel.micros
        recording.schedule = Schedule(tuple(kernels), compiled.buffers, compiled.peak)
        self._close("order", "order", {"kernels": len(kernels)}, "The kernels, in the order in which they run.")
        if compiled.buffers or compiled.peak is not None:
            facts = {"buffers": len(compiled.buffers) or None, "peak": compiled.peak}
            counts = {name: size for name, size in facts.items() if size is not None}
            self._close("memory", "memory", counts, "The memory of results.")
        if steps:
            micros = start if compiled.micros is None else compiled.micros
            recording.run = Run(compiled.compiler, tuple(steps), micros, warm=True)
            self._close(
                "run", "run", {"steps": len(steps)}, f"Measured by {compiled.compiler or 'the compiler'}.", micros
            )

    def _frees(self, kernels: Sequence[CompiledKernel], members: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Return the values that are no longer needed after each kernel, of those whose memory is known.

        A value is needed until its last reader, or until another kernel writes to its buffer.
        """
        last = {nodes[-1]: index for index, nodes in enumerate(members)}
        for index, nodes in enumerate(members):
            for node in nodes:
                last.update((operand, index) for operand in self._operands[node] if operand in last)
        frees: list[list[int]] = [[] for _ in kernels]
        holder: dict[int, int] = {}
        """buffer → the value that it contains"""
        for index, (kernel, nodes) in enumerate(zip(kernels, members, strict=True)):
            if kernel.buffer is not None and kernel.buffer >= 0:
                if (previous := holder.get(kernel.buffer)) is not None:
                    last[previous] = min(last[previous], index)
                holder[kernel.buffer] = nodes[-1]
        for kernel, nodes in zip(kernels, members, strict=True):
            if kernel.buffer is not None and nodes[-1] not in self._results:
                frees[last[nodes[-1]]].append(nodes[-1])
        return [tuple(dict.fromkeys(row)) for row in frees]

    def _in_place(
        self, kernels: Sequence[CompiledKernel], members: Sequence[tuple[int, ...]], frees: Sequence[tuple[int, ...]]
    ) -> set[int]:
        """Return the kernels that write their result over an operand that no later kernel needs."""
        buffer_of = {nodes[-1]: kernel.buffer for kernel, nodes in zip(kernels, members, strict=True)}
        found = set()
        for index, (kernel, nodes) in enumerate(zip(kernels, members, strict=True)):
            if kernel.buffer is not None and kernel.buffer >= 0:
                read = {operand for node in nodes for operand in self._operands[node]}
                if any(node in read and buffer_of[node] == kernel.buffer for node in frees[index]):
                    found.add(index)
        return found

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
        label = value.label or (name if kind in _EXTERNAL else value.operation)
        # The view shows the name of an input only if it differs from the operation.
        operation = "tensor" if kind == "leaf" and value.operation == label else value.operation
        nodes.operation.append(self._row(self.recording.operations, operation))
        nodes.kind.append(kind)
        nodes.label.append(label)
        parts = tuple([self._row(self.recording.types, Type(shape, dtype, "cpu")) for shape, dtype in value.parts])
        type_ = Type((), "tuple", "cpu", parts) if parts else Type(tuple(value.shape), value.dtype, "cpu")
        nodes.type.append(self._row(self.recording.types, type_))
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
    size = 0
    for shape, dtype in () if value.is_view else (value.parts or ((value.shape, value.dtype),)):
        number = re.search(r"\d+", dtype)
        bits = int(number[0]) if number else 8 * (dtype == "bool")
        size += prod(shape) * bits // 8
    return size


def _operations(members: Sequence[_Key], values: Mapping[_Key, Value]) -> list[_Key]:
    """Return the members of a region that are operations; if it has none, its items, or else all of them."""
    operations = [each for each in members if values[each].kind == "operation"]
    return operations or [each for each in members if values[each].kind == "item"] or list(members)


def _changes(before: Value, after: Value) -> str:
    """Return the differences between the types and attributes of two values, "" if there are none."""
    texts = [
        " ".join([*["×".join(map(str, value.shape))] * bool(value.shape), value.dtype]) for value in (before, after)
    ]
    rows = [f"{texts[0]} became {texts[1]}"] if texts[0] != texts[1] else []
    for name in dict.fromkeys((*before.attributes, *after.attributes)):
        old, new = before.attributes.get(name), after.attributes.get(name)
        if old != new:
            rows.append(
                f"{name} {new} was added"
                if old is None
                else f"{name} {old} was removed"
                if new is None
                else f"{name} {old} became {new}"
            )
    return ", ".join(rows[:_NAMED])


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
