"""Hooks: functions of higher packages that methods in lower packages call, each with a checked signature.

``expression.explore()``, ``plan.explain()`` and ``net.save(path)`` need the planner, the views and the file formats,
which depend on expressions, plans and nets and therefore cannot be imported there. The table contains the functions'
paths, and a test checks that each exists. Imports inside the methods would also work, but would hide dependencies from
the test of the package layers.

Signatures use the types of the core and of recordings. Plans, nets and views, which the core cannot import, are
``Any``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, Unpack

from explorer.core.late import late

if TYPE_CHECKING:
    from explorer.core.ir.explore_options import ExploreOptions
    from explorer.core.types.tensor_type import Array
    from explorer.record import Recording
    from explorer.record.worker_lanes import Lane

Way: TypeAlias = Literal["inputs", "outputs"]
"""direction: from a node to all nodes that it is computed from, or to all nodes computed from it"""


class RegisteredValue(Protocol):
    """Handle of a registered expression (``ex.Handle``)."""

    def data(self) -> Array:
        """Return the value as a read-only array; raise StateError before the plan has run."""


class View(Protocol):
    """Widget that steps through a recording (``ex.View``); a plan updates it after a measured run.

    Example: see ``ex.EvalPlan``.
    """

    recording: Recording

    def update(self, recording: Recording) -> None:
        """Show a later recording of the same plan, at the same step and with the same selection."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the view to a file; the extension selects the format."""

    @property
    def selected_expression(self) -> Any:
        """Expression of the selected node in a view of a plan; None if nothing is selected."""

    def focus(self, what: Any) -> None:
        """Select a node and scroll to it."""

    def trace(self, node: Any, way: Way = "inputs") -> None:
        """Select a node and highlight all nodes that it is computed from, or all nodes computed from it."""

    def why(self, one: Any, other: Any = None) -> str:
        """Return the history of a node, or the decisions about two nodes, as text."""

    def predict(self, stage: str | None = None) -> None:
        """Hide the decisions of a stage, and let the reader predict them."""

    def collapse(self, depth: int = 0) -> None:
        """Open the boxes down to a depth, and close deeper ones."""

    def first_nan(self) -> int | None:
        """Return the first node whose value contains a NaN, and select it."""


class ComparedPlans(Protocol):
    """Comparison of two plans (``ex.ComparedPlans``): text if printed, two diagrams in a notebook, or two views.

    Example: see ``ex.EvalPlan``.
    """

    before: Recording
    after: Recording

    def text(self, *, measured: bool = False) -> str:
        """Return the comparison as text, with times only if ``measured``."""

    def html(self) -> str:
        """Return both graphs side by side, with the text below."""

    def explore(self, **options: Any) -> SideBySideViews:
        """Return both plans as synchronized views."""


class SideBySideViews(Protocol):
    """Two synchronized views."""

    before: View
    after: View


class Evaluate(Protocol):
    """``ex.evaluate`` for one expression; returns its value as a read-only array."""

    def __call__(self, value: Any, /) -> Array: ...


class Register(Protocol):
    """``ex.eval_register``; returns the handle of an expression, or of data, in the thread's default plan for its
    device."""

    def __call__(self, value: Any, /) -> RegisteredValue: ...


class Explore(Protocol):
    """``ex.explore``; returns a view of an expression, a layer, a net, a plan or a recording."""

    def __call__(self, what: Any, **options: Unpack[ExploreOptions]) -> View: ...


class CheckView(Protocol):
    """Check of view options; raises UnknownNameError or OperandError before anything is computed."""

    def __call__(self, **options: Any) -> None: ...


class Preview(Protocol):
    """Context in which the first planned graph is shown as recorded, until the notebook cell shows its view."""

    def __call__(self, **options: Any) -> AbstractContextManager[None]: ...


class Explain(Protocol):
    """Text of a plan's decisions: all of them, or the decisions about one expression."""

    def __call__(self, plan: Any, what: Any = None, /) -> str: ...


