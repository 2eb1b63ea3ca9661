"""Imports ahead of need: what files and views take, loaded while a notebook's reader reads or types.

Half a second of a first picture is imports of Jupyter's widgets, ONNX and the layout's WebAssembly. ``import explorer``
does without them, since scripts do; in a notebook almost every reader needs them next. They are imported one after
another on the kernel's own event loop, which is free between two cells: a cell that runs meanwhile waits for one of
them at most. Programs that run notebooks (nbconvert, nbval) leave no pause, and get none of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module

PAUSE = 0.02
"""seconds between two imports, in which the kernel sees whether a cell is to be run"""
BEFORE = 0.1
"""seconds between the end of a cell and the first import"""
MODULES = (
    "google.protobuf.json_format",
    "onnx",
    "explorer.net",
    "explorer.formats",
    "explorer.formats.onnx.proto",
    "explorer.formats.onnx.reader",
    "explorer.formats.onnx.operators",
    "explorer.formats.onnx.opset_upgrade",
    "ipywidgets",
    "anywidget",
    "wasmtime",
    "explorer.view.payload.view_payload",
    "explorer.view.widget.widget",
    "explorer.api",
    "explorer.view.widget.preview",
)
"""modules in the order of their import: each takes less than a tenth of a second, those before it given"""


def import_when_idle() -> bool:
    """Begin the imports after the running cell; return False where no loop runs cells, or nobody is there to wait."""
    from explorer.view.widget.interactive import is_interactive

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return False
    if not is_interactive():
        return False
    loop.call_later(BEFORE, partial(_next, loop, _steps()))
    return True


def _steps() -> Iterator[Callable[[], object]]:
    yield from (partial(import_module, name) for name in MODULES)
    yield lambda: import_module("explorer.view.layout.graphviz_engine").dot()
    yield lambda: import_module("explorer.view.payload.script_bundle").script()


def _next(loop: asyncio.AbstractEventLoop, steps: Iterator[Callable[[], object]]) -> None:
    """Take one step, and the next one after a pause; a step that fails ends them.

    The cell that needs the module meets the error: of a missing library, or of one that does not load (a library of C
    raises OSError, versions of protobuf that do not fit together TypeError).
    """
    step = next(steps, None)
    if step is None:
        return
    with suppress(Exception):
        step()
        loop.call_later(PAUSE, partial(_next, loop, steps))
