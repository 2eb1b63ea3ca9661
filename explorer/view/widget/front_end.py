"""Base of the notebook widgets, which share one model of the front end and are closed when their cell runs again.

Outside IPython, each widget has its own model of the front end, because marimo closes a model with the cell that made
it, and Solara and Shiny send a model only to the visitor for whom it was made.

If each widget contained the code, a page would need 1.4 MB more for each run of a cell, since browsers never unload a
module that they have imported, and a page keeps every widget's model until the kernel shuts down.
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

from explorer.record.shell import request, shell_part
from explorer.view.payload.script_bundle import script, stylesheet
from explorer.view.widget.interactive import is_interactive

WIDGET = "application/vnd.jupyter.widget-view+json"


class ReadersModel(ipywidgets.Widget):  # type: ignore[misc]  # ipywidgets has no types
    """Model that is sent to browsers only if a reader can see it.

    Programs that run notebooks store every model that is sent, even if no output refers to it.
    """

    def open(self) -> None:
        """Send the model, unless a program runs the cell."""
        if is_interactive():
            super().open()


class FrontEnd(ReadersModel):
    """Model that contains the front end's code and style, without a view."""

    script = traitlets.Unicode().tag(sync=True)
    style = traitlets.Unicode().tag(sync=True)
    digest = traitlets.Unicode().tag(sync=True)
    """id of the code, by which a page recognises code that it imported from this or another kernel"""


def front_end() -> FrontEnd:
    """Return a front end model; in IPython its only one, which stays open after all widgets were closed."""
    if shell_part("run_cell") is None:  # Solara's replacement of the shell has a kernel, but runs no cells
        return FrontEnd(**_code())
    shared = _shared()
    shared.open()
    return shared


@cache
def _shared() -> FrontEnd:
    return FrontEnd(**_code())


@cache
def _code() -> dict[str, str]:
    texts = {"script": script(), "style": stylesheet()}
    return {**texts, "digest": sha256("".join(texts.values()).encode()).hexdigest()[:16]}


class NotebookWidget(anywidget.AnyWidget, ReadersModel):
    """Widget of this project; it uses the shared front end, and its models are closed when its cell runs again.

    A widget shown in several cells is closed with the last of them; a widget inside another, such as a box or a link,
    stays open. A closed widget is reopened, with its state, when it is shown or contained again; after ``close()`` it
    cannot be shown again, like any widget.
    """

    _esm = (Path(__file__).parent / "loader.js").read_text(encoding="utf-8")

    front_end = traitlets.Instance(FrontEnd).tag(sync=True, **ipywidgets.widget_serialization)

    def __init__(self, **traits: Any) -> None:
        super().__init__(front_end=front_end(), **traits)

    def add_traits(self, **traits: Any) -> None:
        """Add traits to this widget, whose class traitlets replaces by a subclass; that keeps the documentation."""
        documented = type(self).__doc__
        super().add_traits(**traits)
        type(self).__doc__ = documented

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    @property
    def parts(self) -> list[ipywidgets.Widget]:
        """Widgets that belong only to this widget."""
        return [self.layout]

    @property
    def model_id(self) -> str:
        """Id of the models in browsers; a widget that is not open is opened, since another widget contains it."""
        if self.comm is None:
            self._enter()
        return str(self.comm.comm_id)

    def _enter(self) -> None:
        for widget in (self.front_end, *self.parts, self):
            ipywidgets.Widget.open(widget)

    def leave(self) -> None:
        """Close the models in every browser; the widget can be shown again."""
        for widget in (self, *self.parts):
            widget.close()
            # ipywidgets does not show a closed widget; deleting its marker restores the class's own method.
            vars(widget).pop("_repr_mimebundle_", None)

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the live widget with its static outputs, or only the static outputs if no reader can see a widget."""
        # marimo rejects instances of subclasses of str
        static = {mime: str(part) if isinstance(part, str) else part for mime, part in self.static_outputs().items()}
        if not is_interactive():
            return static, {}
        self._enter()
        _cells().show(self)
        bundle: tuple[dict[str, Any], dict[str, Any]] | None = super()._repr_mimebundle_(**options)
        return bundle and ({**bundle[0], **static}, bundle[1])

    def static_outputs(self) -> dict[str, Any]:
        """Return the outputs for readers without a kernel, keyed by MIME type."""
        raise NotImplementedError


class Cells:
    """Widgets shown by each cell of a notebook, which are closed when the cell runs again.

    Output captured by a widget is not assigned to a cell, and stays where that widget is.
    """

    def __init__(self) -> None:
        self._shown: dict[str, WeakSet[NotebookWidget]] = {}
        if (events := shell_part("events")) is not None:
            events.register("pre_run_cell", self._begin)

    def show(self, widget: NotebookWidget) -> None:
        """Record a widget as shown by the running cell, if there is one."""
        cell = _running_cell()
        if cell is not None and not _is_captured():
            self._shown.setdefault(cell, WeakSet()).add(widget)

    def _begin(self, info: Any) -> None:
        closing = self._shown.pop(info.cell_id, WeakSet())
        kept = {widget for shown in self._shown.values() for widget in shown}
        for widget in closing:
            if widget not in kept and not _is_referenced(widget):
                widget.leave()


@cache
def _cells() -> Cells:
    return Cells()


def _running_cell() -> str | None:
    """Return the id of the cell that is producing output, as set by the notebook, or None outside notebook cells."""
    cell: str | None = ((request() or {}).get("metadata") or {}).get("cellId")
    return cell


def _is_captured() -> bool:
    """Return whether an Output widget captures the output."""
    return any(isinstance(model, ipywidgets.Output) and model.msg_id for model in _open_widgets())


def _is_referenced(widget: NotebookWidget) -> bool:
    """Return whether another open widget refers to a widget or a part of it, and so cannot be sent without it."""
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
