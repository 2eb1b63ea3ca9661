"""Pages whose Python programs are run when the site is built, with a view below each program that ends with one."""

from __future__ import annotations

import ast
import linecache
import re
from typing import NamedTuple

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from explorer.view.widget.widget import GraphView

_PROGRAM = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


class Picture(NamedTuple):
    """Picture of a view, with the heading above it."""

    heading: str
    svg: str


def run(name: str, text: str) -> tuple[str, list[Picture]]:
    """Return a page as the JSON of a notebook, and the pictures of its views; its programs share their variables."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    cells, pictures, heading = [], [], ""
    for index, part in enumerate(_PROGRAM.split(text)):
        if index % 2 == 0:
            heading = [heading, *_HEADING.findall(part)][-1]
            cells.append(new_markdown_cell(part, id=f"text-{index}"))
            continue
        view = _result(part, f"{name}/program {index // 2 + 1}", namespace)
        outputs = []
        if isinstance(view, GraphView):
            data = view.static_outputs()
            outputs.append(new_output("execute_result", data=data, execution_count=index))
            pictures.append(Picture(heading, data["image/svg+xml"]))
        cells.append(new_code_cell(part.rstrip(), id=f"program-{index}", outputs=outputs, execution_count=index))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})
    nbformat.validate(notebook)
    return nbformat.writes(notebook), pictures


def _result(code: str, file: str, namespace: dict[str, object]) -> object:
    """Run a program, and return the value of its last line if it is an expression."""
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)  # views show lines of the program
    tree = ast.parse(code, file)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, file, "exec"), namespace)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), file, "eval"), namespace)
