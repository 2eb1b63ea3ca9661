"""Tables of the unpacked payload as the front end reads them; Python composes texts, and JavaScript lays them out.

Rows that are missing here have the plain form (explorer/record). Texts are safe to show, each on one line. The front
end's types are generated from these classes (assets/front_end_types.py), and a test compares them with payloads.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from explorer.record.layer_rows import Gradient
from explorer.record.rows import (
    Body,
    Composition,
    FileOperator,
    InterfaceRow,
    Nodes,
    Run,
    Schedule,
    Scope,
    StageKind,
    Summary,
    Verdict,
)


class TypeTable(TypedDict):
    """Type of a value: its text is that of the shape, with the names of its dimensions, and of what follows it."""

    shape: tuple[int, ...]
    named: NotRequired[str]
    """the shape with the names of its dimensions, ``batch=32×64``"""
    text: str
    """text after the shape: " float32" of ``32×64 float32``"""
    dtype: str


class SourceTable(TypedDict):
    """Line of a cell or a file."""

    place: str
    """``In[3] line 2``"""
    text: str


class ListingTable(TypedDict):
    """Cell or file: the lines that recorded nodes, and those around them."""

    where: str
    unit: str
    """what numbers count: "line" or "node" """
    numbers: list[int]
    sources: list[list[int]]
    """rows of sources, for each line"""
    lines: list[str]
    """text of each line; empty where the sources have them"""


class StageTable(TypedDict):
    """Stage, with its numbers in words."""

    name: str
    kind: StageKind
    first: int
    last: int
    purpose: str
    size: str
    """``12 kernels``"""
    cost: str
    """``3.6 G flops · 12 MB written``"""
    result: str
    """``22 kernels fused, 8 declined; 12.3 MB never written.``"""
    counts: list[tuple[str, str]]
    """names and texts"""


class Code(TypedDict):
    """Part of a sentence that is written as code."""

    code: str


class ReasonTable(TypedDict):
    """Template of a sentence: texts, code, and labels of facts."""

    sentence: list[str | Code | tuple[str] | tuple[str, str]]
    """parts: a text, code, ``[label of a fact]``, and ``[label, "code"]`` for a fact that is written as code"""
    explanation: int
    """row of the explanations, or −1"""
    note: NotRequired[str]


class ExplanationTable(TypedDict):
    """Meaning of a reason."""

    meaning: str
    change: str
    anchor: str
    numerics: str


class DecisionTable(TypedDict):
    """Decision; a fact is a text, a node, or several of both."""

    stage: int
    rule: str
    verdict: Verdict
    code: str
    location: str
    reason: int
    """row of the reasons: a sentence is a template once for all decisions alike"""
    facts: dict[str, str | int | list[str | int]]
    """label → fact; composed sentences would repeat the facts, and could not link the nodes that they mention"""
    subjects: tuple[int, ...]
    produced: tuple[int, ...]
    before: list[int]
    """declined decisions that belong before it (record/node_decisions.py)"""
    cost: float
    """estimated µs that it costs to decline, which is not among the facts unless the sentence names it"""


class GroupTable(TypedDict):
    """Nodes put together, with titles and their widths in px, the longest first."""

    decision: int
    kind: str
    members: tuple[int, ...]
    titles: list[tuple[str, float]]


class LayerTable(TypedDict):
    """Layer, with its ports and policies in words."""

    name: str
    type: str
    ports: str
    """``a → b``"""
    use: str
    """what it is built for: ``training``"""
    order: str
    clauses: list[str]
    policies: list[tuple[str, str]]
    """text, and the layer that says so"""
    feedback: list[tuple[bool, str]]
    """whether a gradient is built, and why"""
    scopes: list[int]


class LeafTable(TypedDict):
    """Elements and bytes of the values that exist before a run."""

    parameters: dict[int, int]
    """node → elements"""
    weights: dict[int, int]
    """node → bytes"""
    others: dict[int, int]
    """node → elements"""


class RecordingTables(TypedDict):
    """Tables of a recording."""

    title: str
    options: dict[str, Any]
    operations: list[str]
    types: list[TypeTable]
    declared: NotRequired[dict[int, str]]
    """node → dimensions as a model's file declares them, and where, if any are named or open"""
    scopes: list[Scope]
    sources: list[SourceTable]
    listings: list[ListingTable]
    bodies: list[Body]
    nodes: Nodes
    """labels are names in a sentence, with the constants inside"""
    stages: list[StageTable]
    reasons: list[ReasonTable]
    explanations: list[ExplanationTable]
    decisions: list[DecisionTable]
    substitutions: list[tuple[int, int, int]]
    declined_edges: list[tuple[int, int]]
    """decision, 4 × the reader's index in its subjects + the value's index in the reader's operands"""
    declined_readers: list[tuple[int, int, int]]
    """decision, operand, reader: the few declined edges that have no such indices"""
    accounts: dict[str, str]
    """kind → sentence about {node}, of two nodes that no decision is about (record/node_decisions.py)"""
    marks: dict[int, dict[int, str]]
    """decision → node → text behind its name, of sentences with nodes of equal names"""
    groups: list[GroupTable]
    gradients: NotRequired[list[Gradient]]
    layers: list[LayerTable]
    operators: NotRequired[list[FileOperator]]
    interface: NotRequired[list[InterfaceRow]]
    compositions: NotRequired[list[Composition]]
    variables: NotRequired[dict[int, str]]
    """node → the user's variable"""
    leaf_values: NotRequired[dict[int, Summary]]
    """values that exist before a run, if any was looked at"""
    leaves: LeafTable
    first_nan: int
    """first node whose value contains a NaN, or −1"""
    schedule: Schedule | None
    run: Run | None


