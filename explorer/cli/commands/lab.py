"""``explorer lab``: start JupyterLab with explorer's notebooks, or with a notebook for a model file."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli.support import file_argument
from explorer.cli.support.output import stem
from explorer.cli.support.terminal import print_note
from explorer.core.errors import ExplorerError
from explorer.core.files.atomic_write import write_file

if TYPE_CHECKING:
    from explorer.net import Net

HELP = "start JupyterLab, with a notebook for a model file if one is given"
DESCRIPTION = """\
Start JupyterLab. With FILE, a small notebook that explores the file is created in this folder; an existing one is kept.
Without FILE, JupyterLab opens explorer's own notebooks if they are available, and otherwise this folder.

Arguments after -- are passed to JupyterLab: explorer lab FILE -- --port=9999
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    file_argument.arguments(parser, required=False)
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")


def execute(options: argparse.Namespace) -> int:
    """Run JupyterLab, and return its exit status."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise ExplorerError(
            "JupyterLab is not installed",
            rule="JupyterLab must be installed for explorer lab",
            fix='install it: python -m pip install "explorer-graphs[lab]"',
        )
    # -P removes this folder from the import path, so a file jupyterlab.py in it is not run
    command = [sys.executable, "-P", "-m", "jupyterlab", *["--no-browser"] * options.no_browser]
    # root, the usual user of a container, needs an explicit option
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    if options.file is None:
        checkout = Path(__file__).parents[3]
        if any((checkout / "notebooks").glob("*.ipynb")):
            # The parent folder also contains the notebooks' models, which a double click opens.
            command += [f"--notebook-dir={checkout}", "--FileContentsManager.preferred_dir=notebooks"]
        else:
            command.append(f"--notebook-dir={Path.cwd()}")
    else:
        command.append(os.path.join(os.curdir, notebook_for(options.file)))  # a name may begin with "-"
    return subprocess.call([*command, *options.forwarded])


def notebook_for(file: Path) -> Path:
    """Return the notebook for a model file in the current folder, creating it if necessary."""
    from explorer.formats import open

    net = open(file)
    path = Path(f"{stem(file)}.explorer.ipynb")
    if path.exists():
        print_note(f"{path} exists and is kept")
        return path
    where = os.path.relpath(file)
    cells = [
        _cell("markdown", f"# {stem(file)}\n\nThe model in `{where}`: its graph, its plan, and its values."),
        _cell("code", "import explorer as ex"),
        _cell("code", f"net = ex.open({where!r})\nnet"),
        _cell("code", "net.explore()"),
    ]
    if not net.check():
        shapes = ", ".join(
            f"np.zeros({shape}, {net.inputs[name].dtype or 'float32'!r})"
            for name, shape in net.example_shapes().items()
        )
        cells.append(_cell("markdown", _VALUES))
        cells.append(_cell("code", f"import numpy as np\n\ninputs = ({shapes},)\nnet.explore(inputs)"))
    cells.append(_cell("markdown", _next_steps(where, net)))
    book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    write_file(path, json.dumps(book, indent=1, ensure_ascii=False) + "\n")
    return path


_VALUES = """\
With inputs, the same view shows values and times. The inputs below are zeros: replace them with inputs that the
model was made for, from a file (`np.load("x.npz")["images"]`) or a picture."""


def _next_steps(where: str, net: Net) -> str:
    """Return the reader's next steps, which depend on whether the model runs."""
    operators = [operator for operator in net.definition.operators if operator.inputs and operator.outputs]
    steps = [
        "Press the play button of the view, or `.`, to step through the plan. The panel gives the reasons; `?` lists"
        " the keys."
    ]
    if operators:
        middle = operators[len(operators) // 2]
        steps.append(
            "Why was an operator fused with its neighbours, or why not? Click it, or run in a terminal:"
            f" `explorer why {shlex.quote(where)} {shlex.quote(middle.name)}`."
        )
        if not net.check():
            steps.append(
                f"What are the values inside? `net.cut(outputs=[{middle.outputs[0]!r}]).run(*inputs)` ends with the"
                f" operator `{middle.name}`."
            )
    if net.check():
        steps.append("The model cannot run yet: `net.check()` lists each operator that prevents it, and the fix.")
    else:
        steps.append(
            "Are its values right? `net.compare(other, *inputs)` names the first operator whose value differs from"
            ' another net, from arrays by operand name, or from `"onnxruntime"`, if it is installed.'
        )
    steps.append('Share it: `net.explore().save("net.html")` writes one page that steps without Python.')
    return "\n".join(["## What to do next", "", *(f"- {step}" for step in steps)])


def _cell(cell_type: str, source: str) -> dict[str, object]:
    cell: dict[str, object] = {"cell_type": cell_type, "metadata": {}, "source": source}
    return cell if cell_type == "markdown" else {**cell, "execution_count": None, "outputs": []}
