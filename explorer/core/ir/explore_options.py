"""View options, for type checkers and editor completion; `explorer.api` rejects unknown options at run time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypedDict

from explorer.record.view_choices import Direction, Theme

RecordOption: TypeAlias = Literal["times", "values", "off"]
Kernels: TypeAlias = Literal["numpy", "native"]
"""how fused kernels run: by NumPy's functions, or by compiled C code where it is faster"""


class ViewOptions(TypedDict, total=False):
    """Options of all views: of plans, nets and recordings."""

    theme: Theme
    position: int
    """index of the step that is shown first"""
    height: int
    """height in pixels"""
    selected: int
    """id of the selected node, or −1 for none"""
    open_boxes: list[int] | None
    """ids of the open boxes; None lets the layout choose"""
    depth: int | None
    """depth down to which boxes are open"""
    direction: Direction
    """direction in which values flow"""
    layout: Any
    """layout of the widget, as in Jupyter widgets"""
    source: bool
    """whether the view contains source code"""


class PlannedViewOptions(ViewOptions, total=False):
    """Options of views of expressions and layers, which are planned before they are shown."""

    run: bool
    """whether to run the plan; the view then shows values"""
    record: RecordOption
    kernels: Kernels
    """"native" compiles kernels, and the view shows their C code"""
    plan: Mapping[str, Any] | None
    """further options of EvalPlan by name"""


class ExploreOptions(PlannedViewOptions, total=False):
    """Options of ``ex.explore``."""

    inputs: Any
    """types or values of a layer's inputs, keyed by input name"""
    compiler: str
    """name of another compiler, whose passes and decisions the view shows"""
