"""Temporary outputs of a notebook cell during long work: a progress bar, and a preview of a large graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from explorer.core.progress import Cancelled, Progress, ProgressCallback
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.planner import watching
from explorer.record.gc_pause import gc_paused
from explorer.record.listings import without_source
from explorer.run.recording.recorder import build_recorded


@contextmanager
def bar() -> Iterator[ProgressCallback]:
    """Show a progress bar with a cancel button in the running cell, and yield the function that updates it."""
    from explorer.view.widget.interactive import is_interactive
    from explorer.view.widget.progress_bar import Bar

    if not is_interactive():
        yield lambda progress: None
        return
    shown = Bar()

    def report(progress: Progress) -> None:
        if shown.cancelled:
            raise Cancelled(f"cancelled while {progress.phase} {progress.what}")
        shown.show(f"{progress.phase} {progress.what}", progress.done, progress.total)

    try:
        yield report
    finally:
        shown.close()


@contextmanager
def preview(*, source: bool = True, **options: Any) -> Iterator[None]:
    """Show the first graph planned in the block, in its recorded form, until the cell shows its view.

    Small graphs have no preview. ``options`` are view options.
    """
    from explorer.view.widget.preview import LARGE, Preview, is_wanted

    def show(graph: PlanGraph) -> None:
        if len(graph.live) >= LARGE:
            recording = build_recorded(graph)
            Preview(recording if source else without_source(recording), options)

    # Pause the garbage collector for the whole block: if each pass paused it, each would start by collecting the
    # objects of the previous pass.
    with gc_paused(), watching(show) if is_wanted() else nullcontext():
        yield
