"""Adapter of Inductor, torch's compiler: `capture` collects what it does, and `story` makes a recording of that."""

from __future__ import annotations

from typing import Any

from explorer.compilers.adapters.inductor.capture import capture
from explorer.compilers.adapters.inductor.story import story
from explorer.compilers.registry import Compiler
from explorer.record import Recording


def record(program: Any, *args: Any, run: bool = True) -> Recording:
    """Return the recording of what Inductor does with a torch module or function, called with ``args``."""
    return story(capture(program, args, run=run))


COMPILER = Compiler(package="torch", install='pip install "explorer-graphs[torch]"', record=record)