class ItemTable(TypedDict):
    """Slot or box inside a box; without a place where the box is not laid out yet."""

    slot: NotRequired[int]
    box: NotRequired[int]
    at: NotRequired[tuple[int, int, int, int]]
    """x, y, width, height"""
    rank: NotRequired[int]


class BoxTable(TypedDict):
    """Container of slots and boxes; an edge is its items, its route, its ports and the names of these.

    A label is the items of its edge, its ports, x, y, side and slot; a crossing is a side, a slot and a port.
    """

    kind: str
    """top, body, scope, function, layer, file, batch, chain, repeat, stack, part or block"""
    label: str
    text: list[str]
    """the two to four lines of the closed box, its name first, shortened to fit"""
    type: str
    """of a file's operator, ``nn.Conv2d``, or of a layer; else "" """
    layer: int
    """row of the recording's layers, −1 for another box"""
    operator: int
    """row of the recording's operators, −1 for another box"""
    batches: list[int]
    """decisions that formed its contents, of the box of a batch"""
    count: int
    """the "n" of "×n", 1 where there is none"""
    parent: int
    open: bool
    """whether it is open at the beginning"""
    closed: tuple[int, int]
    """size, drawn as one node"""
    size: tuple[int, int]
    """size when open, with all child boxes closed"""
    placed: bool
    """whether its inside was sent already"""
    ports: tuple[list[int], list[int]]
    """x where edges enter at its top, and where they leave at its bottom"""
    items: list[ItemTable]
    edges: list[Any]
    """``[from item, to item, [x0, y0, x1, y1, …], from port, to port]``, cubic Bézier points"""
    labels: list[tuple[int, int, int, int, int, int, int, int]]
    """room next to edges for the type of a slot's value"""
    crossings: list[tuple[int, int, int]]
    """port of a value at its top (0) or bottom (1), if not 0"""


class SlotTable(TypedDict):
    """Place that nodes share."""

    nodes: list[int]
    text: list[int]
    """row of the texts, for each node"""
    at: list[tuple[int, int, int, int]]
    """x, y, width, height of each node, relative to the slot"""


class LayoutTables(TypedDict):
    """Boxes, slots and their texts: see labels.Text; "turned" has the other direction."""

    direction: Literal["down", "right"]
    turned: NotRequired[list[Any]]

    boxes: list[BoxTable]
    slots: list[SlotTable]
    texts: list[tuple[str, str, str, str, str]]
    """name, type, ghost, second line and formula, of which all but the formula are shortened to fit"""
    bodies: list[int]
    """box of each graph, the first of which is 0"""


class ReplayTables(TypedDict):
    """Rules of the story, applied."""

    ends: list[int]
    """last step of each stage; the next stage begins after it"""
    kernels: list[list[int]]
    """those that each stage picks or runs, a step each, after its decisions"""
    merges: list[int]
    """rows of substitutions: those by an equal node of another slot ("×n")"""
    outlined: list[int]
    """last position at which each group has an outline; −1: it has none"""
    opens: list[tuple[int, int, int]]
    """box, first and last instant at which an open box is drawn open"""
    rows: list[tuple[int, int, str]]
    """box, position, text of the closed box from there on: its nodes are rows of batches"""


class MetricTable(TypedDict):
    """Heat metric."""

    name: str
    unit: str
    row: str
    text: str
    values: list[float] | None


class OptionTable(TypedDict):
    """Options of a view."""

    theme: Literal["auto", "light", "dark"]
    position: int
    """where to stand at first"""
    height: int
    """px"""
    heat: str
    """name of the metric that colours the graph at first: the latest overlay; "" for none"""


class PayloadTables(TypedDict):
    """Payload, unpacked."""

    recording: RecordingTables
    layout: LayoutTables
    replay: ReplayTables
    heat: list[MetricTable]
    options: OptionTable
