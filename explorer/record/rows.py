"""Rows of a recording: dataclasses whose fields are numbers, strings, or lists and dicts of them.

A node's *id* is its index in the node table: recorded nodes come first, in topological order, then the nodes that
passes produced, in order of production. A *position* counts applied and declined decisions: at position ``p`` the
decisions ``0 … p-1`` have been made. Every change of the graph belongs to one decision, so that a view can show any
position. Rows contain ids instead of references, so that they can be written to JSON, sent to the browser and compared
between processes without conversion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, TypeAlias

Fact: TypeAlias = Any
"""A JSON value; ``{"node": id}`` refers to a node."""
Kind: TypeAlias = Literal["leaf", "constant", "input", "operation", "call", "item"]
StageKind: TypeAlias = Literal["record", "rewrite", "order", "format", "memory", "run"]
GroupKind: TypeAlias = Literal["kernel", "batch", "function"]
Verdict: TypeAlias = Literal["applied", "declined"]
UNKNOWN = "?"
"""label of an unknown type: a file need not declare an operator's result type"""


@dataclass(frozen=True, slots=True)
class Type:
    """Type of a value: shape, dtype name and device name; ``parts`` are the type rows of a tuple's members."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    parts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Scope:
    """Box around nodes in the user's program; ``parent`` is a scope row.

    ``kind`` is "top", "scope", "function", "layer", "batch" or "file". ``type`` is the operator type in the model file
    ("nn.Conv2d", or the source of an expression), or "".
    """

    name: str
    kind: str
    parent: int
    type: str = ""


def line_unit(where: str) -> str:
    """Return the unit of positions in a source: ONNX files are binary, and count nodes instead of lines."""
    return "node" if where.endswith(".onnx") else "line"


@dataclass(frozen=True, slots=True)
class Source:
    """Position in a source: ``where`` is a cell ("In[3]") or the base name of a file, ``line`` counts from 1.

    If several calls of one function recorded the line, ``caller`` is the line of the call.
    """

    where: str
    line: int
    text: str
    caller_where: str = ""
    """like ``where``; empty if one call recorded the line, or the line is in no function"""
    caller_line: int = 0

    @property
    def place(self) -> str:
        """``line 3`` for a cell, whose number changes from run to run, or ``net.py line 3`` for a file."""
        return self._with_caller(f"line {self.line}" if self.where.startswith("In[") else self._here)

    @property
    def whole_place(self) -> str:
        """Location as ``In[3] line 2``, ``net.py line 3``, ``net.onnx node 18`` or ``net.py line 3, called from line
        9``."""
        return self._with_caller(self._here)

    @property
    def short_place(self) -> str:
        """Location as ``line 3``, for text about one cell or file."""
        return self._with_caller(f"{line_unit(self.where)} {self.line}")

    @property
    def _here(self) -> str:
        return f"{self.where} {line_unit(self.where)} {self.line}"

    def _with_caller(self, location: str) -> str:
        """Append the caller, with its cell or file if that differs."""
        if not self.caller_where or (self.caller_where, self.caller_line) == (self.where, self.line):
            return location
        unnamed = self.caller_where == self.where or self.caller_where.startswith("In[")
        return f"{location}, called from {'' if unnamed else self.caller_where + ' '}line {self.caller_line}"


@dataclass(frozen=True, slots=True)
class SourceText:
    """Source lines of a cell or file, as written: those that recorded nodes and the surrounding code."""

    where: str
    """same as in the rows of sources"""
    numbers: tuple[int, ...]
    """line numbers, increasing"""
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Body:
    """Graph of nodes: row 0 is the top graph, each other row the body of a function."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(slots=True)
