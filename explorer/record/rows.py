"""The rows of a recording: every field is a number, a string, or a list or dict of them.

A node is named by its *id*: its index in the node table, recorded nodes first, in topological order, then the
nodes that passes produced, in the order in which they did. A *position* counts applied and declined decisions:
at position ``p`` the decisions ``0 … p-1`` have been taken. Every change of the graph belongs to one decision, so
that a view can stand at any position.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Fact: TypeAlias = Any
"""A JSON value; ``{"node": id}`` names a node."""
Kind: TypeAlias = Literal["leaf", "constant", "input", "operation", "call", "item"]
StageKind: TypeAlias = Literal["record", "rewrite", "order", "format", "memory", "run"]
Verdict: TypeAlias = Literal["applied", "declined"]


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a value: shape, dtype name and device name; ``parts`` are the type rows of a tuple's members."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    parts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Scope:
    """One box that the user's program drew; ``parent`` is a scope row.

    ``kind`` is "top", "scope", "function", "layer", "batch" or "file".
    ``type`` is the type of the file's operator that it stands for ("nn.Conv2d", or an expression's text), else "".
    """

    name: str
    kind: str
    parent: int
    type: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """Where something was written: ``where`` is a cell ("In[3]") or a file's base name, ``line`` counts from 1."""

    where: str
    line: int
    text: str

    @property
    def place(self) -> str:
        """Say where: ``line 3`` of a cell, whose number differs from run to run, or ``net.py line 3`` of a file."""
        return f"line {self.line}" if self.where.startswith("In[") else f"{self.where} line {self.line}"


@dataclass(frozen=True, slots=True)
class Body:
    """A graph of nodes: row 0 is the top graph, every other row one function's body."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(slots=True)
class Nodes:
    """The node table, in columns of equal length."""

    operation: list[int] = field(default_factory=list)
    """row of ``Recording.operations``"""
    kind: list[Kind] = field(default_factory=list)
    """"constant" is a number such as the 2 in ``2 * x``: views write it inside its consumers"""
    label: list[str] = field(default_factory=list)
    """the user's name of a leaf or call, else the operation's name"""
    type: list[int] = field(default_factory=list)
    """row of ``Recording.types``"""
    operands: list[tuple[int, ...]] = field(default_factory=list)
    """node ids as recorded; at a position, read them through ``Recording.substitutions``"""
    scope: list[int] = field(default_factory=list)
    source: list[int] = field(default_factory=list)
    """row of ``Recording.sources``, −1 where unknown"""
    flops: list[int] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    """bytes of the result that must be allocated; 0 for a view of its operand"""
    born: list[int] = field(default_factory=list)
    """the decision that produced the node, −1 when the user recorded it"""
    gone: list[int] = field(default_factory=list)
    """the decision that replaced, merged or pruned the node, −1 when it lives to the end"""
    body: list[int] = field(default_factory=list)
    """the graph that the node stands in: a row of ``Recording.bodies``"""
    callee: list[int] = field(default_factory=list)
    """for a call: the body that it calls, else −1"""
    attributes: dict[int, dict[str, str]] = field(default_factory=dict)
    """node id → attribute name → value as text, only where there are any"""

    def __len__(self) -> int:
        return len(self.operation)


@dataclass(frozen=True, slots=True)
class Stage:
    """What one pass did: its decisions are ``first … last-1``; ``counts`` describe the graph after it.

    ``kind`` says what the stage shows: "record" (stage 0, no decisions), "rewrite" (a changed graph), "order" (kernels
    as they are picked), "format" (how results lie in memory), "memory" (where they lie) or "run".
    ``counts`` holds "nodes", "operations", "flops", "bytes" (*written*: those of the results of all kernels; before the
    fusion each operation is a kernel, after it a value inside a kernel is not written) and what else the stage states.
    """

    name: str
    kind: StageKind
    first: int
    last: int
    counts: dict[str, int]
    purpose: str = ""
    micros: float = 0.0


@dataclass(frozen=True, slots=True)
class Decision:
    """One thing that a rule did, or declined to do, and why.

    ``reason`` is a template over ``facts``; equal declined ones are one decision with many ``subjects``.
    ``chain`` is the rule's place in its chain; ``location`` its class as "file:line".
    """

    stage: int
    rule: str
    verdict: Verdict
    code: str
    reason: str
    facts: dict[str, Fact]
    subjects: tuple[int, ...]
    produced: tuple[int, ...] = ()
    rule_index: int = 0
    location: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes put together by a decision: ``kind`` is "kernel" (fused), "batch" (grouped) or "function" (opened).

    Of a kernel the last member gives the result; the others' values are not written.
    """

    decision: int
    kind: str
    label: str
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One scheduled step: the nodes it computes (the last one's value is its result), and where it stands.

    ``ready`` lists up to eight results, its own among them, of the ``ready_count`` kernels whose operands are there at
    this moment; ``why`` says what decided: "only", "constant", "ready_first", or the order's rule. Where kernels run at
    one time, ``waiting`` lists up to eight results of the ``waiting_count`` kernels of which every operand has begun
    and one has not ended, by the estimates. ``buffer`` is a row of ``Schedule.buffers``, −1 for a view or a result
    handed to the user.
    """

    nodes: tuple[int, ...]
    level: int
    chain: int
    flops: int
    bytes: int
    workspace: int
    """bytes of working memory, which it needs beside its operands and its result while it runs"""
    estimate: float
    """µs, from the reference price table"""
    buffer: int
    in_place: bool
    ready_candidates: tuple[int, ...]
    ready_count: int
    pick_reason: str
    frees: tuple[int, ...] = ()
    """the nodes whose values are dead after this kernel"""
    live: int = 0
    """planned bytes alive while this kernel runs: of results from the kernel that writes them to the last one that
    reads them, and of working memory; leaves and what is computed once for all runs are excluded"""
    waiting: tuple[int, ...] = ()
    waiting_count: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """The planned run: kernels in order, the size of each buffer, and the memory it needs in bytes.

    ``peak`` is that of the arena, which holds all buffers and scratch memory, of the results that are handed out, and
    of working memory; the stage "buffers" counts each. ``peak_without_reuse`` is it if every result were kept.
    """

    kernels: tuple[Kernel, ...]
    buffers: tuple[int, ...]
    peak: int
    peak_without_reuse: int


@dataclass(frozen=True, slots=True)
class Summary:
    """A value in few numbers: statistics over finite elements, a 32-bin histogram, a thumbnail (rows of 0…255)."""

    shape: tuple[int, ...]
    dtype: str
    min: float | None
    max: float | None
    mean: float | None
    std: float | None
    nan: int
    inf: int
    histogram: tuple[int, ...] = ()
    thumbnail: tuple[tuple[int, ...], ...] = ()
    elements: str = ""
    """the elements themselves, as text, for small values"""


@dataclass(frozen=True, slots=True)
class Step:
    """The measured run of one kernel, in µs from the start of the run; ``live`` bytes are measured while it runs."""

    kernel: int
    start: float
    micros: float
    live: int
    thread: int = 0
    """0 is the thread that asked for the run, others are workers"""


@dataclass(slots=True)
class Run:
    """The measurements of a run."""

    executor: str
    steps: tuple[Step, ...]
    micros: float
    values: dict[int, Summary] = field(default_factory=dict)
