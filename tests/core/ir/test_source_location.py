"""Source lines of expressions: the user's own line, even through NumPy, functions, scopes and gradients."""

from __future__ import annotations

import inspect
from types import CodeType

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir import assigned_names
from explorer.core.ir.assigned_names import assigned_name
from explorer.core.ir.recording_context import recording_at
from explorer.core.ir.source_location import CalledCode, SourceLocation, function_code


def here() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def location(node: ex.Expr) -> SourceLocation:
    result = node.location
    assert result is not None
    return result


def test_every_way_to_record_stores_the_users_line() -> None:
    x, line = ex.tensor(np.ones((2, 2))), here()
    assert location(x) == ("test_source_location.py", line, "x, line = ex.tensor(np.ones((2, 2))), here()")
    values = [
        (np.tanh(x), here()),
        (x + 1, here()),
        (2 * x, here()),
        (ex.softmax(x), here()),
        (x.sum(axis=0), here()),
        (x[0], here()),
        (np.ones(2) + x, here()),
        (np.mean(x), here()),
        (np.concatenate([x, x]), here()),
        (ex.conv2d(x.reshape(1, 1, 2, 2), np.ones((1, 1, 1, 1))), here()),
        (ex.ZeroTensor((2,)), here()),
    ]
    for node, line in values:
        assert location(node).where == "test_source_location.py"
        assert location(node).line == line, node
        assert str(location(node).text).startswith("(")


def test_a_statement_over_several_lines_stores_the_operators_line() -> None:
    x = ex.tensor(1.0)
    first = here()
    node = (
        x
        + 1
        + np.tanh(
            x
        )
    )  # fmt: skip
    assert first < location(node).line <= first + 6


def name(node: ex.Expr) -> str:
    assert isinstance(node.code, (CodeType, CalledCode))
    return assigned_name(function_code(node.code), node.instruction)


def test_a_value_has_the_name_that_its_line_assigns() -> None:
    weight = ex.tensor(1.0)
    assert name(weight) == "weight"
    first, second = ex.tensor(1.0), ex.tensor(2.0)
    assert (name(first), name(second)) == ("first", "second")
    doubled = ex.tensor(3.0) * 2
    assert name(doubled.operands[0]) == ""
    assert name(doubled) == "doubled"


def test_a_file_is_parsed_once_for_the_names_in_all_its_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    assigned_names._names_of_operands.cache_clear()
    sources, parse = [], assigned_names.parsed
    monkeypatch.setattr(assigned_names, "parsed", lambda source: sources.append(source) or parse(source))
    x, w = ex.tensor(np.ones((2, 3))), ex.tensor(np.ones((4, 5)))
    for _ in range(3):
        with pytest.raises(ex.OperandError, match=r"\(x, w\)"):
            x @ w
        with pytest.raises(ex.OperandError, match=r"\(w, x\)"):
            ex.add(w, x)
    assert len(sources) == 1


def test_an_array_in_a_line_does_not_have_the_name_that_the_line_assigns() -> None:
    """The variable names the resulting tensor, not the arrays that it was computed from."""
    x = ex.tensor([1.0, 2.0])
    y = x + np.ones(2)
    assert [operand.label for operand in y.operands] == ["x", "tensor"]


def test_bodies_and_gradients_store_lines_too() -> None:
    @ex.function
    def f(a: ex.Expr) -> ex.Expr:
        return np.tanh(a)

    x = ex.tensor([1.0])
    node, line = f(x), here()
    assert location(node).line == line
    assert location(node.operation.body.outputs[0]).text == "return np.tanh(a)"
    gradient, line = ex.grad(node.sum(), x), here()
    assert location(gradient).line == line
    assert repr(gradient.scope).startswith("gradient")


def test_a_body_has_its_own_lines_wherever_it_is_traced_first() -> None:
    """A call in a gradient or a file is located there, but the body, recorded once for all calls, is not."""

    @ex.function
    def f(a: ex.Expr) -> ex.Expr:
        return np.tanh(a)

    written = SourceLocation("net.param", 12, "nn.Tanh tanh 1 1 a b")
    with recording_at(None, written):
        node = f(ex.tensor([1.0]))
        after = node + 1
    assert node.location is after.location is written
    assert location(node.operation.body.outputs[0]).text == "return np.tanh(a)"


def test_scopes_can_be_nested_and_end() -> None:
    with ex.scope("a"):
        with ex.scope("b", kind="layer") as inner:
            node = ex.tensor(1.0) + 1
        outer = node + 1
    assert node.scope is inner
    assert inner.kind == "layer"
    assert (repr(node.scope), repr(outer.scope), (node + 1).scope) == ("a/b", "a", None)
    try:
        with ex.scope("broken"):
            raise KeyError
    except KeyError:
        pass
    assert (node + 1).scope is None


def test_a_file_can_be_the_source_location() -> None:
    written = SourceLocation("net.param", 12, "nn.ReLU relu 1 1 a b")
    with recording_at(None, written):
        node = ex.tensor(1.0) + 1
    assert node.location is written


def test_a_cell_that_runs_again_has_its_latest_number() -> None:
    """IPython keeps the code's name while the cell is unchanged, and counts its runs."""
    from IPython.core.interactiveshell import InteractiveShell

    already = InteractiveShell.initialized()
    shell = InteractiveShell.instance()
    try:
        places = []
        for count in (1, 7):
            shell.execution_count = count
            result = shell.run_cell("import explorer as ex\ny = ex.tanh(ex.tensor([1.0]))", store_history=False)
            result.raise_error()
            plan = ex.EvalPlan()
            plan.register(shell.user_ns["y"])
            recording = plan.prepare().recording
            places.append({recording.sources[row].full_location for row in recording.nodes.source if row >= 0})
            places[-1] |= {listing.where for listing in recording.source_texts}
    finally:
        if not already:
            InteractiveShell.clear_instance()
    assert places == [{"In[1] line 2", "In[1]"}, {"In[7] line 2", "In[7]"}]
