"""Rows of a recording: dataclasses whose fields are numbers, strings, or lists and dicts of them.

The *id* of a node is its index in the node table. Recorded nodes come first, in topological order, followed by the
nodes that passes produced, in order of production. A *position* counts applied and declined decisions: at position
``p``, the decisions ``0 … p-1`` have been made. Every change of the graph belongs to one decision, so a view can show
any position. Rows contain ids instead of references, so they can be written to JSON, sent to the browser and compared
between processes without conversion.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, TypeAlias, TypeVar

Fact: TypeAlias = Any
"""A JSON value; ``{"node": id}`` refers to a node."""
Kind: TypeAlias = Literal["leaf", "constant", "input", "operation", "call", "item"]
StageKind: TypeAlias = Literal["record", "rewrite", "order", "format", "memory", "run"]
Decides: TypeAlias = Literal["", "kernels", "batches", "merging"]
GroupKind: TypeAlias = Literal["kernel", "batch", "function"]
Verdict: TypeAlias = Literal["applied", "declined"]
_Number = TypeVar("_Number", int, float)
UNKNOWN = "?"
"""label of an unknown type: a file may not declare the result type of an operator"""


@dataclass(frozen=True, slots=True)
class Type:
    """Type of a value: shape, dtype name and device name. ``parts`` are the type rows of a tuple's members."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    parts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Scope:
    """Box around nodes in the user's program; ``parent`` is the scope row of the surrounding box.

    ``kind`` is "top", "scope", "function", "layer", "batch" or "file". ``type`` is the operator type in the model file
    ("nn.Conv2d", or the source of an expression), or "".
    """

    name: str
    kind: str
    parent: int
    type: str = ""


def line_unit(where: str) -> str:
    """Return the unit of positions in a source: "node" for ONNX files, which are binary, else "line"."""
    return "node" if where.endswith(".onnx") else "line"


@dataclass(frozen=True, slots=True)
class Source:
    """Position in a source: ``where`` is a cell ("In[3]") or the base name of a file, ``line`` counts from 1.

    If several calls of one function recorded nodes at the line, ``caller`` is the line of the call.
    """

    where: str
    line: int
    text: str
    caller_where: str = ""
    """like ``where``, for the line of the call; empty if only one call recorded the line, or the line is in no
    function
    """
    caller_line: int = 0

    @property
    def location(self) -> str:
        """``line 3`` for a cell, because its number changes from run to run, or ``net.py line 3`` for a file."""
        return self._with_caller(f"line {self.line}" if self.where.startswith("In[") else self._here)

    @property
    def full_location(self) -> str:
        """Complete location: ``In[3] line 2``, ``net.py line 3``, ``net.onnx node 18``.

        With a caller: ``net.py line 3, called from line 9``.
        """
        return self._with_caller(self._here)

    @property
    def short_location(self) -> str:
        """Location as ``line 3``, for a text about a single cell or file."""
        return self._with_caller(f"{line_unit(self.where)} {self.line}")

    @property
    def _here(self) -> str:
        return f"{self.where} {line_unit(self.where)} {self.line}"

    def _with_caller(self, location: str) -> str:
        """Return the location with the line of the call, and with its cell or file if that differs."""
        if not self.caller_where or (self.caller_where, self.caller_line) == (self.where, self.line):
            return location
        unnamed = self.caller_where == self.where or self.caller_where.startswith("In[")
        return f"{location}, called from {'' if unnamed else self.caller_where + ' '}line {self.caller_line}"


