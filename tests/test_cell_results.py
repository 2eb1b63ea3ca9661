"""Outputs of expressions, plans, nets and modules as the last line of a notebook cell."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient

import explorer as ex

ROOT = Path(__file__).parents[1]
X = ex.tensor(np.ones((2, 3)), name="x")
PICTURE = {"text/html", "image/svg+xml"}


def output(value: Any) -> dict[str, Any]:
    """Return what a cell with ``value`` as its last line stores, by MIME type."""
    data: dict[str, Any] = InteractiveShell.instance().display_formatter.format(value)[0]
    assert data["text/plain"] == repr(value)
    assert all(type(part) is str for part in data.values())
    return data


def planned(*, evaluated: bool = False) -> ex.EvalPlan:
    plan = ex.EvalPlan()
    plan.register(ex.tanh(X) + 1)
    return plan.eval() if evaluated else plan.prepare()


def trained() -> ex.train.Module:
    module = ex.train.Module("classes", loss=ex.train.CrossEntropy(), optimizer=ex.train.SGD(rate=0.1))
    module.add_node(ex.train.Linear("scores", 3, 2))
    module.attach(seed=0)
    module.predict(np.ones((4, 3)))
    return module


NET = ex.open(ROOT / "assets" / "digits.pnnx.param")
OBJECTS = {
    "y": (lambda: ex.tanh(X) + 1, "tanh"),
    "plan": (planned, "kernel 1"),
    "plan after a run": (lambda: planned(evaluated=True), "kernel 1"),
    "net": (lambda: NET, "nn.MaxPool2d"),
    "module": (trained, "scores"),
}


@pytest.mark.spec("H-6", headline=True)
@pytest.mark.parametrize("name", OBJECTS)
def test_a_cell_that_ends_with_an_object_shows_its_text_and_picture(name: str) -> None:
    """Show the text and the picture of an expression, a plan, a net or a module that is the last line of a cell."""
    create, word = OBJECTS[name]
    value = create()
    data = output(value)
    assert set(data) == PICTURE | {"text/plain"}
    assert next(iter(value._repr_mimebundle_())) == "text/plain"
    assert data["image/svg+xml"].startswith("<svg")
    assert word in data["image/svg+xml"]
    assert "0x" not in data["image/svg+xml"]
    assert output(create())["image/svg+xml"] == data["image/svg+xml"]


@pytest.mark.spec("H-6")
@pytest.mark.parametrize("name", ["a tensor", "a plan of nothing", "a module before its first input"])
def test_an_object_without_a_graph_shows_its_text(name: str) -> None:
    module = ex.train.Module("classes")
    assert set(output({"a tensor": X, "a plan of nothing": ex.EvalPlan()}.get(name, module))) == {"text/plain"}


@pytest.mark.spec("H-6")
def test_showing_an_expression_neither_evaluates_it_nor_records_expressions() -> None:
    y = ex.map(lambda x: x + 1, X) * 2
    plan = ex.EvalPlan()
    plan.register(y)
    before = ex.tanh(X).uid
    assert set(output(plan)) == set(output(y)) == PICTURE | {"text/plain"}
    assert ex.tanh(X).uid == before + 1
    assert repr(plan) == "<plan: 1 registered, not planned>"


@pytest.mark.spec("H-6")
def test_a_large_graph_shows_its_text_at_once() -> None:
    y = X
    for _ in range(100_000):
        y = y + 1
    start = time.perf_counter()
    assert set(output(y)) == {"text/plain"}
    assert time.perf_counter() - start < 1


@pytest.mark.spec("H-6")
def test_outputs_selects_the_pictures_format_or_omits_it() -> None:
    y = ex.tanh(X)
    try:
        ex.outputs.png = True
        assert set(output(y)) == {"text/plain", "image/png"}
        ex.outputs.pictures = False
        assert set(output(y)) == {"text/plain"}
    finally:
        ex.outputs.pictures, ex.outputs.png = True, False


@pytest.mark.spec("H-6")
def test_a_plan_that_another_thread_runs_shows_its_expressions() -> None:
    shown: list[dict[str, Any]] = []

    class ShowsItsPlan(ex.Elementwise):
        """x, showing the plan meanwhile."""

        nondifferentiable = "it only shows the plan"
        examples = (ex.Example(ex.real(2, 3)),)
        pure = False

        def kernel(self, out: Any, x: Any) -> Any:
            thread = threading.Thread(target=lambda: shown.append(output(plan)))
            thread.start()
            thread.join()
            np.copyto(out, x)
            return out

    plan = ex.EvalPlan()
    plan.register(ShowsItsPlan()(X))
    plan.eval()
    assert [set(each) for each in shown] == [PICTURE | {"text/plain"}]


@pytest.mark.spec("H-6")
def test_terminals_draw_nothing() -> None:
    script = """
from IPython.terminal.interactiveshell import TerminalInteractiveShell
shell = TerminalInteractiveShell.instance(simple_prompt=True)
shell.run_cell("import explorer as ex; y = ex.tanh(ex.tensor([1.0]))")
print(shell.display_formatter.format(shell.user_ns["y"])[0])
import sys; print("explorer.view.picture.svg" in sys.modules)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert ended.stdout == "{'text/plain': '<tanh #1001: 1 float64>'}\nFalse\n"


@pytest.mark.spec("H-6")
def test_a_notebook_stores_the_picture_that_a_second_run_stores() -> None:
    source = "import explorer as ex\ny = ex.tanh(ex.tensor([1.0], name='x')) + 1\ny"
    stored = []
    for _ in range(2):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
        NotebookClient(notebook, kernel_name="python3", timeout=120).execute()
        stored.append(notebook.cells[0].outputs[0].data)
    assert stored[0] == stored[1]
    assert set(stored[0]) == PICTURE | {"text/plain"}
