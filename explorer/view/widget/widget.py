"""Notebook widget that steps through a recording, with a picture and text for readers without widgets.

``plan.explore()`` returns it. Traits are checked here, before they reach the browser; stepping happens only in the
browser, so that a saved notebook or an exported page needs no kernel.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import traitlets

from explorer.record import Recording
from explorer.record.errors import ExplorerError, OperandError, UnknownNameError, similar_names
from explorer.record.gc_pause import gc_paused
from explorer.record.reasons import counted_text
from explorer.record.recording import unmeasured
from explorer.record.renamed import renamed_attributes, renamed_options
from explorer.record.view_choices import DIRECTIONS, THEMES
from explorer.view.export.cell_picture import cell_picture
from explorer.view.export.outputs import outputs
from explorer.view.export.text import text
from explorer.view.export.why_text import why, why_pair
from explorer.view.export.writers import WRITERS, ViewState
from explorer.view.layout.direction import check_direction
from explorer.view.layout.placed_model import draw
from explorer.view.model.heat import HeatMetric, overlay
from explorer.view.model.stage_texts import first_nan
from explorer.view.payload.stored import MIME, stored
from explorer.view.payload.view_payload import answer, payload
from explorer.view.replay.steps import predictable, stage_ends, stage_start, step_at
from explorer.view.tree.scopes import NodesByName, nodes_at, nodes_named, scope_path
from explorer.view.widget.front_end import NotebookWidget

_TOGETHER = frozenset({"step", "stage"})
"""traits that represent the same state; setting one of them updates the other"""


_SETTABLE = ("depth", "direction", "open_boxes", "predicting", "selected", "stage", "step", "theme")
"""traits that users set"""
_COLOURS = 'view.overlay({"exp": 0.5}), or press h in the view to choose a cost'
_INSTEAD = {
    **dict.fromkeys(("heat", "color", "colour", "colors", "colours", "highlight"), _COLOURS),
    **dict.fromkeys(("node", "nodes", "selection"), 'view.selected = "exp", or view.focus("exp")'),
    **dict.fromkeys(("boxes", "opened", "expanded", "collapsed"), "view.depth = 1, or view.open_boxes = […]"),
    **dict.fromkeys(("height", "position", "source", "run", "record"), "ex.explore(y, {name}=…)"),
}
"""attribute that a view does not have → what to write instead"""
_SAVED = (".html", ".json")
"""extensions of the files that the kernel writes for a page, which draws pictures itself"""


def json_text(value: dict[str, Any], widget: object) -> str:
    """Encode data as one JSON string, since ipywidgets would search nested lists for binary data, which is slow."""
    return json.dumps(value, separators=(",", ":"))


TRACE_DIRECTIONS = ("inputs", "outputs")
"""sides of a node that ``trace`` highlights"""


class TraitValueError(OperandError, traitlets.TraitError):
    """Value that a trait of a view does not accept."""


class SelectedNode(traitlets.Int[int, Any]):
    """Id of a node, or −1; an assignment accepts any argument of ``focus``."""

    def validate(self, obj: Any, value: Any) -> int:
        """Return the id of the node that a value names."""
        is_id = isinstance(value, int) and not isinstance(value, bool)
        selected: int = super().validate(obj, value if is_id else obj._nodes_of(obj._node_of(value))[-1])
        return selected


class GraphView(NotebookWidget):
    """View of a recording, which starts after ``position`` decisions and is ``height`` px high.

    Its traits are synchronised with every browser that shows it, and can be linked with other widgets. Example:
    ``view = plan.explore(); view.focus("layer1 / conv2")``.
    """

    payload = traitlets.Dict().tag(sync=True, to_json=json_text)
    selected = SelectedNode(-1).tag(sync=True)
    """id of the selected node, or −1, as a number for linking in browsers; accepts any argument of ``focus``"""
    theme = traitlets.Enum(THEMES, "auto").tag(sync=True)
    open_boxes = traitlets.List(traitlets.Int(), None, allow_none=True).tag(sync=True)
    """open boxes; None leaves the choice to the layout"""
    depth = traitlets.Int(None, allow_none=True)
    """depth down to which all boxes are open, and below which none is; 0 closes all; None if there is no such depth"""
    direction = traitlets.Enum(DIRECTIONS, "down").tag(sync=True)
    """flow direction of values, "down" or "right", which may suit a wide graph or a long chain better"""

    predicting = traitlets.Bool(False).tag(sync=True)
    """whether the decisions of a stage are hidden for the reader to predict"""

    _is_built = False
    """whether the constructor is done, after which no attributes are added"""

    @gc_paused()
    def __init__(
        self, recording: Recording, *, theme: str = "auto", position: int = 0, height: int = 560, **traits: Any
    ) -> None:
        self.recording = recording
        self._height = height
        self._drawing = draw(recording, check_direction(traits.get("direction", "down")))
        self._asked: set[int] = set()
        self._overlays: dict[str, HeatMetric] = {}
        if traits.get("depth") is not None and traits.get("open_boxes") is not None:
            raise OperandError(
                f"depth={traits['depth']!r} and open_boxes={traits['open_boxes']!r}",
                rule="boxes must be opened either by depth or individually, not both",
                fix="depth=1, or open_boxes=[…]",
            )
        self._step_through(recording)
        step = step_at(recording, position)
        stage = recording.stages[self._stage_at(step)].name if recording.stages else ""
        packed = self._payload(theme, position)
        super().__init__(step=step, stage=stage, payload=packed, theme=theme, **traits)
        self._read_depth()
        self.on_msg(self._answer)
        self._is_built = True

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.recording.title or counted_text(len(self.recording.nodes), 'node')}>"

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; raise Explorer's errors for values that a trait rejects, and for unknown names."""
        if self._is_built and name[0] != "_":
            self._check_attribute(name)
        try:
            super().__setattr__(name, value)
        except traitlets.TraitError as error:
            if isinstance(error, ExplorerError):
                raise
            raise self._trait_error(name, value) from None

    def _check_attribute(self, name: str) -> None:
        """Raise Explorer's error for the name of a method, or of no attribute, whose assignment would do nothing."""
        if not hasattr(self, name):
            near = [f"view.{each} = …" for each in similar_names(name, list(_SETTABLE))[:1]]
            fix = _INSTEAD[name].replace("{name}", name) if name in _INSTEAD else "".join(near)
            raise UnknownNameError(name, kind="attribute of a view", known=_SETTABLE, fix=fix)
        method = getattr(type(self), name, None)
        if callable(method) and method.__module__.startswith("explorer."):
            raise OperandError(
                f"an assignment to view.{name}", rule=f"{name} is a method, which must be called", fix=f"view.{name}(…)"
            )

    def _trait_error(self, name: str, value: Any) -> TraitValueError:
        """Return the error for a value that does not have the type of a trait, or is not one of its choices."""
        trait = self.traits()[name]
        stages = [stage.name for stage in self.recording.stages]
        choices = stages if name == "stage" else [str(choice) for choice in getattr(trait, "values", None) or ()]
        if choices:
            near = [*similar_names(str(value), choices), *choices][0]
            return TraitValueError(
                f"{name} {value!r}", rule=f"it must be one of {', '.join(choices)}", fix=f"view.{name} = {near!r}"
            )
        return TraitValueError(
            f"{name} {value!r}", rule=f"it must be {trait.info()}", fix=f"view.{name} = {getattr(self, name)!r}"
        )

    def _payload(self, theme: str, position: int) -> dict[str, Any]:
        return payload(
            self._sent_recording(),
            theme=theme,
            position=position,
            height=self._height,
            drawing=self._drawing,
            boxes=self._placed_boxes(),
            overlays=self._overlays.values(),
        )

    def _sent_recording(self) -> Recording:
        """Return the recording whose tables the payload contains."""
        return self.recording

    def _placed_boxes(self) -> set[int]:
        """Return the boxes whose layouts the payload contains."""
        return self._drawing.layouts.at_once() | self._asked

    def _answer(self, widget: object, content: dict[str, Any], buffers: object) -> None:
        """Send the layouts of boxes that a reader opens, the value of a leaf that the reader selects, or a file."""
        if content.get("kind") == "place":
            self.send(answer(self._drawing, content["boxes"]))
            self._asked.update(content["boxes"])
        elif content.get("kind") == "value":
            self.send({"kind": "value", "node": content["node"], **self._value(content["node"])})
        elif content.get("kind") == "file" and (extension := content["extension"]) in _SAVED:
            # Traits wait in the browser while the kernel is busy; messages overtake them, so this one has the state.
            state = replace(self.state, **content["state"])
            self.send({"kind": "file", "extension": extension, "text": WRITERS[extension](self.recording, state)})

    @property
    def state(self) -> ViewState:
        """State of the view, as a saved file reproduces it."""
        overlays = tuple(self._overlays.values())
        return ViewState(
            self.theme, self.step, self.stage, self.selected, self.open_boxes, overlays, direction=self.direction
        )

    def _value(self, node: int) -> dict[str, Any]:
        """Return the summary of a leaf's value, or why it cannot be read; without a plan there are no values."""
        return {"summary": None, "problem": ""}

    def update(self, recording: Recording) -> None:
        """Show a newer recording of the same plan, for example after its run; step, stage and selection are kept."""
        self._step_through(recording)
        self._drawing = draw(recording, self.direction)
        self._asked.intersection_update(range(len(self._drawing.layouts)))
        here = (min(self.step, self.last_step), self.selected if self.selected < len(recording.nodes) else -1)
        # One message, because between two the browser would show the new payload at a step that it may not have.
        with self.hold_sync():
            self.payload = self._payload(self.theme, self.payload["options"]["position"])
            self.step, self.selected = here
        self._read_depth()

    def overlay(
        self,
        values: Mapping[int | str, float],
        *,
        name: str = "overlay",
        unit: str = "",
        text: str = "",
        boxes: str = "sum",
    ) -> None:
        """Colour the graph by a number for each node, as a further choice next to the costs.

        Keys are node ids, or names of operators, layers or scopes, whose last node gets the number. A box has the sum
        of the numbers in it or, with ``boxes="max"``, the largest, like a node that replaces others in a later stage.
        Negative numbers are drawn in another colour. ``unit`` is written after the numbers ("µs" and "B" with their
        larger units), and ``text`` explains the legend; another overlay with the same name replaces the first. Raise
        OperandError for an unknown key, and for a number that is not finite.
        """
        nodes = NodesByName(self.recording)
        numbers = {nodes[key][-1] if isinstance(key, str) else key: value for key, value in values.items()}
        self._lay_over(overlay(self.recording, numbers, name, unit, text, boxes=boxes))

    def _lay_over(self, metric: HeatMetric) -> None:
        """Add a metric to the choice of this view, and colour the graph by it."""
        self._overlays[metric.name] = metric
        self.payload = self._payload(self.theme, self.payload["options"]["position"])
        self.send({"kind": "heat", "name": metric.name})

    @property
    def selected_scope(self) -> str | None:
        """Path of the operator, layer or scope around the selected node (``layer1 / conv2``), or None."""
        return (" / ".join(scope_path(self.recording, self.selected)) or None) if self.selected >= 0 else None

    def focus(self, what: int | str) -> None:
        """Select a node, open the boxes around it, and scroll to it at a step at which it exists.

        A string names an operator of a file, a layer, a scope, a variable or an operation (``fc``, ``layer1 / conv2``,
        ``loss``, ``tanh``), whose last node is selected.
        """
        node = self._nodes_of(what)[-1]
        self.selected = node
        self.send({"kind": "focus", "node": node})

    def collapse(self, depth: int = 0) -> None:
        """Open the boxes down to a depth, and close those below it; depth 0 closes all boxes.

        Raise OperandError for a negative depth. Example: ``view.collapse(1)`` shows the contents of the outermost
        boxes, like ``view.depth = 1``.
        """
        self.open_boxes = sorted(self._drawing.model.tree.opened_to(depth))

    @traitlets.validate("depth")
    def _check_depth(self, proposal: dict[str, Any]) -> int | None:
        depth: int | None = proposal["value"]
        tree = self._drawing.model.tree
        if depth is not None and depth < 0:
            raise TraitValueError(f"depth {depth} is negative", rule="depth must be 0 or more", fix="view.depth = 0")
        return depth and min(depth, tree.deepest)

    @traitlets.observe("depth")
    def _open_to_depth(self, change: dict[str, Any]) -> None:
        depth = self._drawing.model.tree.depth_of(self._opened)
        if change["new"] is None:
            self.depth = depth
        elif change["new"] != depth:
            self.collapse(change["new"])

    if not TYPE_CHECKING:
        __getattr__ = renamed_attributes(from_line="select_line")

    @traitlets.observe("open_boxes")
    def _read_depth(self, change: object = None) -> None:
        self.depth = self._drawing.model.tree.depth_of(self._opened)

    @property
    def _opened(self) -> Collection[int]:
        if self.open_boxes is None:
            return self._drawing.open_boxes()
        opened: list[int] = self.open_boxes
        return opened

    @renamed_options(way="direction")
    def trace(self, node: int | str, direction: str = "inputs") -> None:
        """Select a node and highlight all nodes it depends on, or, with ``direction="outputs"``, all that depend on it.

        A string names an operator of a file, a layer or a scope. Raise OperandError for any other direction.
        """
        if direction not in TRACE_DIRECTIONS:
            raise OperandError(
                f"direction {direction!r}",
                rule=f"direction must be one of {', '.join(TRACE_DIRECTIONS)}",
                fix='view.trace(node, "inputs")',
            )
        self.focus(node)
        self.send({"kind": "trace", "direction": direction})

    def predict(self, stage: str | None = None) -> None:
        """Hide the decisions of a stage, and let the reader predict them on the canvas.

        ``view.predict("recorded")`` asks which values are saved for each gradient, ``"fuse"`` which edges join two
        operations in one kernel, ``"order"`` which kernel is next, and ``"buffers"`` which memory a result gets. The
        default is the current stage, if it can be predicted, else the order. The view shows whether an answer is right,
        and why, and keeps the score; Esc shows everything again. Raise OperandError if the recording has no such stage.
        """
        possible = predictable(self.recording)
        if not possible:
            raise OperandError(
                "a recording without decisions",
                rule="a prediction needs a plan with at least one decision",
                fix="plan.prepare().explore().predict()",
            )
        if stage is not None:
            if stage not in possible:
                known = ", ".join(map(repr, possible))
                near = [*similar_names(str(stage), list(possible)), *possible][0]
                raise OperandError(
                    f"stage {stage!r} cannot be predicted",
                    rule=f"it must be one of {known}",
                    fix=f"view.predict({near!r})",
                )
            self.predicting = False
            self.show_whole(stage)
        self.predicting = True

    def why(self, one: int | str, other: int | str | None = None) -> str:
        """Return the history of a node as text; for two nodes the decisions about both, or the history of each.

        A string names an operator of a file, a layer, a scope, a variable, or all operations with that name.
        Example: ``print(view.why("conv1", "relu"))``.
        """
        nodes = self._nodes_of(one)
        if other is None:
            return why(self.recording, nodes[-1])
        names = [what if isinstance(what, str) else "" for what in (one, other)]
        return why_pair(self.recording, nodes, self._nodes_of(other), names)

    def _node_of(self, what: Any) -> int | str:
        """Return the id or name to which a value refers; views of plans also accept expressions."""
        node: int | str = what
        return node

    def _nodes_of(self, what: int | str) -> list[int]:
        """Return the nodes of an id or name; raise OperandError if the recording has none."""
        if isinstance(what, str):
            return nodes_named(self.recording, what)
        if not 0 <= what < (count := len(self.recording.nodes)):
            raise OperandError(
                f"node {what} is not in this recording",
                rule=f"it has nodes 0 to {count - 1}",
                fix="an expression, or the name of an operator, scope or variable, also selects a node",
            )
        return [what]

    def select_line(self, line: int | str, cell: str | int | None = None) -> list[int]:
        """Return the nodes recorded at a line, given by number or part of its text, and select the first one.

        ``cell`` is a cell ("In[3]", or 3) or the base name of a file; in a model's file, lines are operators.
        """
        nodes = nodes_at(self.recording, line, f"In[{cell}]" if isinstance(cell, int) else cell)
        self.focus(nodes[0])
        return nodes

    def first_nan(self) -> int | None:
        """Return the first node whose value contains a NaN, and select it; None if there is none.

        Leaves come first, then computed values in run order; the view goes to the step of that node. Raise OperandError
        if the recording has no values.
        """
        run, schedule = self.recording.run, self.recording.schedule
        if run is None or schedule is None or not run.values:
            raise OperandError(
                "a recording without values",
                rule="the values of the run must be recorded",
                fix='ex.EvalPlan(record="values")',
            )
        node = first_nan(self.recording)
        if node < 0:
            return None
        before = self._ends[[stage.kind for stage in self.recording.stages].index("run")] - len(run.steps)
        positions = [place for place, step in enumerate(run.steps, 1) if node in schedule.kernels[step.kernel].nodes]
        if positions:
            self.step = before + positions[0]
        self.focus(node)
        return node

    @gc_paused()
    def static_outputs(self) -> dict[str, Any]:
        """Return the stored view, a picture and the canonical text, for readers without a kernel.

        The JupyterLab extension renders the stored view. ``ex.outputs`` omits parts.
        """
        data: dict[str, Any] = {}
        if outputs.views and (view := stored(self._stored_payload())):
            data[MIME] = view
        label = self.recording.title or "recording"
        picture = cell_picture(self.recording, label, theme=self.theme, drawing=self._drawing, direction=self.direction)
        return {**data, **picture, "text/plain": text(self.recording, short=True)}

    def _stored_payload(self) -> dict[str, Any]:
        """Return the payload without measured times, and with the layouts of the initially open boxes."""
        recording = unmeasured(self.recording)
        if recording is self.recording and not self._asked and not self._overlays:
            return {**self.payload, "options": {**self.payload["options"], "theme": self.theme}}
        drawing = replace(self._drawing, model=replace(self._drawing.model, recording=recording))
        position = min(self.payload["options"]["position"], recording.end)
        boxes = drawing.layouts.at_once()
        return payload(
            recording, theme=self.theme, position=position, height=self._height, drawing=drawing, boxes=boxes
        )

    @traitlets.validate("selected")
    def _check_selected(self, proposal: dict[str, Any]) -> int:
        node: int = proposal["value"]
        if not -1 <= node < len(self.recording.nodes):
            last = len(self.recording.nodes) - 1
            raise TraitValueError(
                f"node {node} is not in this recording", rule=f"it has nodes 0 to {last}", fix="−1 selects none"
            )
        return node

    @traitlets.observe("direction")
    def _turn(self, change: dict[str, Any]) -> None:
        if change["new"] != self._drawing.layouts.direction:
            self._drawing = self._drawing.turned(change["new"])
            self.payload = self._payload(self.theme, self.payload["options"]["position"])

    revisions = traitlets.Dict().tag(sync=True)
    """trait → number of times that Python has sent it"""
    seen = traitlets.Dict().tag(sync=True)
    """trait → the revision known to a page when it last changed the trait"""

    def send_state(self, key: str | Iterable[str] | None = None) -> None:
        """Send traits that Python has set, with their new revisions."""
        names = {key} if isinstance(key, str) else set(key or ())
        for name in names | (_TOGETHER if names & _TOGETHER else set()):
            self.revisions[name] = self.revisions.get(name, 0) + 1
        super().send_state({*names, "revisions"} if names else key)

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Apply the state sent by a page, except traits that Python has set since; the page receives their values."""
        seen = sync_data.get("seen")
        if seen is not None:
            late = [name for name in sync_data if seen.get(name, 0) < self.revisions.get(name, 0) and name != "seen"]
            sync_data = {**sync_data, **self.get_state(late)}
        super().set_state(sync_data)

    step = traitlets.Int(0).tag(sync=True)
    """current step: 0 is the recorded graph, followed by decisions, ordered kernels, and kernels of the run"""
    stage = traitlets.Unicode("").tag(sync=True)
    """name of the step's stage; setting it shows the stage's result, at the step before its first step"""

    def _step_through(self, recording: Recording) -> None:
        self.recording, self._ends = recording, stage_ends(recording)

    @property
    def last_step(self) -> int:
        """Number of the last step."""
        return self._ends[-1] if self._ends else 0

    @property
    def is_whole(self) -> bool:
        """Whether the view shows the result of the whole stage, not one of its steps."""
        return self.has_stage(self.stage) and self.step == stage_start(self.recording, self.stage)

    def has_stage(self, name: str) -> bool:
        """Return whether there is a stage with that name."""
        return any(stage.name == name for stage in self.recording.stages)

    def show_whole(self, name: str) -> None:
        """Show a stage as a whole."""
        # Both are set before either is observed, since one would otherwise change the other.
        with self.hold_trait_notifications():
            self.stage, self.step = name, stage_start(self.recording, name)

    def place_of(self, step: int) -> tuple[str, int]:
        """Return the name of the stage of a step, and the step's index in it."""
        index = self._stage_at(step)
        return self.recording.stages[index].name, step - (self._ends[index - 1] if index else 0)

    def step_at(self, stage: str, place: int) -> int:
        """Return the step with this index in a stage, or its last step; the current step if there is no such stage."""
        names = [row.name for row in self.recording.stages]
        if stage not in names:
            return self.step
        index = names.index(stage)
        return min((self._ends[index - 1] if index else 0) + place, self._ends[index])

    @traitlets.validate("step")
    def _check_step(self, proposal: dict[str, Any]) -> int:
        step: int = proposal["value"]
        if not 0 <= step <= self.last_step:
            raise TraitValueError(
                f"step {step} is outside this recording",
                rule=f"it has steps 0 to {self.last_step}",
                fix=f"view.step = {min(max(step, 0), self.last_step)}",
            )
        return step

    @traitlets.validate("stage")
    def _check_stage(self, proposal: dict[str, Any]) -> str:
        stage: str = proposal["value"]
        names = [row.name for row in self.recording.stages]
        if not self.has_stage(stage) and (stage or names):
            near = similar_names(stage, names)
            raise TraitValueError(
                f"stage {stage!r}",
                rule=f"it must be one of {', '.join(names) or 'none'}",
                fix=f"did you mean {near[0]}? view.stage = {near[0]!r}" if near else "view.stage = …",
            )
        return stage

    @traitlets.observe("step")
    def _follow_step(self, change: dict[str, Any]) -> None:
        if self.recording.stages and not self._is_inside(change["new"], self.stage):
            self.stage = self.recording.stages[self._stage_at(change["new"])].name

    @traitlets.observe("stage")
    def _follow_stage(self, change: dict[str, Any]) -> None:
        if change["new"] and not self._is_inside(self.step, change["new"]):
            self.step = stage_start(self.recording, change["new"])

    def _stage_at(self, step: int) -> int:
        return next(index for index, end in enumerate(self._ends) if step <= end)

    def _is_inside(self, step: int, name: str) -> bool:
        """Return whether a stage with that name contains the step, or is shown as a whole at the step."""
        for row, start, end in zip(self.recording.stages, [0, *self._ends], self._ends, strict=False):
            if row.name == name and start <= step <= end:
                return True
        return False
