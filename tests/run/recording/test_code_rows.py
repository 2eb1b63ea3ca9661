"""Code of compiled kernels in a recording, with the names and lines of the program."""

from __future__ import annotations

import linecache
import re

import numpy as np
import pytest

import explorer as ex


def _plan() -> ex.EvalPlan:
    x = ex.tensor(np.ones((100, 100), np.float32))
    h = x * 2 + 1
    plan = ex.EvalPlan(kernels="native")
    plan.register(ex.tanh(h) * 0.5)
    return plan.prepare()


@pytest.mark.spec("K-2", headline=True)
def test_code_has_the_variables_and_lines_of_the_program() -> None:
    """The code of a kernel is shown with the program's variables, and each line with its node and its source."""
    plan = _plan()
    recording = plan.recording
    ((kernel, code),) = recording.codes.items()
    assert code.language == "C"
    lines = code.text.splitlines()
    shown = {recording.named_label(node): lines[line - 1].strip() for line, node in code.lines}
    assert shown["h = add 1"] == "f32 h = multiply + 1.0f;"
    comments = [line.strip().split(": ", 1)[1] for line in lines if "//" in line]
    assert comments == ["h = x * 2 + 1", "plan.register(ex.tanh(h) * 0.5)"]
    assert {node for _, node in code.lines} == {*recording.schedule.kernels[kernel].nodes}
    assert "f32 h = multiply + 1.0f;" in plan.explore().why("h")
    assert plan.code("h") == plan.code() == code.text


@pytest.mark.spec("K-2")
@pytest.mark.parametrize("end", ["\\", "\\ ", "??/", "??/\\"])
def test_comments_end_with_their_line(end: str) -> None:
    """A source line that ends with a backslash does not continue in the next line of C code."""
    x = ex.tensor(np.ones((100, 100), np.float32))
    program = f"h = x * 2  # {end}\ny = ex.tanh(h)"
    linecache.cache["<ends>"] = (len(program), None, program.splitlines(keepends=True), "<ends>")
    names = {"ex": ex, "x": x}
    exec(compile(program.replace(end, ""), "<ends>", "exec"), names)
    plan = ex.EvalPlan(kernels="native")
    plan.register(names["y"])
    (comment, _) = [line.strip() for line in plan.prepare().code("tanh").splitlines() if "//" in line]
    assert comment.endswith("h = x * 2 #")


@pytest.mark.spec("K-2")
def test_the_code_of_a_kernel_without_code_is_an_error() -> None:
    plan = ex.EvalPlan()
    plan.register(ex.tanh(ex.tensor([1.0]) * 2))
    with pytest.raises(ex.StateError, match=r"the code of tanh(.|\n)*only a plan that compiles(.|\n)*native"):
        plan.prepare().code("tanh")


@pytest.mark.spec("K-2", "K-3")
def test_the_error_for_a_kernel_without_code_states_the_reason() -> None:
    x = ex.tensor(np.ones((100, 100), np.float32))
    few = x[0].sum()
    plan = ex.EvalPlan(kernels="native")
    for result in (few, x @ x, ex.exp(x) + 1):
        plan.register(result)
    plan.prepare()
    with pytest.raises(ex.StateError, match=r"`few = sum` is computed by NumPy, because NumPy takes .* 0.946 µs"):
        plan.code(few)
    with pytest.raises(ex.StateError, match="code is generated for fused elementwise operations"):
        plan.code("matmul")
    assert "exp_f32(" in plan.code("exp")


@pytest.mark.spec("K-2")
def test_the_code_of_a_call_is_the_code_of_its_bodies() -> None:
    x = ex.tensor(np.ones((100, 100), np.float32))

    def step(carry: ex.Expr, row: ex.Expr) -> tuple[ex.Expr, ex.Expr]:
        inner = ex.cond(ex.sum(carry) > 0, lambda a: ex.tanh(a * 2) + 1, lambda a: ex.exp(a * 3) - 1, carry)
        return inner, ex.sum(inner) * row

    last, _ = ex.scan(step, x, ex.tensor(np.ones((3, 4), np.float32)))
    plan = ex.EvalPlan(kernels="native")
    plan.register(last)
    code = plan.prepare().code()
    assert code == plan.code("scan") == plan.code("exp")
    assert re.findall(r"// in the body (\w+)", code) == ["scan", "scan", "then", "otherwise"]
    assert code.count("\nvoid ") == 4
    assert "tanh_f32(" in code
    assert "exp_f32(" in code
