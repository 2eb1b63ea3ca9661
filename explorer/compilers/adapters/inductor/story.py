"""Recording of a capture of Inductor: passes over FX graphs, loops, rounds of fusion, and the compiled kernels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter

from explorer.compilers.adapters.inductor.rows import Capture, Frame, Loop, Node
from explorer.compilers.adapters.inductor.wrapper import KernelCode, Program, bytes_of, program_of
from explorer.compilers.snapshots import Compiled, CompiledKernel, Snapshot, Statement, Value, recording_of, refusal
from explorer.record import Recording, Source

_PURPOSES = {
    "dynamo": "The operations of torch that Dynamo traced in the program.",
    "AOTAutograd": "AOTAutograd decomposes them into operations of ATen without side effects.",
    "other passes": "Changes between two named passes.",
    "lowering": "Operations are written into loops; one that is cheap to compute again is in the loop of each reader.",
    "fusion": "A round of the scheduler: it tries pairs of loops that share memory, best first.",
    "code": "Loops that follow each other are written into one function.",
}
_LIMITS = "a kernel is one loop nest that Inductor generates, or one call of a library"
_REFUSED = "`{operand}` is not fused with `{reader}`: {why}."
_LATER = " A later round fuses them."
_SCHEDULER = "torch/_inductor/scheduler.py"
_LIBRARY = (
    "`{operand}` is not fused with `{reader}`: `{call}` is a call of {library}, and Inductor fuses only loops that it "
    "generates."
)
_EMPTY = ("MultiOutput", "NopKernel")
"""forms of scheduler operations that compute nothing"""
_TANGENT = "tangents_"
"""prefix of AOTAutograd's names for the gradients that a backward pass starts from"""
_CANDIDATES = "fuse_nodes_once, candidates:"
_CANDIDATE = re.compile(r"  \w+\(n(?:ame='|odes=)(\w+)")
_REFUSAL = re.compile(r"cannot fuse (\S+) with (\S+): (.+)")
_KNOWN = re.compile(r"=====|completed fusion round|fusing \S+ with|found \d+ possible|Shared memory after|\s*$")


@dataclass(frozen=True, slots=True)
class Round:
    """Round of the scheduler: the nodes that it began with, and its refusals as (node, node, reason)."""

    nodes: tuple[str, ...]
    refusals: tuple[tuple[str, str, str], ...]


def rounds_of(log: Iterable[str]) -> tuple[list[Round], int]:
    """Return the rounds in a fusion log, and the number of lines that were not understood."""
    nodes: list[list[str]] = []
    refusals: list[dict[tuple[str, str, str], None]] = []
    unread = 0
    for row in log:
        if row == _CANDIDATES:
            nodes.append([])
            refusals.append({})
        elif nodes and (refusal := _REFUSAL.match(row)):
            refusals[-1][refusal[1], refusal[2], refusal[3]] = None
        elif nodes and (candidate := _CANDIDATE.match(row)):
            nodes[-1].append(candidate[1])
        elif not _KNOWN.match(row):
            unread += 1
    return [Round(tuple(names), tuple(each)) for names, each in zip(nodes, refusals, strict=True)], unread


def story(capture: Capture) -> Recording:
    """Return the recording of what Inductor did with a graph."""
    names = _Names(_callers(capture))
    snapshots = _passes(capture, names)
    rounds, unread = rounds_of(capture.log)
    loops = _Loops(capture, snapshots[-1].values, names)
    compiled = None
    if capture.loops:
        last = replace(snapshots[-1], micros=0.0)
        lowered = loops.kernels(loop.name for loop in capture.loops)
        snapshots.append(replace(last, name="lowering", kernels=lowered, purpose=_PURPOSES["lowering"]))
        snapshots += _fusion(capture, rounds, loops, last)
        program = program_of(capture.code)
        kernels = _kernels(capture, loops, program)
        if len(kernels) < len(snapshots[-1].kernels):
            together = {node: kernel.values for node, kernel in kernels.items()}
            snapshots.append(replace(last, name="code", kernels=together, purpose=_PURPOSES["code"]))
        sizes = program.sizes(loops.sizes)
        live = [sum(sizes[index] for index in indices) for indices in program.live]
        peak = max(live, default=None)
        compiled = Compiled(tuple(kernels.values()), f"Inductor {capture.version}", tuple(sizes), peak, capture.micros)
    recording = recording_of(f"{capture.title} · Inductor", snapshots, compiled)
    recording.source_texts = [*capture.texts]
    recording.options = _options(capture, rounds, unread, loops)
    return recording


