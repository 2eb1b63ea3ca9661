"""Imports of modules for files and views while a notebook kernel is idle.

Importing Jupyter's widgets, ONNX and the WebAssembly layout engine takes half a second. ``import explorer`` skips these
modules because scripts do not need them, but almost every notebook does. They are therefore imported one by one on the
kernel's event loop, which is idle between cells, so a cell started meanwhile waits for at most one import. Programs
that run notebooks (nbconvert, nbval) have no idle time, so nothing is imported there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module

PAUSE = 0.02
"""seconds between two imports, during which the kernel can start a cell"""
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
"""modules in import order; each takes less than 0.1 s once the preceding modules are imported"""


def import_when_idle() -> bool:
    """Start importing after the running cell; return False if no event loop runs cells or no user is present."""
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
    """Run one step and schedule the next after a pause; stop if a step fails.

    If the cause persists, the cell that needs the module raises the error again. A missing or broken C library raises
    OSError, and incompatible protobuf versions raise TypeError.
    """
    step = next(steps, None)
    if step is None:
        return
    with suppress(Exception):
        step()
        loop.call_later(PAUSE, partial(_next, loop, steps))