@dataclass(frozen=True, slots=True)
class SourceText:
    """Source lines of a cell or file: the lines that recorded nodes, and the surrounding code."""

    where: str
    """cell or file, as in the rows of sources"""
    numbers: tuple[int, ...]
    """line numbers in increasing order"""
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Body:
    """Graph of nodes: row 0 is the top graph, and each other row is the body of a function."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(slots=True)
class Nodes:
    """Table of nodes, as columns of equal length."""

    operation: list[int] = field(default_factory=list)
    """row of ``Recording.operations``"""
    kind: list[Kind] = field(default_factory=list)
    """"constant" is a number such as the 2 in ``2 * x``, which views show inside the nodes that read it"""
    label: list[str] = field(default_factory=list)
    """name given by the user to a leaf or call, else the name of the operation"""
    type: list[int] = field(default_factory=list)
    """row of ``Recording.types``"""
    operands: list[tuple[int, ...]] = field(default_factory=list)
    """ids of the operands as recorded; apply ``Recording.substitutions`` to obtain the operands at a position"""
    scope: list[int] = field(default_factory=list)
    source: list[int] = field(default_factory=list)
    """row of ``Recording.sources``; −1 if unknown"""
    flops: list[int | None] = field(default_factory=list)
    """None if unknown"""
    bytes: list[int] = field(default_factory=list)
    """number of bytes allocated for the result; 0 for a view of the operand"""
    born: list[int] = field(default_factory=list)
    """decision that produced the node; −1 if the user recorded it"""
    gone: list[int] = field(default_factory=list)
    """decision that replaced, merged or removed the node; −1 if it remains"""
    body: list[int] = field(default_factory=list)
    """graph of the node: a row of ``Recording.bodies``"""
    callee: list[int] = field(default_factory=list)
    """body that a call calls; −1 for other nodes"""
    attributes: dict[int, dict[str, str]] = field(default_factory=dict)
    """node id → attribute name → value as a string, for nodes with attributes. A long tuple is abbreviated to its first
    members, its length and a digest.
    """

    def __len__(self) -> int:
        return len(self.operation)


@dataclass(frozen=True, slots=True)
class Stage:
    """Stage of a plan, usually one pass.

    Its decisions are ``first … last-1``, and ``counts`` describes the resulting graph.

    ``kind`` is "record" (stage 0, without decisions), "rewrite" (changes the graph), "order" (picks kernels), "format"
    (memory formats of results), "memory" (their offsets) or "run". ``counts`` has "nodes", "operations", "flops",
    "bytes" (total size of all kernel results), and counts specific to the stage. Before fusion, each operation is a
    kernel; after fusion, values inside a kernel are not written.

    ``decides`` is what the decisions of the stage determine: which operations share a "kernel", which calls form
    "batches", or "merging" of equal nodes; "" for any other change. Views and assertions use it, and never the name of
    a stage. ``limits`` states what a kernel can contain, as a clause. ``pipeline`` is the name of the passes that a
    compiler runs together, "" if unknown; consecutive stages of a pipeline share a chip in the view.
    """

    name: str
    kind: StageKind
    first: int
    last: int
    counts: dict[str, int]
    purpose: str = ""
    micros: float = 0.0
    decides: Decides = ""
    limits: str = ""
    pipeline: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """A rule that was applied, or that declined, with the reason.

    ``reason`` is a template over ``facts``. Equal declined decisions are merged into one decision with many
    ``subjects``. ``rule_index`` is the position of the rule in its chain, and ``location`` is its class as "path:line".
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
    """Meaning of all decisions with the same code and template, and the change that would reverse these decisions.

    ``anchor`` identifies the entry in the catalogue of reasons (assets/reasons.md). ``numerics`` describes how the
    rewrite affects computed numbers, as in "rounding: the last digits may differ …"; "" if all bits are kept.
    """

    code: str
    reason: str
    meaning: str
    change: str
    anchor: str
    numerics: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that a decision grouped: ``kind`` is "kernel" (fused), "batch" (batched) or "function" (inlined).

    In a kernel, the last member is the result; the values of other members are not written to memory.
    """

    decision: int
    kind: GroupKind
    label: str
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """Kernel in the schedule: the nodes that it computes (the last node is its result) and its memory.

    A field is None if it is unknown: another compiler or a runtime may not report it. Views and texts leave it out. A
    node may belong to several kernels, which then each compute it.

    When this kernel was picked, ``ready_count`` kernels were ready to run. ``ready_candidates`` lists the results of up
    to eight of them, including this kernel's result. ``pick_reason`` is the criterion for the choice: "only",
    "constant", "ready_first", "own_order" of a user's pass, or the heuristic of the order; "" if unknown. With several
    lanes, ``waiting_count`` kernels wait for operands: all kernels that compute these operands have started, but by the
    estimates some have not ended. ``waiting`` lists the results of up to eight waiting kernels. ``buffer`` is a row of
    ``Schedule.buffers``; −1 for a view or for a result returned to the user.
    """

    nodes: tuple[int, ...]
    level: int | None = None
    chain: int | None = None
    flops: int | None = None
    bytes: int = 0
    workspace: int | None = None
    """number of bytes of working memory that the kernel needs in addition to its operands and result"""
    estimate: float | None = None
    """estimated time in µs, computed with the reference table of costs"""
    buffer: int | None = None
    in_place: bool = False
    ready_candidates: tuple[int, ...] = ()
    ready_count: int = 0
    pick_reason: str = ""
    frees: tuple[int, ...] = ()
    """nodes whose values are no longer needed after this kernel"""
    live: int | None = None
    """planned number of bytes that are in use while this kernel runs: its working memory, and results from the kernel
    that writes them to their last reader. Leaves, and values that are computed once for all runs, are excluded.
    """
    waiting: tuple[int, ...] = ()
    waiting_count: int = 0


@dataclass(frozen=True, slots=True)
class Placement:
    """Location and form of a kernel, as a compiler or runtime reports them; "" for what it does not report."""

    name: str = ""
    """name of the kernel in the compiler or runtime, such as ``FusedConv``"""
    computed_by: str = ""
    """name and version of the runtime: ``onnxruntime 1.32.0``"""
    provider: str = ""
    """such as ``CPUExecutionProvider``"""
    device: str = ""

    @property
    def text(self) -> str:
        """The known parts on one line: ``onnxruntime 1.32.0 · CPUExecutionProvider · FusedConv``."""
        return " · ".join(filter(None, [self.computed_by, self.provider, self.device, self.name]))


@dataclass(frozen=True, slots=True)
class Code:
    """Code that a compiler generated for a kernel."""

    language: str
    """name of the language, as the compiler's users write it: ``LLVM IR``, ``C++``"""
    text: str
    lines: tuple[tuple[int, int], ...] = ()
    """(line number from 1, node) for the lines that compute a node of the kernel"""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Planned run: kernels in order, the size of each buffer in bytes, and the required memory in bytes.

    ``peak`` includes the arena (all buffers and scratch memory), returned results and working memory; the stage that
    assigns memory lists each of them. ``peak_without_reuse`` is the peak that would result if every result were kept. A
    peak is None if it is unknown.
    """

    kernels: tuple[Kernel, ...]
    buffers: tuple[int, ...] = ()
    peak: int | None = None
    peak_without_reuse: int | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a value: statistics of its finite elements, a 32-bin histogram, and a thumbnail (rows of 0…255)."""

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
    """elements as a string, if the value is small"""