class Nodes:
    """Node table, in columns of equal length."""

    operation: list[int] = field(default_factory=list)
    """row of ``Recording.operations``"""
    kind: list[Kind] = field(default_factory=list)
    """"constant" is a number such as the 2 in ``2 * x``, which views show inside its consumers"""
    label: list[str] = field(default_factory=list)
    """user-defined name of a leaf or call, else the operation's name"""
    type: list[int] = field(default_factory=list)
    """row of ``Recording.types``"""
    operands: list[tuple[int, ...]] = field(default_factory=list)
    """ids of the operands as recorded; to read them at a position, apply ``Recording.substitutions``"""
    scope: list[int] = field(default_factory=list)
    source: list[int] = field(default_factory=list)
    """row of ``Recording.sources``, −1 if unknown"""
    flops: list[int] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    """allocation size of the result in bytes; 0 for a view of its operand"""
    born: list[int] = field(default_factory=list)
    """decision that produced the node, or −1 if the user recorded it"""
    gone: list[int] = field(default_factory=list)
    """decision that replaced, merged or removed the node, or −1 if it remains"""
    body: list[int] = field(default_factory=list)
    """graph of the node: a row of ``Recording.bodies``"""
    callee: list[int] = field(default_factory=list)
    """body that a call refers to, or −1"""
    attributes: dict[int, dict[str, str]] = field(default_factory=dict)
    """node id → attribute name → value as a string, for nodes with attributes; a long tuple is abbreviated to its first
    members, its length and a digest"""

    def __len__(self) -> int:
        return len(self.operation)


@dataclass(frozen=True, slots=True)
class Stage:
    """Stage of a plan, usually one pass: its decisions are ``first … last-1``; ``counts`` describe the graph after it.

    ``kind`` is "record" (stage 0, without decisions), "rewrite" (changes the graph), "order" (picks kernels), "format"
    (memory formats of results), "memory" (their offsets) or "run". ``counts`` has "nodes", "operations", "flops",
    "bytes" (total size of all kernel results; before fusion each operation is a kernel, after it values inside a kernel
    are not written), and counts specific to the stage.
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
    """Application of a rule, or a rule that declined, with the reason.

    ``reason`` is a template over ``facts``; equal declined decisions are merged into one decision with many
    ``subjects``. ``rule_index`` is the rule's position in its chain; ``location`` is its class as "file:line".
    Example: see ``ex.EvalPlan``.
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
class Explanation:
    """Meaning of all decisions with one code and template, and the change that would reverse them.

    ``anchor`` identifies the entry in the catalogue of reasons (assets/reasons.md). ``numerics`` is the effect of the
    rewrite on numbers, as in "rounding: the last digits may differ"; "" for decisions that keep the bits.
    """

    code: str
    reason: str
    meaning: str
    change: str
    anchor: str
    numerics: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes grouped by a decision: ``kind`` is "kernel" (fused), "batch" (batched) or "function" (inlined).

    In a kernel, the last member is the result; the values of other members are not written.
    """

    decision: int
    kind: GroupKind
    label: str
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """Kernel in the schedule: the nodes it computes (the last one is its result) and its memory.

    ``ready_candidates`` lists up to eight results, including its own, of the ``ready_count`` kernels that could have
    run at this point. ``pick_reason`` is the criterion for the choice: "only", "constant", "ready_first", "own_order"
    of a user's pass, or the heuristic of the order. With several lanes, ``waiting`` lists up to eight results of the
    ``waiting_count`` kernels whose operands have all begun but not all ended, by the estimates. ``buffer`` is a row of
    ``Schedule.buffers``, −1 for a view or a result returned to the user.
    """

    nodes: tuple[int, ...]
    level: int
    chain: int
    flops: int
    bytes: int
    workspace: int
    """bytes of working memory needed while it runs, in addition to operands and result"""
    estimate: float
    """estimated µs, from the reference price table"""
    buffer: int
    in_place: bool
    ready_candidates: tuple[int, ...]
    ready_count: int
    pick_reason: str
    frees: tuple[int, ...] = ()
    """nodes whose values are dead after this kernel"""
    live: int = 0
    """planned bytes live while this kernel runs: results, from the kernel that writes them to their last reader, and
    working memory; excludes leaves and values that are computed once for all runs"""
    waiting: tuple[int, ...] = ()
    waiting_count: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """Planned run: kernels in order, the size of each buffer, and the memory needed in bytes.

    ``peak`` counts the arena (all buffers and scratch memory), returned results and working memory; the stage "buffers"
    lists each. ``peak_without_reuse`` is the peak if every result were kept.
    """

    kernels: tuple[Kernel, ...]
    buffers: tuple[int, ...]
    peak: int
    peak_without_reuse: int


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a value: statistics of finite elements, a 32-bin histogram, a thumbnail (rows of 0…255)."""

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
    """elements as a string, for small values"""


