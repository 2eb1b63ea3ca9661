"""Compiled kernels as the default of all plans, for tests that do not choose kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from explorer.plan.graph import compiled_price
from explorer.plan.graph.cost_model import CostModel
from explorer.plan.options import Options
from explorer.run.native import library
from explorer.run.plan_cache import cache


@contextmanager
def compiled_by_default() -> Iterator[None]:
    """Compile kernels of any size, in a temporary folder.

    Plans without fusion and plans with custom passes are as before, because tests compare other plans with them.
    """
    assert library.compiler() is not None, library.NO_COMPILER
    original = Options.__init__

    def initialize(self: Options, without: tuple[str, ...] = (), **options: Any) -> None:
        if "passes" not in options and "fuse" not in without:
            options["kernels"] = "native"
        original(self, without, **options)

    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "cache_folder", lambda: Path(folder))
        patch.setattr(compiled_price, "COMPILED", CostModel(call=0.0, flops=math.inf))
        patch.setattr(Options, "__init__", initialize)
        yield


@contextmanager
def without_compiler() -> Iterator[None]:
    """Find no compiler, as in a process that has neither compiled a kernel nor warned."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "compiler", lambda: None)
        _forget()
        yield
    _forget()


def _forget() -> None:
    library.library.cache_clear()
    library._warn.cache_clear()
    cache.clear()
