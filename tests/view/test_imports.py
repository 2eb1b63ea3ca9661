"""Imports of views: neither NumPy nor the engine."""

import ast
import pathlib
import subprocess
import sys

import pytest

import explorer.view

ROOT = pathlib.Path(explorer.view.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in ROOT.rglob("*.py") if path.stem != "__init__"
)
WIDGETS = (
    "compare.side_by_side",
    "widget.widget",
    "widget.preview",
    "widget.progress_bar",
    "widget.front_end",
)  # they use ipywidgets
WITHOUT_WIDGETS = [module for module in MODULES if module not in WIDGETS]

# Registers an empty package, so that explorer/__init__ does not import the engine. Each module is loaded in a fork that
# has loaded no other module, since a fork starts faster than an interpreter.
LOAD = """
import importlib, os, sys, types
bare = types.ModuleType("explorer"); bare.__path__ = [sys.argv[1]]
sys.modules["explorer"] = bare
for module in sys.argv[2:]:
    if not os.fork():
        importlib.import_module("explorer.view." + module)
        packages = ("numpy", "explorer", "ipywidgets", "anywidget")
        print(module, *sorted(name for name in sys.modules if name.split(".")[0] in packages), flush=True)
        os._exit(0)
    if os.wait()[1]:
        sys.exit(f"explorer.view.{module} cannot be loaded")
"""


@pytest.fixture(scope="module")
def loaded():
    """Return for each module of the view, keyed by name, the names of the modules that it loads."""
    command = [sys.executable, "-c", LOAD, str(ROOT.parent), *WITHOUT_WIDGETS]
    lines = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()
    return {line.split()[0]: line.split()[1:] for line in lines}


@pytest.mark.parametrize("module", WITHOUT_WIDGETS)
def test_a_module_loads_neither_numpy_nor_the_engine(module, loaded):
    assert f"explorer.view.{module}" in loaded[module]
    assert {".".join(name.split(".")[:2]) for name in loaded[module]} <= {
        "explorer",
        "explorer.view",
        "explorer.record",
    }


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_records_and_views(module):
    for node in ast.walk(ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            assert not name.startswith("numpy")
            if name.split(".")[0] == "explorer":
                assert name.split(".")[1] in ("view", "record")