@dataclass(frozen=True, slots=True)
class Step:
    """Measured run of one kernel, in µs from the start of the run; ``live`` are the bytes planned for the kernel."""

    kernel: int
    start: float
    micros: float
    live: int
    thread: int = 0
    """0 is the calling thread, others are workers"""


@dataclass(slots=True)
class Run:
    """Measurements of a run."""

    executor: str
    steps: tuple[Step, ...]
    micros: float
    values: dict[int, Summary] = field(default_factory=dict)
    warm: bool = False
    """whether the program had run before, so that its memory was allocated and its constants were computed"""
    watched: bool = False
    """whether values were summarised between the kernels of this run"""


@dataclass(frozen=True, slots=True)
class InterfaceRow:
    """Input or output of a model; each member of a sequence has its own row, named ``x[0]``, ``x[1]``, …

    Leaves of a recording are in order of first use, and results are named after operations; a reader of the file knows
    neither.
    """

    direction: Literal["input", "output"]
    name: str
    node: int


@dataclass(frozen=True, slots=True)
class FileOperator:
    """Operator of a model file: its attributes and weights with the names used in the file.

    An operator may be recorded as several nodes, or none. Attributes of nodes belong to the engine's operations, while
    a reader looks for the file's attributes ("pads", "group").
    """

    scope: int
    """row of its box"""
    attributes: tuple[tuple[str, str], ...] = ()
    """name and value as strings; a long list is abbreviated to its first members, its length and a digest"""
    weights: tuple[tuple[str, str], ...] = ()
    """name of each weight in the operator, and its name in the file with its type"""
    doc: str = ""
    """description by the model's author"""


Substitution = tuple[int, int, int]
"""decision number, replaced node, replacement"""


def in_order(rows: Sequence[Substitution]) -> list[Substitution]:
    """Return rows in the order of their decisions, in which no row has a replacement that an earlier row replaces.

    The planner may record a replacement late, with the index of an earlier decision, because the body of a nested call
    belongs to the decision that inlined the outer call. Readers of the replaced node then read its current replacement.
    A row that replaces a node by itself is kept, so that validation rejects it.
    """
    if all(before[0] <= next_row[0] for before, next_row in pairwise(rows)):
        return list(rows)
    replacement_of: dict[int, int] = {}
    ordered = []
    # The sort is stable, so that rows of one decision keep their order.
    for decision, old, new in sorted(rows, key=lambda row: row[0]):
        chain = []
        while new in replacement_of:
            chain.append(new)
            new = replacement_of[new]
        replacement_of.update(dict.fromkeys(chain, new))  # path compression, so that no chain is followed twice
        if old != new:
            replacement_of.setdefault(old, new)
        ordered.append((decision, old, new))
    return ordered


COMMUTATIVE = frozenset(
    {
        "add", "add_n", "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "fmax", "fmin", "gcd", "hypot", "lcm",
        "logaddexp", "logaddexp2", "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "multiply",
        "not_equal",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Composition:
    """Recorded nodes that together compute a known function, and its name: "GELU", "softmax"."""

    name: str
    node: int
    """the node that produces the result"""
    operand: int
    """the operand's node; −1 if no node has this value, such as the −x of 1 / (1 + exp(x))"""
    members: tuple[int, ...]
    """all its nodes, including the result; other nodes may read their values"""
