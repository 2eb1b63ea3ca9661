"""Base of the notebook's widgets: they share one model that holds the front end, and leave the browser with their cell.

A widget that carried the code itself would cost a page 1.4 MB at each run of its cell: browsers never forget a module
that they have imported, and a page keeps the model of every widget until the kernel closes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from weakref import WeakSet

import anywidget
import ipywidgets  # type: ignore[import-untyped]  # the package has no types
import traitlets
from IPython import get_ipython

from explorer.view.payload.script_bundle import script, stylesheet
from explorer.view.widget.interactive import is_interactive

WIDGET = "application/vnd.jupyter.widget-view+json"


class FrontEnd(ipywidgets.Widget):  # type: ignore[misc]  # ipywidgets has no types
    """Model that holds the front end's code and style; it has no view."""

    script = traitlets.Unicode().tag(sync=True)
    style = traitlets.Unicode().tag(sync=True)
    digest = traitlets.Unicode().tag(sync=True)
    """by which a page knows code that it has imported already, for this kernel or another one"""


def front_end() -> FrontEnd:
    """Return the one model of this kernel, open even after all widgets were closed."""
    shared = _front_end()
    shared.open()
    return shared


@cache
def _front_end() -> FrontEnd:
    texts = {"script": script(), "style": stylesheet()}
    return FrontEnd(**texts, digest=sha256("".join(texts.values()).encode()).hexdigest()[:16])


class NotebookWidget(anywidget.AnyWidget):
    """Widget of this project: its code is the shared front end's, and its models are closed when its cell runs again.

    A widget that stands in several cells leaves with the last of them; one that another widget holds, as a box or a
    link does, stays. It opens anew, in its state, where it is shown or held again; one that was closed by ``close()``
    is shown no more, as every widget.
    """

    _esm = (Path(__file__).parent / "loader.js").read_text(encoding="utf-8")

    front_end = traitlets.Instance(FrontEnd).tag(sync=True, **ipywidgets.widget_serialization)

    def __init__(self, **traits: Any) -> None:
        super().__init__(front_end=front_end(), **traits)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    @property
    def parts(self) -> list[ipywidgets.Widget]:
        """Widgets that belong to this one alone."""
        return [self.layout]

    @property
    def model_id(self) -> str:
        """Id of the models in browsers; a widget that has left opens anew."""
        if self.comm is None:
            self._enter()
        return str(self.comm.comm_id)

    def _enter(self) -> None:
        for widget in (self.front_end, *self.parts, self):
            widget.open()

    def leave(self) -> None:
        """Close the models in every browser; the widget can be shown again."""
        for widget in (self, *self.parts):
            widget.close()
            # ipywidgets shows a closed widget no more; without its mark the class's own method is back.
            vars(widget).pop("_repr_mimebundle_", None)

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the live widget with its static outputs; these alone where no reader can see a widget."""
        self._enter()
        _cells().show(self)
        bundle: tuple[dict[str, Any], dict[str, Any]] | None = super()._repr_mimebundle_(**options)
        if bundle is None:
            return None
        data, metadata = bundle
        if not is_interactive():
            data = {mime: part for mime, part in data.items() if mime != WIDGET}
        return {**data, **self.static_outputs()}, metadata

    def static_outputs(self) -> dict[str, Any]:
        """Return the outputs, by MIME type, for readers without a kernel."""
        raise NotImplementedError


class Cells:
    """Widgets that each cell of a notebook shows, so that those of a cell leave when it runs again.

    Output that a widget captures is counted for no cell: it stays where that widget is.
    """

    def __init__(self) -> None:
        self._shown: dict[str, WeakSet[NotebookWidget]] = {}
        if (shell := get_ipython()) is not None:
            shell.events.register("pre_run_cell", self._begin)

    def show(self, widget: NotebookWidget) -> None:
        """Count a widget among those of the running cell, if there is one."""
        cell = _running_cell()
        if cell is not None and not _is_captured():
            self._shown.setdefault(cell, WeakSet()).add(widget)

    def _begin(self, info: Any) -> None:
        leaving = self._shown.pop(info.cell_id, WeakSet())
        kept = {widget for shown in self._shown.values() for widget in shown}
        for widget in leaving:
            if widget not in kept and not _is_held(widget):
                widget.leave()


@cache
def _cells() -> Cells:
    return Cells()


def _running_cell() -> str | None:
    """Return the id of the cell whose output is written, as notebooks give it; None outside of notebooks' cells."""
    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is None:
        return None
    cell: str | None = (kernel.get_parent().get("metadata") or {}).get("cellId")
    return cell


def _is_captured() -> bool:
    """Whether an Output widget takes the output."""
    return any(isinstance(model, ipywidgets.Output) and model.msg_id for model in _open_widgets())


def _is_held(widget: NotebookWidget) -> bool:
    """Whether another open widget refers to a widget or a part of it, and cannot be sent to a page without it."""
    family = {id(member) for member in (widget, *widget.parts)}
    others = (model for model in _open_widgets() if id(model) not in family)
    return any(
        id(value) in family for model in others for name in model.keys for value in _values(getattr(model, name))
    )


def _values(trait: Any) -> Iterable[Any]:
    if isinstance(trait, dict):
        return trait.values()
    return trait if isinstance(trait, (list, tuple)) else (trait,)


def _open_widgets() -> list[ipywidgets.Widget]:
    # ipywidgets has no public table of open models that is not deprecated.
    return list(ipywidgets.widgets.widget._instances.values())