@dataclass(frozen=True, slots=True)
class Step:
    """Measured run of one kernel, in µs from the start of the run.

    ``live`` is the number of bytes in use while it runs, as planned or measured; None if unknown.
    """

    kernel: int
    start: float
    micros: float
    live: int | None = None
    thread: int = 0
    """0 for the calling thread; other numbers are workers"""


@dataclass(slots=True)
class Run:
    """Measurements of a run."""

    executor: str
    steps: tuple[Step, ...]
    micros: float
    values: dict[int, Summary] = field(default_factory=dict)
    warm: bool = False
    """whether the program had already run, so its memory was allocated and its constants were computed"""
    watched: bool = False
    """whether summaries of values were computed between the kernels of this run"""


@dataclass(frozen=True, slots=True)
class InterfaceRow:
    """Input or output of a model. Each member of a sequence has its own row, named ``x[0]``, ``x[1]``, …

    Leaves of a recording are in the order of their first use, and results are named after operations. These rows
    contain the order and the names of the file, which its users know.
    """

    direction: Literal["input", "output"]
    name: str
    node: int


@dataclass(frozen=True, slots=True)
class OperatorAttribute:
    """Attribute of an operator type: its default value as a string ("" for none), and its meaning, in Markdown."""

    name: str
    default: str = ""
    meaning: str = ""
    type: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class OperatorOperand:
    """Formal input or output of an operator type: its type or the name of its constraint, and its meaning.

    ``option`` is "optional" or "variadic", or "" for a single required operand.
    """

    name: str
    type: str = ""
    meaning: str = ""
    option: str = ""