def _options(capture: Capture, rounds: Sequence[Round], unread: int, loops: _Loops) -> dict[str, object]:
    refusals = {refusal for each in rounds for refusal in each.refusals}
    unknown = sum(not (loops.values(first) and loops.values(second)) for first, second, _ in refusals)
    options: dict[str, object] = {
        "compiler": "Inductor",
        "version": capture.version,
        "rounds of fusion": len(rounds),
        "refusals in the log": len(refusals),
    }
    if unknown:
        options["refusals that name unknown loops"] = unknown
    if unread:
        options["log lines that were not understood"] = unread
    if capture.incomplete:
        options["code and times"] = f"none: {capture.incomplete}"
    if any(node.name.startswith(_TANGENT) for graph in capture.graphs for node in graph.nodes or ()):
        options["backward pass"] = "compiled separately, not recorded"
    if capture.other_graphs:
        options["graphs that are not recorded"] = len(capture.other_graphs)
        options["graph breaks"] = "; ".join(capture.other_graphs)
    return options


def _passes(capture: Capture, names: _Names) -> list[Snapshot]:
    """Return a snapshot per pass over FX graphs."""
    snapshots: list[Snapshot] = []
    level = ""
    for graph in capture.graphs:
        title = graph.pass_name or "other passes"
        if graph.nodes is None:
            snapshots.append(replace(snapshots[-1], name=title, purpose="", micros=graph.micros))
            continue
        if graph.level != level:
            title = "dynamo" if not snapshots else "AOTAutograd"
            names.begin(graph.nodes, graph.results)
            level = graph.level
        values = {names[node.name]: names.value(node) for node in _sorted(graph.nodes)}
        results = tuple(names[name] for name in graph.results)
        snapshots.append(Snapshot(title, values, results, purpose=_PURPOSES.get(title, ""), micros=graph.micros))
    return snapshots


def _sorted(nodes: Sequence[Node]) -> list[Node]:
    """Return nodes with each after its operands; torch sorts its graphs only after several passes."""
    seen: set[str] = set()
    for node in nodes:
        if not seen.issuperset(node.operands):
            break
        seen.add(node.name)
    else:
        return list(nodes)
    by_name = {node.name: node for node in nodes}
    order = TopologicalSorter({node.name: node.operands for node in nodes}).static_order()
    return [by_name[name] for name in order if name in by_name]


class _Names:
    """Names of values that stay the same from Dynamo's graph to the last one."""

    def __init__(self, callers: Mapping[Frame, set[Frame]]) -> None:
        self._callers = callers
        self._name_of: dict[str, str] = {}
        self._leaves: list[Node] = []
        self._given: set[str] = set()
        """names in Dynamo's graph, which other nodes of later graphs may not have"""
        self._attributes: dict[tuple[str, str, tuple[str, ...]], Mapping[str, str]] = {}
        """attributes of a name with an operation and operands; ATen has other names for them than torch"""

    def __getitem__(self, name: str) -> str:
        if name not in self._name_of:
            self._name_of[name] = f"{name}.aten" if name in self._given else name
        return self._name_of[name]

    def begin(self, nodes: Sequence[Node], results: Sequence[str]) -> None:
        """Map the names of the first graph of a level to names of the level before."""
        leaves = [node for node in nodes if node.kind == "leaf"]
        if not self._given:
            self._leaves = leaves
            self._name_of = {node.name: node.operation if node.kind == "leaf" else node.name for node in nodes}
            if len(set(self._name_of.values())) < len(self._name_of):
                self._name_of = {node.name: node.name for node in nodes}
            self._given = set(self._name_of.values())
            return
        first = self._name_of
        self._name_of = {}
        if [node.parts for node in leaves[: len(self._leaves)]] == [node.parts for node in self._leaves]:
            # AOTAutograd keeps the order of the inputs, and adds those of the backward pass after them.
            self._name_of.update(
                (node.name, first[before.name]) for node, before in zip(leaves, self._leaves, strict=False)
            )
        origins = {node.name: node.origin for node in nodes}
        outer = set(results)
        for node in nodes:
            outer.update(operand for operand in node.operands if origins[operand] != node.origin)
        last_of = {node.origin: node.name for node in nodes if node.kind != "leaf" and node.name in outer}
        self._name_of.update((name, first[origin]) for origin, name in last_of.items() if origin in first)

    def value(self, node: Node) -> Value:
        shape, dtype = node.parts[0] if len(node.parts) == 1 else ((), "float32" if node.parts else "none")
        operands = tuple(self[operand] for operand in node.operands)
        attributes = self._attributes.setdefault((self[node.name], node.operation, operands), node.attributes)
        return Value(
            self[node.name] if node.kind == "leaf" else node.operation,
            operands,
            shape,
            dtype,
            node.kind,
            attributes,
            node.scope,
            self._source(node.frames),
            parts=node.parts if len(node.parts) > 1 else (),
            is_view=node.is_view,
        )

    def _source(self, frames: Sequence[Frame]) -> Source | None:
        """Return the innermost line, with the line of the call if several calls led to it."""
        if not frames:
            return None
        frame = frames[-1]
        source = Source(frame.where, frame.line, frame.text)
        if len(frames) < 2 or len(self._callers[frame]) < 2:
            return source
        return replace(source, caller_where=frames[-2].where, caller_line=frames[-2].line)


