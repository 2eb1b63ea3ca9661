"""The page that says what MetaNN's names are called here."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ASSETS = Path(__file__).parents[2] / "assets"


@pytest.fixture(scope="module")
def page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("metann_page", ASSETS / "metann.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.spec("M-L1", "M-L8")
def test_every_name_of_metanns_has_one_here(page: ModuleType) -> None:
    """A table says what each name of MetaNN's is called here, with ports, defaults and what it does, from the code."""
    for name in page.named():
        assert page.found(name) is not None
    for port, kind in page.PORTS.values():
        layer = page.found(f"layers.{kind}")
        assert port in (*layer.inputs, *layer.outputs)
    assert page.unnamed() == {"Elementwise"}
    assert (ASSETS / "metann.md").read_text(encoding="utf-8") == page.table(), "run assets/metann.py"