@dataclass(frozen=True, slots=True)
class OperatorType:
    """Operator type of a model file, and its documentation, which the operators of the type share.

    ``origin`` is the operator set that defines the type, with its version in the file: ``ONNX, opset 18``. ``url`` is
    a page with the whole documentation, or "". Meanings and the description, which is "" if it is the summary, are
    Markdown.
    """

    name: str
    origin: str
    summary: str = ""
    url: str = ""
    attributes: tuple[OperatorAttribute, ...] = ()
    description: str = ""
    inputs: tuple[OperatorOperand, ...] = ()
    outputs: tuple[OperatorOperand, ...] = ()
    constraints: tuple[tuple[str, str, str], ...] = ()
    """(name of a type constraint, the types that it allows, its meaning)"""


@dataclass(frozen=True, slots=True)
class FileOperator:
    """Operator of a model file: its attributes and weights, with the names used in the file.

    An operator may be recorded as several nodes, or as none, and nodes have other attributes than the operator in the
    file ("pads", "group").
    """

    scope: int
    """scope row of the operator's box"""
    attributes: tuple[tuple[str, str], ...] = ()
    """(name, value as a string) pairs; a long list is abbreviated to its first members, its length and a digest"""
    weights: tuple[tuple[str, str], ...] = ()
    """(name of a weight in the operator, its name in the file and its type) pairs"""
    doc: str = ""
    """description written by the model's author"""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    """names of the operands that the operator reads and writes, without its weights"""
    parameters: tuple[tuple[str, int], ...] = ()
    """(formal name of an input, index in ``inputs``) pairs in the order of the operator type's parameters; the index is
    −1 for an input that is listed under this name in ``weights`` or ``attributes``, and the name is "" if there is none
    """
    results: tuple[tuple[str, int], ...] = ()
    """(formal name, node) pairs of ``outputs``; the name is "" if the format has none, and the node −1 if no node was
    recorded
    """
    documentation: int = -1
    """row of the operator's type in ``operator_types``, or −1"""
    implied: tuple[str, ...] = ()
    """attributes that the file omits, although they have values"""
    stated: tuple[tuple[str, str], ...] = ()
    """(name, value) pairs that the file states about the operator, its outputs and its weights"""


def total(numbers: Iterable[_Number | None]) -> _Number | None:
    """Return the sum of numbers, or None if any of them is unknown."""
    rows = list(numbers)
    known = [number for number in rows if number is not None]
    return sum(known) if len(known) == len(rows) else None


Substitution = tuple[int, int, int]
"""decision number, replaced node, replacement"""


def in_order(rows: Sequence[Substitution]) -> list[Substitution]:
    """Return rows in the order of their decisions.

    The replacement in a row is never a node that an earlier row replaces.

    The planner may record a replacement late, with the index of an earlier decision, because the body of a nested call
    belongs to the decision that inlined the outer call. Readers of the replaced node then read its current replacement.
    A row that replaces a node by itself is kept, so validation rejects it.
    """
    if all(before[0] <= next_row[0] for before, next_row in pairwise(rows)):
        return list(rows)
    replacement_of: dict[int, int] = {}
    ordered = []
    # The sort is stable, so rows of one decision keep their order.
    for decision, old, new in sorted(rows, key=lambda row: row[0]):
        chain = []
        while new in replacement_of:
            chain.append(new)
            new = replacement_of[new]
        replacement_of.update(dict.fromkeys(chain, new))  # path compression: no chain is followed twice
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
    """Recorded nodes that together compute a known function, and the name of the function: "GELU", "softmax"."""

    name: str
    node: int
    """node that produces the result"""
    operand: int
    """node of the operand; −1 if no node has its value, such as the −x of 1 / (1 + exp(x))"""
    members: tuple[int, ...]
    """all nodes of the composition, including the result; other nodes may also read their values"""
