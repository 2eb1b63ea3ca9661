"""Types of the unpacked payload's tables; Python composes all texts, and JavaScript displays them.

Rows that are not defined here have their plain form (explorer/record). Texts are safe to show, on one line. The front
end's types are generated from these classes (assets/front_end_types.py), and a test compares them with payloads.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from explorer.record.layer_rows import Gradient
from explorer.record.rows import (
    Body,
    Composition,
    Decides,
    FileOperator,
    InterfaceRow,
    Nodes,
    Placement,
    Run,
    Schedule,
    Scope,
    StageKind,
    Summary,
    Verdict,
)
from explorer.view.model.marked_text import Block, Code


class TypeTable(TypedDict):
    """Type of a value, whose text is the shape, with names of dimensions, followed by ``text``."""

    shape: tuple[int, ...]
    named: NotRequired[str]
    """the shape with dimension names: ``batch=32×64``"""
    text: str
    """text after the shape: " float32" of ``32×64 float32``"""
    dtype: str


class SourceTable(TypedDict):
    """Line of a cell or a file."""

    place: str
    """``In[3] line 2``"""
    text: str


class ListingTable(TypedDict):
    """Cell or file: the lines that recorded nodes, and the lines around them."""

    where: str
    unit: str
    """unit of ``numbers``: "line" or "node" """
    numbers: list[int]
    sources: list[list[int]]
    """for each line, rows of the sources"""
    lines: list[str]
    """text of each line; empty if the sources contain all of them"""


class StageTable(TypedDict):
    """Stage, with its counts as text."""

    name: str
    kind: StageKind
    decides: Decides
    first: int
    last: int
    purpose: str
    pipeline: NotRequired[str]
    size: str
    """``12 kernels``"""
    cost: str
    """``3.6 G flops · 12 MB written``"""
    result: str
    """``22 kernels fused, 8 declined; 12.3 MB never written.``"""
    counts: list[tuple[str, str]]
    """names and texts"""


class ReasonTable(TypedDict):
    """Template of a sentence, with texts, code and labels of facts."""

    sentence: list[str | Code | tuple[str] | tuple[str, str]]
    """parts: a text, code, ``[label of a fact]``, or ``[label, "code"]`` for a fact that is written as code"""
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
    """Decision; a fact is a text, a node, or a list of these."""

    stage: int
    rule: str
    verdict: Verdict
    code: str
    location: str
    reason: int
    """row of the reasons; decisions with equal sentences share a template"""
    facts: dict[str, str | int | list[str | int]]
    """label → fact; complete sentences would repeat the facts, and could not contain links to nodes"""
    subjects: tuple[int, ...]
    produced: tuple[int, ...]
    before: list[int]
    """declined decisions shown before it (record/node_decisions.py)"""
    cost: float
    """estimated cost of declining in µs, which the facts contain only if the sentence does"""


class GroupTable(TypedDict):
    """Group of nodes, with titles and their widths in px, the longest first."""

    decision: int
    kind: str
    members: tuple[int, ...]
    titles: list[tuple[str, float]]


class LayerTable(TypedDict):
    """Layer, with its ports and policies as text."""

    name: str
    type: str
    ports: str
    """``a → b``"""
    use: str
    """purpose for which it is built: ``training``"""
    order: str
    clauses: list[str]
    policies: list[tuple[str, str]]
    """text, and the layer that declares the policy"""
    feedback: list[tuple[bool, str]]
    """whether a gradient is built, and the reason"""
    scopes: list[int]


class DocumentedTable(TypedDict):
    """Input, output, attribute or type constraint of an operator type, with its documentation."""

    name: str
    type: str
    """its type, the name of the constraint of its type, or the types that a constraint allows"""
    note: str
    """``optional``, ``variadic`` or ``required``; "" for the usual case"""
    default: str
    """default value of an attribute, or "" """
    meaning: list[Block]


class OperatorTypeTable(TypedDict):
    """Operator type of a model file, and its documentation (model/marked_text.py)."""

    name: str
    origin: str
    summary: str
    url: str
    """https address of a page, or "" """
    description: list[Block]
    inputs: list[DocumentedTable]
    outputs: list[DocumentedTable]
    attributes: list[DocumentedTable]
    constraints: list[DocumentedTable]


class LeafTable(TypedDict):
    """Element and byte counts of the values that exist before a run."""

    parameters: dict[int, int]
    """node → elements"""
    weights: dict[int, int]
    """node → bytes"""
    others: dict[int, int]
    """node → elements"""


class CodeTable(TypedDict):
    """Code of a kernel."""

    language: str
    lines: list[str]
    nodes: list[tuple[int, int]]
    """(line number from 1, node)"""


class RecordingTables(TypedDict):
    """Tables of a recording."""

    title: str
    options: dict[str, Any]
    operations: list[str]
    families: dict[str, str]
    """operation → family that its declaration states"""
    types: list[TypeTable]
    declared: NotRequired[dict[int, str]]
    """node → dimensions declared in a model file, and where, if any dimension is named or open"""
    scopes: list[Scope]
    sources: list[SourceTable]
    listings: list[ListingTable]
    bodies: list[Body]
    nodes: Nodes
    """labels are the names used in sentences, which include constants"""
    stages: list[StageTable]
    reasons: list[ReasonTable]
    explanations: list[ExplanationTable]
    decisions: list[DecisionTable]
    substitutions: list[tuple[int, int, int]]
    declined_edges: list[tuple[int, int]]
    """decision, 4 × index of the reader among its subjects + index of the value among the reader's operands"""
    declined_readers: list[tuple[int, int, int]]
    """decision, operand, reader: declined edges without such indices, which are few"""
    accounts: dict[str, str]
    """kind → sentence about {node}, for two nodes without a common decision (record/node_decisions.py)"""
    limits: str
    """what a kernel can contain, after a colon, or \"\" """
    marks: dict[int, dict[int, str]]
    """decision → node → text after its name, for sentences with nodes of equal names"""
    groups: list[GroupTable]
    gradients: NotRequired[list[Gradient]]
    layers: list[LayerTable]
    operators: NotRequired[list[FileOperator]]
    operator_types: NotRequired[list[OperatorTypeTable]]
    interface: NotRequired[list[InterfaceRow]]
    metadata: NotRequired[list[tuple[str, list[str]]]]
    """name and lines of each value that a model file states about itself"""
    compositions: NotRequired[list[Composition]]
    authors: NotRequired[dict[int, str]]
    """decision → who states it"""
    placements: NotRequired[dict[int, Placement]]
    """kernel → where it runs"""
    once: NotRequired[list[int]]
    """kernels that run only once, before the first run"""
    codes: NotRequired[dict[int, CodeTable]]
    """kernel → its code"""
    variables: NotRequired[dict[int, str]]
    """node → the user's variable"""
    leaf_values: NotRequired[dict[int, Summary]]
    """summaries of values that exist before a run, if any was recorded"""
    shared_leaves: NotRequired[dict[int, int]]
    """leaf → the first leaf with the same stored value"""
    leaves: LeafTable
    first_nan: int
    """first node whose value contains a NaN, or −1"""
    schedule: Schedule | None
    run: Run | None


