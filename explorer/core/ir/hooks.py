"""Hooks: functions of higher packages that methods in lower packages call, with checked signatures.

``expression.explore()``, ``plan.explain()`` and ``net.save(path)`` need the planner, the views and the file formats,
which depend on expressions, plans and nets and therefore cannot be imported there. This table contains the functions'
import paths, and a test checks that each function exists. Imports inside the methods would also work, but would hide
dependencies from the test of the package layers.

Signatures use the types of the core and of recordings. Plans, nets and views, which the core cannot import, are
``Any``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, Unpack

from explorer.core.late import late

if TYPE_CHECKING:
    from explorer.core.ir.explore_options import ExploreOptions, ViewOptions
    from explorer.core.types.tensor_type import Array
    from explorer.record import Recording
    from explorer.record.view_choices import Direction, Theme
    from explorer.record.worker_lanes import Lane

TraceDirection: TypeAlias = Literal["inputs", "outputs"]
"""direction from a node: to all nodes from which it is computed, or to all nodes computed from it"""


class RegisteredValue(Protocol):
    """Handle of a registered expression (``ex.Handle``)."""

    def data(self) -> Array:
        """Return the value as a read-only array; raise StateError before the plan has run."""


class View(Protocol):
    """Widget that steps through a recording (``ex.View``); a plan updates it after a measured run.

    Example: see ``ex.EvalPlan``.
    """

    recording: Recording
    step: int
    """the displayed step of the whole recording"""
    stage: str
    """stage that contains the displayed step"""
    selected: Any
    """id of the selected node, or −1 if none is selected; accepts any argument of ``focus``"""
    theme: Theme
    direction: Direction
    depth: int | None
    """depth down to which all boxes are open"""

    def update(self, recording: Recording) -> None:
        """Show a later recording of the same plan, keeping the current step and selection."""

    def save(
        self,
        path: str | os.PathLike[str] | IO[Any],
        *,
        format: str | None = None,
        stage: str | None = None,
        depth: int | None = None,
        width: float | None = None,
    ) -> None:
        """Write the view to a file; the extension of a path selects the format, such as ``.html`` or ``.pdf``.

        An open file needs the ``format``. For images, ``stage`` draws the result of a stage, ``depth`` opens boxes down
        to a depth, and ``width`` in cm scales the image for a paper.
        """

    def to_html(self) -> str:
        """Return the view as an interactive page."""

    def to_networkx(self, *, stage: str | None = None) -> Any:
        """Return the graph at the view's step as a ``networkx.MultiDiGraph``."""

    def to_pandas(self) -> Any:
        """Return the data frames ``nodes``, ``decisions`` and ``kernels``."""

    @property
    def selected_expression(self) -> Any:
        """Expression of the selected node in a view of a plan, or None if no node is selected."""

    def focus(self, what: Any) -> None:
        """Select the node ``what`` and scroll to it."""

    def trace(self, node: Any, direction: TraceDirection = "inputs") -> None:
        """Select ``node``, and highlight all nodes from which it is computed, or all nodes computed from it."""

    def why(self, one: Any, other: Any = None) -> str:
        """Return the decisions about node ``one``, or those that affect both ``one`` and ``other``, as text."""

    def predict(self, stage: str | None = None) -> None:
        """Hide a stage's decisions, and let the user predict them."""

    def collapse(self, depth: int = 0) -> None:
        """Open all boxes down to nesting depth ``depth``, and close all deeper boxes."""

    @property
    def selected_operator(self) -> str | None:
        """Name of the net operator that recorded the selected node, or None."""

    def select_line(self, line: int | str, cell: str | int | None = None) -> list[int]:
        """Return the ids of the nodes recorded at a line of the program, and select the first one."""

    def overlay(
        self, values: Any, *, name: str = "overlay", unit: str = "", text: str = "", boxes: str = "sum"
    ) -> None:
        """Colour nodes by numbers, given as a mapping from nodes, or by the matches of a pattern."""

    def overlay_times(self, before: Any) -> None:
        """Colour each kernel by how much slower it is than in the run of the plan or recording ``before``."""

    def first_nan(self) -> int | None:
        """Select and return the first node whose value contains a NaN, or return None."""


class ComparedPlans(Protocol):
    """Comparison of two plans (``ex.ComparedPlans``): text, two diagrams in a notebook, or two views.

    Example: see ``ex.EvalPlan``.
    """

    before: Recording
    after: Recording

    def text(self, *, measured: bool = False, nodes: bool = False) -> str:
        """Return the comparison as text, with times only if ``measured`` is True.

        If operators of two model files differ, nodes, decisions and kernels are only listed if ``nodes`` is True.
        """

    def html(self) -> str:
        """Return HTML with both graphs side by side, and the text below."""

    def explore(
        self, *, tied: Literal["nodes", "steps", "off"] = "nodes", **options: Unpack[ViewOptions]
    ) -> SideBySideViews:
        """Return two synchronized views of the plans."""


class SideBySideViews(Protocol):
    """Two synchronized views, shown side by side."""

    before: View
    after: View


class Evaluate(Protocol):
    """``ex.evaluate`` for a single expression; returns its value as a read-only array."""

    def __call__(self, value: Any, /) -> Array: ...


class Register(Protocol):
    """``ex.eval_register``; registers an expression or data in its device's default plan, and returns the handle."""

    def __call__(self, value: Any, /) -> RegisteredValue: ...


class Explore(Protocol):
    """``ex.explore``; returns a view of an expression, a layer, a net, a plan or a recording."""

    def __call__(self, what: Any, **options: Unpack[ExploreOptions]) -> View: ...


