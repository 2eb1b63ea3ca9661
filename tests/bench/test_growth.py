"""Work that must be linear in the number of nodes: µs per node at two sizes, for programs that were quadratic once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.formats.pnnx.param_reader import parse
from explorer.plan import plan
from explorer.view.export.html_page import html
from tests.bench.contest import micros, table
from tests.support.large import flat

pytestmark = pytest.mark.bench

SIZES = (1_000, 4_000, 16_000)


@ex.function
def layer(x: ex.Expr) -> ex.Expr:
    """Function called by each step of a long chain."""
    return ex.tanh(x * x)


PROGRAMS: dict[str, Callable[[Sequence[ex.Expr]], ex.Expr]] = {
    "total + tanh(x)": lambda xs: reduce(lambda total, x: total + ex.tanh(x), xs),
    "tanh(x) + total": lambda xs: reduce(lambda total, x: ex.tanh(x) + total, xs),
    "add_n(total, x, sin(x))": lambda xs: reduce(lambda total, x: ex.add_n(total, x, ex.sin(x)), xs),
    "add_n(tanh(x), …)": lambda xs: ex.add_n(*[ex.tanh(x) for x in xs]),
    "stack(tanh(x), …).sum": lambda xs: ex.stack([ex.tanh(x) for x in xs]).sum(axis=0),
    "layer(total + x)": lambda xs: reduce(lambda total, x: layer(total + x), xs),
    "(total + x) @ I": lambda xs: reduce(lambda total, x: (total + x) @ np.eye(2), xs),
}


def test_planning_is_linear_in_the_nodes() -> None:
    """Target: equal figures in a row."""
    rows = []
    for name, build in PROGRAMS.items():
        row = []
        for size in SIZES:
            root = build([ex.tensor(np.full(2, 1.0 / n)) for n in range(1, size + 1)])
            row.append(micros(lambda root=root: plan([root]), len(plan([root]).graph.recorded)))
        rows.append([name, *[f"{figure:.2f}" for figure in row]])
    print(table("planning, µs a node", ["program", *[f"{size:,}" for size in SIZES]], rows, ["numpy"]))
    assert len(rows) == len(PROGRAMS)


def test_reading_a_line_is_linear_in_its_operands() -> None:
    """Target: equal figures in the row."""
    row = []
    for size in SIZES:
        names = [f"b{index}" for index in range(size)]
        inputs = "\n".join(f"pnnx.Input i{name} 0 1 {name}" for name in names)
        text = f"7767517\n{size + 1} {size}\n{inputs}\nop o {size} 0 {' '.join(names)}\n"
        row.append(f"{micros(lambda text=text: parse(text.encode(), path='wide.param', name='wide'), size):.2f}")
    print(
        table("reading a .param, µs an operand", ["file", *map(str, SIZES)], [["one wide operator", *row]], ["numpy"])
    )
    assert len(row) == len(SIZES)


def test_unknown_operator_types_cost_as_much_as_known_ones(tmp_path: Path) -> None:
    """Target: equal figures in the row, although each operator has another unknown type, similar to known ones."""
    row = []
    for size in SIZES:
        lines = [f"nn.Conv{index}d op{index} 1 1 {index} {index + 1}" for index in range(size)]
        text = f"7767517\n{size + 1} {size + 1}\npnnx.Input in 0 1 0 #0=(1,3,8,8)f32\n" + "\n".join(lines) + "\n"
        path = tmp_path / f"{size}.param"
        path.write_text(text)
        row.append(f"{micros(lambda path=path: ex.open(path).check(), size):.2f}")
    print(table("checking a .param, µs an operator", ["file", *map(str, SIZES)], [["unknown types", *row]], ["numpy"]))
    assert len(row) == len(SIZES)


def test_a_page_is_linear_in_its_nodes() -> None:
    """Target: equal figures in a row, up to 10⁵ nodes side by side in many batches."""
    shapes: dict[str, Callable[[int], list[ex.Expr]]] = {
        "random": flat,
        "one reader of all": lambda size: [ex.add_n(*[ex.tanh(ex.tensor(np.ones(2))) for _ in range(size // 2)])],
        "all roots": lambda size: [ex.tanh(ex.tensor(np.ones(2)) * float(index)) for index in range(size // 2)],
        "a chain": lambda size: [reduce(lambda x, _: ex.tanh(x), range(size), ex.tensor(np.ones(2)))],
    }
    rows = []
    for name, build in shapes.items():
        row = []
        for size in SIZES:
            plan = ex.EvalPlan(record="off")
            for root in build(size):
                plan.register(root)
            recording = plan.prepare().recording
            row.append(micros(lambda recording=recording: html(recording), size))
        rows.append([name, *[f"{figure:.1f}" for figure in row]])
    print(table("a page, µs a node", ["program", *[f"{size:,}" for size in SIZES]], rows, ["numpy"]))
    assert len(rows) == len(shapes)