class ItemTable(TypedDict):
    """Slot or box inside a box, without coordinates if the box is not laid out yet."""

    slot: NotRequired[int]
    box: NotRequired[int]
    at: NotRequired[tuple[int, int, int, int]]
    """x, y, width, height"""
    rank: NotRequired[int]


class PositionsTable(TypedDict):
    """Positions inside an open box whose child boxes are closed, with the same items as in the box."""

    size: tuple[int, int]
    ports: tuple[list[int], list[int]]
    items: list[ItemTable]
    edges: list[Any]
    labels: list[tuple[int, int, int, int, int, int, int, int]]


class BoxTable(TypedDict):
    """Container of slots and boxes. An edge consists of its items, route, ports and port names.

    A label consists of the items and ports of its edge, and of x, y, side and slot. A crossing consists of a side, a
    slot and a port.
    """

    kind: str
    """top, body, scope, function, layer, file, batch, chain, repeat, stack, part or block"""
    label: str
    title: str
    """name of the box; for an operator of a file with a generated name, its type"""
    text: list[str]
    """two to four lines of the closed box, beginning with its name, shortened to fit"""
    type: str
    """type of an operator of a file, such as ``nn.Conv2d``, or of a layer; else "" """
    layer: int
    """row of the recording's layers; −1 for other boxes"""
    family: str
    """family of the costliest operation of an operator of a file; "" for other boxes"""
    operator: int
    """row of the recording's operators; −1 for other boxes"""
    batches: list[int]
    """for the box of a batch, the decisions that formed its contents"""
    count: int
    """the "n" of "×n"; 1 if there is none"""
    parent: int
    open: bool
    """whether it is initially open"""
    closed: tuple[int, int]
    """size when closed"""
    size: tuple[int, int]
    """size when open, with all child boxes closed"""
    placed: bool
    """whether the layout of its contents has been sent"""
    ports: tuple[list[int], list[int]]
    """x at which edges enter at its top, and leave at its bottom"""
    items: list[ItemTable]
    edges: list[Any]
    """``[from item, to item, [x0, y0, x1, y1, …], from port, to port]``, cubic Bézier points"""
    labels: list[tuple[int, int, int, int, int, int, int, int]]
    """space next to edges for the type of a slot's value"""
    recorded: PositionsTable | None
    """positions before the first change, if they differ"""
    crossings: list[tuple[int, int, int]]
    """port at which a value crosses the top (0) or bottom (1), if not port 0"""