class Why(Protocol):
    """Text of the decisions about two expressions."""

    def __call__(self, plan: Any, one: Any, other: Any, /) -> str: ...


class DescribeOperation(Protocol):
    """Text of ``help`` for an operation: signature, formula, shapes, dtypes, gradient, laws, example."""

    def __call__(self, operation: Any, /) -> str: ...


class NoteDeclaration(Protocol):
    """Registration of an operation or rule declared in ``__main__``, whose laws are checked when the notebook cell
    ends."""

    def __call__(self, declared: type[Any], /) -> None: ...


class ToGraphviz(Protocol):
    """Conversion of a plan's graph after a stage (None: the last one) to a ``graphviz.Digraph``."""

    def __call__(self, plan: Any, stage: str | None = None, /) -> Any: ...


class Compare(Protocol):
    """Comparison of a plan with another plan or a recording; for two plans optionally of their weights."""

    def __call__(self, before: Any, after: Any, /, *, weights: bool = False) -> ComparedPlans: ...


class LanesPicture(Protocol):
    """SVG of the workers' activity over time (``record.worker_lanes``), in µs."""

    def __call__(self, lanes: Sequence[Lane], micros: float, /) -> str: ...


class Open(Protocol):
    """``ex.open``; returns the net in a model file."""

    def __call__(self, path: str | os.PathLike[str], /, *, weights: str | os.PathLike[str] | None = None) -> Any: ...


class Save(Protocol):
    """Writing of a net to a model file, in the format given by the extension."""

    def __call__(self, net: Any, path: str | os.PathLike[str], /) -> None: ...


class ReadArrays(Protocol):
    """Reading of the named arrays in an untrusted ``.npz`` file."""

    def __call__(self, path: Path, /) -> dict[str, Array]: ...


class ReferenceValues(Protocol):
    """Evaluation of a net's file by another runtime; returns the runtime's name and the values, keyed by operand."""

    def __call__(self, net: Any, reference: Any, inputs: Mapping[str, Array], /) -> tuple[str, Mapping[str, Array]]: ...


class SaveTraining(Protocol):
    """Writing of a module's weights, optimizer state and step count, and of a loader's position, to a file."""

    def __call__(self, module: Any, path: str | os.PathLike[str], loader: Any = None, /) -> None: ...


class CheckTrainingFile(Protocol):
    """Check of a file name for SaveTraining: its extension and its folder."""

    def __call__(self, path: str | os.PathLike[str], /) -> object: ...


class RestoreTraining(Protocol):
    """Restoring of a module, and a loader, from a file of SaveTraining; everything is checked before the first
    assignment."""

    def __call__(
        self, module: Any, path: str | os.PathLike[str], loader: Any = None, own_settings: bool = False, /
    ) -> None: ...


class Stabilise(Protocol):
    """Conversion of a program to stable form; returns its outputs, and the origins (`Origin`) of new nodes, keyed by
    uid."""

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
    explain: Explain = late("explorer.reports:explain")
    why: Why = late("explorer.reports:why_pair_of")
    note_declaration: NoteDeclaration = late("explorer.in_notebook:note_declaration")
    describe_operation: DescribeOperation = late("explorer.ops.catalogue.help_pages:page")
    to_graphviz: ToGraphviz = late("explorer.reports:to_graphviz")
    compare: Compare = late("explorer.reports:compare")
    lanes_picture: LanesPicture = late("explorer.view.picture.lanes_svg:lanes_picture")
    open: Open = late("explorer.formats:open")
    save: Save = late("explorer.formats:save")
    read_arrays: ReadArrays = late("explorer.formats.common.npz:read_database")
    reference_values: ReferenceValues = late("explorer.formats.onnx.reference_values:reference_values")
    save_training: SaveTraining = late("explorer.formats.checkpoint:save")
    check_training_file: CheckTrainingFile = late("explorer.formats.checkpoint:check_target")
    restore_training: RestoreTraining = late("explorer.formats.checkpoint:restore")
    stabilise: Stabilise = late("explorer.plan.stabilise:stabilise")


hooks = Hooks()
