"""Options of views, by which type checkers and editors complete them; `explorer.api` refuses others in a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypedDict

RecordOption: TypeAlias = Literal["times", "values", "off"]


class ViewOptions(TypedDict, total=False):
    """Options of every view: of a plan, a net, a recording."""

    theme: Literal["auto", "light", "dark"]
    position: int
    """step that is shown first"""
    height: int
    """in pixels"""
    selected: int
    """id of the selected node, or −1"""
    open_boxes: list[int] | None
    """open boxes; None leaves the choice to the layout"""
    depth: int | None
    """depth down to which boxes are open"""
    direction: Literal["down", "right"]
    """where values flow"""
    layout: Any
    """layout of the widget, as Jupyter's widgets have it"""
    source: bool
    """whether the view holds texts of the program"""


class ExploreOptions(ViewOptions, total=False):
    """Options of what is planned for its view, expressions and layers, and of the view."""

    run: bool
    """whether the plan runs, so that values are seen"""
    record: RecordOption
    plan: Mapping[str, Any] | None
    """options of EvalPlan by name"""
    inputs: Any
    """types or values of a layer's inputs, by port"""