class SlotTable(TypedDict):
    """Position shared by nodes that replace each other."""

    nodes: list[int]
    text: list[int]
    """for each node, row of the texts"""
    sizes: list[tuple[int, int]]
    """width and height of each node, which is drawn in the middle of the slot"""


class PageTable(TypedDict):
    """Boxes of a page that are also open at first if its canvas is large."""

    room: tuple[int, int]
    """least width and height of the canvas without its margins, in px"""
    boxes: list[int]


class LayoutTables(TypedDict):
    """Boxes, slots and their texts (labels.Text); "turned" is the layout in the other direction."""

    direction: Literal["down", "right"]
    turned: NotRequired[list[Any]]
    page: NotRequired[PageTable]

    boxes: list[BoxTable]
    slots: list[SlotTable]
    texts: list[tuple[str, str, str, str, str, str]]
    """name, type, ghost, second line, formula and operator's title; all but the last two are shortened to fit"""
    bodies: list[int]
    """outermost box of each graph, the first of which is 0"""


class ReplayTables(TypedDict):
    """Results of the replay rules."""

    ends: list[int]
    """last step of each stage; the next stage begins after it"""
    change: int
    """first decision that produced, removed or grouped nodes; −1 if there is none"""
    kernels: list[list[int]]
    """for each stage, the kernels that it orders or runs, one per step after its decisions"""
    merges: list[int]
    """rows of substitutions by an equal node in another slot ("×n")"""
    outlined: list[int]
    """last position at which each group is outlined; −1 if it never is"""
    opens: list[tuple[int, int, int]]
    """box, first and last instant at which the box is drawn open if a reader opened it"""
    rows: list[tuple[int, int, str]]
    """box, position, text of the closed box from that position on, while its nodes are rows of batches"""


class MetricTable(TypedDict):
    """Heat metric."""

    name: str
    unit: str
    row: str
    text: str
    values: list[float] | None
    per: list[float] | None
    """divisors of the values of a ratio"""
    boxes: str
    """"sum", or "max" if a box has the largest of the values in it"""


class OptionTable(TypedDict):
    """Options of a view."""

    theme: Literal["auto", "light", "dark"]
    position: int
    """initial position"""
    height: int
    """px"""
    heat: str
    """name of the metric that initially colours the graph: the latest overlay, or "" for none"""


class PayloadTables(TypedDict):
    """Payload, unpacked."""

    recording: RecordingTables
    layout: LayoutTables
    replay: ReplayTables
    heat: list[MetricTable]
    options: OptionTable