def _callers(capture: Capture) -> dict[Frame, set[Frame]]:
    """Return the lines that called the function of each innermost line."""
    callers: dict[Frame, set[Frame]] = {}
    for graph in capture.graphs:
        for node in graph.nodes or ():
            if len(node.frames) > 1:
                callers.setdefault(node.frames[-1], set()).add(node.frames[-2])
    return callers


class _Loops:
    """Scheduler operations, and the values that they compute."""

    def __init__(self, capture: Capture, values: Mapping[str, Value], names: _Names) -> None:
        self._names = names
        self._position = {name: number for number, name in enumerate(values)}
        self._operations = {name: value.operation for name, value in values.items()}
        self.rows = {loop.name: loop for loop in capture.loops}
        self._values: dict[str, tuple[str, ...]] = {}
        self.sizes: dict[str, int] = {}
        """buffer → size in bytes of the value that is written to it"""
        for loop in capture.loops:
            self._values[loop.name] = () if loop.form in _EMPTY else tuple(self._computed(loop, values))
            for name in self._values[loop.name][-1:]:
                size = bytes_of(values[name].shape, values[name].dtype)
                self.sizes.update((buffer, size) for buffer in loop.buffers)

    def _computed(self, loop: Loop, values: Mapping[str, Value]) -> Iterator[str]:
        """Yield the values that a loop computes; a view belongs to it only if the loop also computes its operand."""
        computed: set[str] = set()
        for name in self.named(loop.nodes):
            value = values[name]
            if value.kind == "operation" and (not value.is_view or not computed.isdisjoint(value.operands)):
                computed.add(name)
                yield name

    def named(self, nodes: Iterable[str]) -> list[str]:
        """Return the values of nodes of the last graph, in topological order."""
        return sorted({self._names[node] for node in nodes} & self._position.keys(), key=self._position.__getitem__)

    def values(self, name: str) -> tuple[str, ...]:
        """Return the values that a scheduler node, which may be fused, computes."""
        found = {value for loop in loops_in(name) for value in self._values.get(loop, ())}
        return tuple(sorted(found, key=self._position.__getitem__))

    def kernels(self, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return the values of each scheduler node that computes any."""
        return {name: values for name in names if (values := self.values(name))}

    def operation(self, value: str) -> str:
        """Return the operation of a value."""
        return self._operations[value]

    def library(self, name: str) -> str:
        """Return the library function that a scheduler node calls; "" for generated loops."""
        row = self.rows.get(name)
        if row is None or not row.kind.startswith("Extern"):
            return ""
        return row.library or row.form


def loops_in(name: str) -> list[str]:
    """Return the operations in a scheduler node: ``op1`` and ``op7`` for ``op1_op7``."""
    return re.findall(r"op\d+", name)


def _fusion(capture: Capture, rounds: Sequence[Round], loops: _Loops, lowered: Snapshot) -> list[Snapshot]:
    """Return a snapshot per round of the scheduler that fused something, or refused it for the first time."""
    ends = [*[each.nodes for each in rounds[1:]], tuple(name for name, _ in capture.kernels)]
    fused = loops.kernels(ends[-1]).values()
    asked: dict[tuple[str, str, str], None] = {}
    snapshots = []
    for each, end in zip(rounds or [Round((), ())], ends, strict=True):
        refusals = {
            (*pair, reason): None
            for first, second, reason in each.refusals
            if (pair := _pair(loops, lowered.values, first, second))
        }
        new = [refusal for refusal in refusals if refusal not in asked]
        asked |= refusals
        if new or {*each.nodes} != {*end}:
            statements = []
            for operand, reader, why in new:
                later = any({operand, reader} <= {*values} for values in fused)
                statements.append(refusal("fusion", operand, reader, why, _REFUSED + _LATER * later, _SCHEDULER))
            snapshots.append(replace(lowered, statements=tuple(statements), kernels=loops.kernels(end)))
    last = snapshots.pop() if snapshots else replace(lowered, kernels=loops.kernels(ends[-1]))
    unasked = _unasked(loops, lowered.values, last.kernels, {frozenset(refusal[:2]) for refusal in asked})
    snapshots.append(replace(last, statements=(*last.statements, *unasked)))
    purpose = _PURPOSES["fusion"]
    return [replace(each, name="fusion", purpose=purpose, decides="kernels", limits=_LIMITS) for each in snapshots]


def _pair(loops: _Loops, values: Mapping[str, Value], first: str, second: str) -> tuple[str, str] | tuple[()]:
    """Return the values that an answer about two scheduler nodes names: an operand and its reader, if there are any."""
    one, other = loops.values(first), loops.values(second)
    for sources, readers in ((one, other), (other, one)):
        for reader in readers:
            for operand in values[reader].operands:
                if operand in sources and operand not in readers:
                    return operand, reader
    return (one[-1], other[-1]) if one and other and one[-1] != other[-1] else ()


def _unasked(
    loops: _Loops, values: Mapping[str, Value], kernels: Mapping[str, tuple[str, ...]], asked: set[frozenset[str]]
) -> list[Statement]:
    """Return a statement for each value that one kernel writes and another reads, if the log has no refusal of it."""
    kernels_of: dict[str, list[str]] = {}
    for kernel, members in kernels.items():
        for member in members:
            kernels_of.setdefault(member, []).append(kernel)
    statements = []
    for reader, value in values.items():
        for operand in dict.fromkeys(_through_views(values, kernels_of, each) for each in value.operands):
            between = [
                (one, other)
                for one in kernels_of.get(operand, ())
                for other in kernels_of.get(reader, ())
                if other not in kernels_of[operand]
            ]
            if not between or frozenset((operand, reader)) in asked:
                continue
            facts: dict[str, str] = {"operand": operand, "reader": reader}
            code, reason = "no_reason", "`{operand}` is not fused with `{reader}`. Inductor's log has no reason."
            calls = [
                (name, library)
                for pair in between
                for name, kernel in zip((operand, reader), pair, strict=True)
                if (library := loops.library(kernel))
            ]
            if calls:
                facts["call"], facts["library"] = calls[0]
                code, reason = "library", _LIBRARY
            statements.append(
                Statement("fusion", "declined", reason, (operand, reader), code, facts, author="Explorer's reading")
            )
    return statements


def _through_views(values: Mapping[str, Value], kernels_of: Mapping[str, Sequence[str]], name: str) -> str:
    """Return the value whose memory ``name`` is, through views and items that no kernel computes."""
    while name not in kernels_of and values[name].operands and (values[name].is_view or values[name].kind == "item"):
        name = values[name].operands[0]
    return name


def _kernels(capture: Capture, loops: _Loops, program: Program) -> dict[str, CompiledKernel]:
    """Return scheduler nodes → kernel, in the order in which they run, with what the generated module contains."""
    pending = [*loops.kernels(name for name, _ in capture.kernels)]
    # the profiler reports one event per call, in order
    times = [micros for _, micros in capture.times] if len(capture.times) == len(program.calls) else None
    sizes = program.sizes(loops.sizes)
    kernels = {}
    for number, call in enumerate(program.calls):
        title = call.partition(":")[0]
        computed = {*loops.named(capture.calls.get(call, ()))}
        parts: list[str] = []
        while pending and loops.library(pending[0]) == ("" if title in program.codes else title):
            values = loops.values(pending[0])
            if not computed.issuperset(values) and (parts or computed.isdisjoint(values)):
                break
            parts.append(pending.pop(0))
            if title not in program.codes:
                break
        if not parts:
            continue
        node = "_".join(parts)
        memory = {
            program.holder[buffer]: None
            for loop in loops_in(node)
            for buffer in loops.rows[loop].buffers
            if buffer in program.holder
        }
        buffer = [*memory][-1] if memory else None
        code = program.codes.get(title)
        kernels[node] = CompiledKernel(
            loops.values(node),
            title,
            micros=times[number] if times else None,
            buffer=-1 if buffer in program.returned else buffer,
            live=sum(sizes[index] for index in program.live[number]),
            bytes=sum(sizes[index] for index in memory) if memory else None,
            language=code.language if code else "",
            code=code.text if code else "",
            lines=_lines(code, loops) if code else {},
        )
    return kernels | {name: CompiledKernel(loops.values(name), loops.library(name) or name) for name in pending}


_SYMBOLS = {"add": " + ", "sub": " - ", "mul": " * ", "div": " / "}
"""operations that C++ writes as a symbol"""


def _lines(code: KernelCode, loops: _Loops) -> dict[str, tuple[int, ...]]:
    """Return value → lines of the loop that computes it.

    If a loop computes several values, the lines that contain the operation are those of a value, if there are any.
    """
    rows = code.text.split("\n")
    lines: dict[str, set[int]] = {}
    for loop, numbers in code.lines.items():
        values = loops.values(loop)
        for value in values:
            operation = loops.operation(value)
            sign = _SYMBOLS.get(operation, operation)
            matching = [number for number in numbers if sign in rows[number - 1]] if len(values) > 1 else []
            lines.setdefault(value, set()).update(matching or numbers)
    return {value: tuple(sorted(numbers)) for value, numbers in lines.items()}
