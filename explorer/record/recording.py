"""Recordings of a plan: the recorded nodes, every decision, and the measured run.

A recording is plain data that views, comparisons and files read without the engine. The graph is stored once, with the
decisions that changed it. A position counts these decisions, and the graph at any position follows from it, so no
position needs a copy. Nodes are stored as columns instead of objects, because recordings with a hundred thousand nodes
are written and read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from explorer.record.dimension_names import DimensionNames, shape_text
from explorer.record.layer_rows import Gradient, Layer, Port
from explorer.record.provenance import Provenance, provenance
from explorer.record.reasons import fields, mentioned, render
from explorer.record.rows import (
    UNKNOWN,
    Body,
    Code,
    Composition,
    Decision,
    Explanation,
    FileOperator,
    Group,
    InterfaceRow,
    Nodes,
    OperatorType,
    Placement,
    Run,
    Schedule,
    Scope,
    Source,
    SourceText,
    Stage,
    Summary,
    Type,
    total,
)


@dataclass(slots=True, repr=False)
class Recording:
    """A plan as plain data: nodes, decisions, schedule and run.

    >>> x = ex.tensor([1.0, 2.0], name="x")
    >>> plan = ex.EvalPlan()
    >>> handle = plan.register(ex.log(ex.exp(x)))
    >>> recording = plan.eval().recording
    >>> [(decision.rule, decision.code) for decision in recording.decisions if decision.verdict == "applied"]
    [('LogOfExp', 'log_exp'), ('Prune', 'unneeded')]
    """

    title: str = ""
    fingerprint: str = ""
    """digest of the planned structure; equal programs have equal fingerprints on every machine"""
    options: dict[str, Any] = field(default_factory=dict)
    operations: list[str] = field(default_factory=list)
    families: dict[str, str] = field(default_factory=dict)
    """operation → family that its declaration states, such as "elementwise"; views mark nodes with it"""
    types: list[Type] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=lambda: [Scope("", "top", -1)])
    sources: list[Source] = field(default_factory=list)
    source_texts: list[SourceText] = field(default_factory=list)
    """cells and files whose lines recorded nodes; model files are not included, since ``sources`` contains their
    lines
    """
    bodies: list[Body] = field(default_factory=list)
    nodes: Nodes = field(default_factory=Nodes)
    stages: list[Stage] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    substitutions: list[tuple[int, int, int]] = field(default_factory=list)
    """(decision, old id, new id): after the decision, every reader of ``old`` reads ``new``. No earlier row replaces
    ``new``.
    """
    declined_edges: list[tuple[int, int, int]] = field(default_factory=list)
    """(decision, operand, reader): values that are written to memory and read again because of a declined decision"""
    groups: list[Group] = field(default_factory=list)
    explanations: list[Explanation] = field(default_factory=list)
    gradients: list[Gradient] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    """layers, each before its sublayers"""
    ports: list[Port] = field(default_factory=list)
    operators: list[FileOperator] = field(default_factory=list)
    """operators of a model file"""
    operator_types: list[OperatorType] = field(default_factory=list)
    """documented types of the operators of a model file"""
    interface: list[InterfaceRow] = field(default_factory=list)
    """inputs and outputs of a model file, with the order and the names of the file"""
    metadata: list[tuple[str, str]] = field(default_factory=list)
    """(name, value) pairs that a model file states about itself, such as its description and producer"""
    compositions: list[Composition] = field(default_factory=list)
    """known functions that several recorded nodes compute together"""
    dimensions: dict[int, DimensionNames] = field(default_factory=dict)
    """node → dimension names that a model file declares for its value"""
    variables: dict[int, str] = field(default_factory=dict)
    """node → variable of the user's program to which its value was assigned, if the source is unambiguous"""
    leaf_values: dict[int, Summary] = field(default_factory=dict)
    """node → summary of a value that exists before any run, such as a weight in a file"""
    shared_leaves: dict[int, int] = field(default_factory=dict)
    """leaf → the first leaf with the same stored value, such as a weight that several operators read"""
    authors: dict[int, str] = field(default_factory=dict)
    """decision → who states it, such as ``onnxruntime's log``; decisions of Explorer's own planner are not included"""
    placements: dict[int, Placement] = field(default_factory=dict)
    """kernel → where it runs, if another compiler or runtime reports it"""
    codes: dict[int, Code] = field(default_factory=dict)
    """kernel → the code that computes it, if it is known"""
    once: list[int] = field(default_factory=list)
    """kernels that run only once, before the first run, because their results depend on no input"""
    schedule: Schedule | None = None
    run: Run | None = None

    def __repr__(self) -> str:
        return f"Recording(title={self.title!r}, nodes={len(self.nodes)}, decisions={len(self.decisions)})"

    @property
    def compiler(self) -> str:
        """Name of the compiler that the recording is about, without its version; "" for explorer's plans."""
        return str(self.options.get("compiler", "")).partition(" ")[0]

    @property
    def roots(self) -> tuple[int, ...]:
        """The recorded nodes whose values were requested."""
        return self.bodies[0].outputs if self.bodies else ()

    @property
    def end(self) -> int:
        """Position after all decisions."""
        return len(self.decisions)

    @property
    def provenance(self) -> Provenance:
        """Map between kernels and the recorded nodes and lines that they compute; it is computed at each access."""
        return provenance(self)

    def estimate(self, *, once: bool = False) -> float | None:
        """Return the estimated time of each run in µs, without kernels that run only once; None if it is unknown.

        With ``once``, return the time of these kernels.
        """
        rest, kernels = {*self.once}, self.schedule.kernels if self.schedule else ()
        return total([kernel.estimate for index, kernel in enumerate(kernels) if (index in rest) is once])

    @property
    def once_in_run(self) -> frozenset[int]:
        """The kernels whose measured time is not part of later runs: those that run once, in a first run."""
        return frozenset() if self.run is None or self.run.warm else frozenset(self.once)

    def kernels_of(self) -> dict[int, tuple[int, ...]]:
        """Return node → indices of the kernels that compute it; several if it is computed again."""
        kernels: dict[int, tuple[int, ...]] = {}
        for index, kernel in enumerate(self.schedule.kernels if self.schedule else ()):
            for node in kernel.nodes:
                kernels[node] = (*kernels.get(node, ()), index)
        return kernels

    @property
    def computed_again(self) -> frozenset[int]:
        """The nodes that several kernels compute."""
        seen: set[int] = set()
        again: set[int] = set()
        for kernel in self.schedule.kernels if self.schedule else ():
            again.update(seen.intersection(kernel.nodes))
            seen.update(kernel.nodes)
        return frozenset(again)

    def type_of(self, node: int) -> Type:
        """Return the type row of a node."""
        return self.types[self.nodes.type[node]]

    def type_text(self, node: int) -> str:
        """Return a node's type as a string: ``32×64 float32``, ``scalar float32``, ``(2×2 float32, 3 int64)``."""
        return self.type_text_of(self.nodes.type[node])

    def named_type_text(self, node: int) -> str:
        """Return the type of a node, with the names of its dimensions: ``batch=32×64 float32``."""
        return self.type_text_of(self.nodes.type[node], self.dimension_names(node))

    def dimension_names(self, node: int) -> tuple[str, ...]:
        """Return the declared name of each dimension of a node's value; "" for no name, and () if all have none."""
        declared = self.dimensions.get(node)
        return declared.names if declared else ()

    def type_text_of(self, row: int, names: Sequence[str] = ()) -> str:
        """Return the type in row ``row`` as a string, with dimension names; ``?`` for an unknown type."""
        type_row = self.types[row]
        if type_row.dtype == "tuple":
            if not type_row.parts:
                return UNKNOWN
            return "(" + ", ".join(self.type_text_of(part) for part in type_row.parts) + ")"
        return f"{shape_text(type_row.shape, names)} {type_row.dtype}" + (
            f" on {type_row.device}" if type_row.device != "cpu" else ""
        )

    def label(self, node: int) -> str:
        """Return the name of a node for a sentence: its label and the constants inside it (``multiply 2``)."""
        labels, kinds = self.nodes.label, self.nodes.kind
        if kinds[node] != "operation":
            return labels[node]
        constants = [labels[operand] for operand in self.nodes.operands[node] if kinds[operand] == "constant"]
        return " ".join([labels[node], *constants[:2]]) if constants else labels[node]

    def named_label(self, node: int) -> str:
        """Return the name of a node, preceded by the variable to which its value was assigned: ``h = tanh``."""
        variable = self.variables.get(node)
        return f"{variable} = {self.label(node)}" if variable else self.label(node)

    def variable_note(self, node: int) -> str:
        """Return a note about how many values were assigned to a node's variable; "" if there is at most one."""
        variable = self.variables.get(node)
        produced_by = self.nodes.born
        # A node that a pass produced has the value of the recorded node that it replaces.
        count = sum(name == variable and produced_by[other_node] < 0 for other_node, name in self.variables.items())
        return f"{count:,} values were assigned to a variable {variable}; this is one of them" if count > 1 else ""

    def reason(self, decision: Decision) -> str:
        """Return the sentence of a decision; suffixes distinguish nodes with equal names: ``add (line 2)``."""
        marks = self.marks(decision)
        return render(decision.reason, decision.facts, lambda node: self.label(node) + marks.get(node, ""))

    def marks(self, decision: Decision) -> dict[int, str]:
        """Return node → suffix for the nodes in a sentence that have equal names.

        Suffixes are their lines, else their types, else numbers. Nodes with unique names have none.
        """
        nodes_named = mentioned(decision.reason, decision.facts)
        names = {name for name, _, _ in fields(decision.reason)} - {"operation"}  # several nodes may share an operation
        texts = [decision.facts[name] for name in names if isinstance(decision.facts[name], str)]
        if len(nodes_named) + bool(nodes_named and texts) < 2:
            return {}
        nodes_of_label: dict[str, list[int]] = {}
        for node in nodes_named:
            nodes_of_label.setdefault(self.label(node), []).append(node)
        marks: dict[int, str] = {}
        for label, nodes in nodes_of_label.items():
            # A sentence may also contain an operation's name as a string, which could be confused with a node's name.
            if len(nodes) > 1 or label in texts:
                marks.update(zip(nodes, self._distinguishing_suffixes(nodes), strict=True))
        return marks

    def _distinguishing_suffixes(self, nodes: list[int]) -> list[str]:
        rows = [self.nodes.source[node] for node in nodes]
        sources = [self.sources[row] for row in rows if row >= 0]
        in_one_file = len({source.where for source in sources}) == 1
        lines = [source.short_location if in_one_file else source.location for source in sources]
        if len(set(lines)) == len(nodes):
            return [f" ({line})" for line in lines]
        types = [self.type_text(node) for node in nodes]
        if len(set(types)) == len(nodes):
            return [f" ({type_text})" for type_text in types]
        return [f" (no. {index})" for index in range(1, len(nodes) + 1)]

    def resolver(self, position: int) -> dict[int, int]:
        """Return replaced node → its final replacement at ``position``."""
        final: dict[int, int] = {}
        # From last to first: the replacement of ``new`` by a later row is already known, so a single pass suffices.
        for decision, old, new in reversed(self.substitutions):
            if decision < position:
                final[old] = final.get(new, new)
        return final

    def visible(self, position: int, body: int = 0) -> list[int]:
        """Return the ids of the nodes of a graph that exist at ``position``, in order."""
        nodes = self.nodes
        return [
            node
            for node in range(len(nodes))
            if nodes.body[node] == body
            and nodes.born[node] < position
            and (nodes.gone[node] < 0 or nodes.gone[node] >= position)
        ]

    def edges(self, position: int, body: int = 0) -> Iterator[tuple[int, int, int]]:
        """Yield (producer, consumer, operand index) for every edge between nodes that exist at ``position``."""
        final = self.resolver(position)
        for node in self.visible(position, body):
            for index, operand in enumerate(self.nodes.operands[node]):
                # Operands are stored as recorded and resolved here, so the same rows are used for every position.
                yield final.get(operand, operand), node, index

    @property
    def declined(self) -> list[Decision]:
        """All declined decisions, sorted by the fact ``estimated_cost_us``, the largest cost first."""
        declined = [decision for decision in self.decisions if decision.verdict == "declined"]
        return sorted(declined, key=lambda decision: -decision.facts.get("estimated_cost_us", 0.0))

    def decisions_of(self, node: int) -> list[Decision]:
        """Return the decisions in which ``node`` is a subject or a product, in order."""
        return [d for d in self.decisions if node in d.subjects or node in d.produced]


def unmeasured(recording: Recording) -> Recording:
    """Return a copy of a recording that contains no run, and no times in decisions. Values of nodes are kept.

    Notebooks store such recordings, so the outputs of a repeated cell change only if the program changes.
    """
    if recording.run is None:
        return recording
    return replace(
        recording,
        run=None,
        stages=[stage for stage in recording.stages if stage.kind != "run"],
        decisions=[
            replace(decision, facts={name: fact for name, fact in decision.facts.items() if name != "measured_us"})
            if "measured_us" in decision.facts
            else decision
            for decision in recording.decisions
        ],
        leaf_values={**recording.leaf_values, **recording.run.values},
    )