class CheckView(Protocol):
    """Check of view options before anything is computed; raises UnknownNameError or OperandError."""

    def __call__(self, **options: Any) -> None: ...


class Preview(Protocol):
    """Context that shows the first planned graph as recorded, until the notebook cell shows its view."""

    def __call__(self, **options: Any) -> AbstractContextManager[None]: ...


class CellResult(Protocol):
    """Outputs of an object as the last line of a notebook cell, by MIME type: text, and a picture of its graph."""

    def __call__(self, value: object, graph: Callable[[], Any], /) -> dict[str, Any]: ...


class Explain(Protocol):
    """Return the decisions of a plan as text: all decisions, or those about one expression."""

    def __call__(self, plan: Any, what: Any = None, /) -> str: ...


class Why(Protocol):
    """Return the decisions about two expressions as text."""

    def __call__(self, plan: Any, one: Any, other: Any, /) -> str: ...


class DescribeOperation(Protocol):
    """Return the text of ``help`` for an operation: signature, formula, shapes, dtypes, gradient, laws, example."""

    def __call__(self, operation: Any, /) -> str: ...


class NoteDeclaration(Protocol):
    """Registration of an operation or rule declared in ``__main__``, whose laws are checked at the end of the notebook
    cell."""

    def __call__(self, declared: type[Any], /) -> None: ...


class ToGraphviz(Protocol):
    """Conversion of a plan's graph after a given stage (None: the last stage) to a ``graphviz.Digraph``."""

    def __call__(self, plan: Any, stage: str | None = None, /) -> Any: ...


class Compare(Protocol):
    """Comparison of a plan with another plan or with a recording.

    Two plans may also be compared by their weights, and two model files by their operators.
    """

    def __call__(
        self, before: Any, after: Any, /, *, weights: bool = False, operators: Any = None
    ) -> ComparedPlans: ...


class LanesPicture(Protocol):
    """SVG of the times in which each worker is busy (``record.worker_lanes``), in µs."""

    def __call__(self, lanes: Sequence[Lane], micros: float, /) -> str: ...


class Open(Protocol):
    """``ex.open``; returns the net in a model file."""

    def __call__(self, path: str | os.PathLike[str], /, *, weights: str | os.PathLike[str] | None = None) -> Any: ...


class Save(Protocol):
    """Write a net to a model file, in the format of the file extension."""

    def __call__(self, net: Any, path: str | os.PathLike[str], /) -> None: ...


class ReadArrays(Protocol):
    """Read all named arrays from an untrusted ``.npz`` file."""

    def __call__(self, path: Path, /) -> dict[str, Array]: ...


class SaveTraining(Protocol):
    """Write a module's weights, optimizer state and step count, and a data loader's position, to a file."""

    def __call__(self, module: Any, path: str | os.PathLike[str], loader: Any = None, /) -> None: ...


class CheckTrainingFile(Protocol):
    """Check the file extension and folder of a path for SaveTraining."""

    def __call__(self, path: str | os.PathLike[str], /) -> object: ...


class RestoreTraining(Protocol):
    """Restore a module and a data loader from a SaveTraining file, checking everything before assigning anything."""

    def __call__(
        self, module: Any, path: str | os.PathLike[str], loader: Any = None, own_settings: bool = False, /
    ) -> None: ...


class ArrayNamespace(Protocol):
    """Return the module with the functions of the array API standard, in a version or in the latest one."""

    def __call__(self, api_version: str | None, /) -> Any: ...


class Stabilise(Protocol):
    """Convert a program to a numerically stable form.

    Returns the new outputs, and the origin (`Origin`) of each new node by uid.
    """

    def __call__(
        self, outputs: Sequence[Any], inputs: Sequence[Any], border: Sequence[Any] = (), /
    ) -> tuple[tuple[Any, ...], Mapping[int, Any]]: ...


@dataclass(slots=True)
class Hooks:
    """Table of functions in higher packages."""

    evaluate: Evaluate = late("explorer.run:evaluate")
    register: Register = late("explorer.run:eval_register")
    explore: Explore = late("explorer.api:explore")
    check_view: CheckView = late("explorer.api:check_view")
    preview: Preview = late("explorer.cell_outputs:preview")
    cell_result: CellResult = late("explorer.cell_results:cell_result")
    explain: Explain = late("explorer.reports:explain")
    code: Explain = late("explorer.reports:code")
    why: Why = late("explorer.reports:why_pair_of")
    note_declaration: NoteDeclaration = late("explorer.in_notebook:note_declaration")
    describe_operation: DescribeOperation = late("explorer.ops.catalogue.help_pages:page")
    to_graphviz: ToGraphviz = late("explorer.reports:to_graphviz")
    compare: Compare = late("explorer.reports:compare")
    lanes_picture: LanesPicture = late("explorer.view.picture.lanes_svg:lanes_picture")
    open: Open = late("explorer.formats:open")
    save: Save = late("explorer.formats:save")
    read_arrays: ReadArrays = late("explorer.formats.common.npz:read_database")
    save_training: SaveTraining = late("explorer.formats.checkpoint:save")
    check_training_file: CheckTrainingFile = late("explorer.formats.checkpoint:check_target")
    restore_training: RestoreTraining = late("explorer.formats.checkpoint:restore")
    array_namespace: ArrayNamespace = late("explorer.array_api.inspection:array_namespace")
    stabilise: Stabilise = late("explorer.plan.stabilise:stabilise")


hooks = Hooks()
