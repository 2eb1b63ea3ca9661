"""Outputs of a notebook's running cell while work takes long: a bar, and a large graph as it was recorded."""

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
    """Show a bar to a notebook's reader by the progress that long work reports; its button cancels the work."""
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
    """Show the first graph that is planned inside the block as it was recorded, where the cell will show its view.

    Only a large graph is worth it. ``options`` are those of the view.
    """
    from explorer.view.widget.preview import LARGE, Preview, is_wanted

    def show(graph: PlanGraph) -> None:
        if len(graph.live) >= LARGE:
            recording = build_recorded(graph)
            Preview(recording if source else without_source(recording), options)

    # Paused all the while: after each pause of its own, a pass would begin with a walk over all that the last one made.
    with gc_paused(), watching(show) if is_wanted() else nullcontext():
        yield
