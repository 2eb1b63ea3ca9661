"""Variable names in the user's program, shown for values if the source code is unambiguous."""

import functools

import numpy as np
import pytest

import explorer as ex
from explorer.record import Recording, from_json, to_json

pytestmark = pytest.mark.spec("V-2")


def recorded(*roots: ex.Expr) -> Recording:
    plan = ex.EvalPlan()
    for root in roots:
        plan.register(root)
    return plan.prepare().recording


def named(*roots: ex.Expr) -> list[str]:
    """Return the recorded nodes with a variable, as displayed."""
    recording = recorded(*roots)
    return [recording.named_label(node) for node in recording.variables if recording.nodes.born[node] < 0]


@pytest.fixture
def x() -> ex.Expr:
    return ex.tensor(np.ones((4, 4), "float32"), name="x")


def test_values_have_the_names_of_their_variables(x: ex.Expr) -> None:
    """A node is displayed with the variable that was assigned: h = tanh."""
    h = ex.tanh(x @ x)
    flat: ex.Expr = h.sum(axis=0)
    loss = ex.mean(
        (flat - 1) ** 2
    )  # fmt: skip
    loss += x[0, 0]
    assert named(loss) == ["h = tanh", "flat = sum", "loss = mean", "loss = add"]


def test_a_function_of_several_operations_names_its_last_one(x: ex.Expr) -> None:
    spread = ex.std(x)
    assert len(recorded(spread).visible(0)) > 3
    assert [name.partition(" = ")[0] for name in named(spread)] == ["spread"]


def test_a_part_of_a_value_has_no_name(x: ex.Expr) -> None:
    y = ex.exp(x) if x.ndim else ex.tanh(x)
    first, *second = ex.tanh(x), ex.sin(x)
    pair = (ex.cos(x), ex.log(x))
    both = third = ex.sqrt(x)
    assert named(y, first, *second, *pair, both, third) == []


def test_unpacked_parts_have_the_names_at_their_positions(x: ex.Expr) -> None:
    first, second = ex.tanh(x), x + 1
    [third, named_too] = ex.sin(x), x * 2
    assert named(first, second) == ["first = tanh", "second = add 1"]
    assert named(third, named_too) == []


def test_the_outputs_of_a_function_have_the_names_at_their_positions(x: ex.Expr) -> None:
    """This holds for each call of a traced function that returns a tuple, but not another container."""

    @ex.function
    def heads(a: ex.Expr) -> tuple[ex.Expr, ex.Expr]:
        return ex.tanh(a), ex.sin(a)

    @ex.function
    def nested(a: ex.Expr) -> tuple[ex.Expr, list[ex.Expr]]:
        return ex.tanh(a), [ex.sin(a)]

    @ex.function
    def table(a: ex.Expr) -> dict[str, ex.Expr]:
        return {"q": ex.tanh(a), "k": ex.sin(a)}

    for _ in range(2):
        q, k = heads(x)
    assert [name.partition(" = ")[0] for name in named(q, k)] == ["q", "k"]
    first, (second,) = nested(x)
    third, fourth = table(x).values()
    largest, places = ex.topk(x, 2)
    assert [name for name in named(first, second, third, fourth, largest, places) if name[0] != "i"] == []


def test_the_output_of_a_layer_has_the_name_in_the_program(x: ex.Expr) -> None:
    layer = ex.layers.Sigmoid("gate")
    opened = layer(x)
    grouped = ex.map(layer, [x, x])
    listed = list(map(layer, [x + 1]))
    pair = tuple(map(layer, [x + 2, x + 3]))
    named_so = named(opened, *grouped, *listed, *pair)
    assert [name.partition(" = ")[0] for name in named_so] == ["opened"]


def scaled(value: ex.Expr) -> ex.Expr:
    return value * 3


def bent(value: ex.Expr) -> ex.Expr:
    inner = ex.tanh(value)
    assert inner.shape == value.shape
    return inner


def test_a_returned_value_has_the_name_in_the_calling_code(x: ex.Expr) -> None:
    """A value with a name inside the function keeps that name."""
    large = scaled(x)
    curved = bent(x)
    assert named(large, curved) == ["large = multiply 3", "inner = tanh"]


def test_a_function_called_by_another_is_ambiguous(x: ex.Expr) -> None:
    last = list(map(scaled, [x, x]))
    folded = functools.reduce(lambda y, _: ex.tanh(y), range(2), x)
    assert named(*last, folded) == []


def test_functions_that_return_several_values_name_none(x: ex.Expr) -> None:
    parts = ex.topk(x, 2)
    slopes = ex.grad(x.sum(), [x])
    assert not [name for name in named(*parts, *slopes) if name.startswith(("parts", "slopes"))]


def test_calls_of_functions_are_named_if_they_return_one_value(x: ex.Expr) -> None:
    @ex.function
    def one(a: ex.Expr) -> ex.Expr:
        return ex.tanh(a) + 1

    @ex.function
    def listed(a: ex.Expr) -> list[ex.Expr]:
        return [ex.tanh(a) + 1]

    y = one(x)
    z = listed(x)
    assert named(y, z[0]) == ["y = one"]


def test_each_value_of_a_loop_is_named_with_their_count(x: ex.Expr) -> None:
    """A variable that was assigned several values shows their number, since only one of them is the last."""
    h = x
    for _ in range(3):
        h = ex.tanh(h)
    recording = recorded(h)
    assert [recording.named_label(node) for node in recording.variables] == ["h = tanh"] * 3
    note = "3 values were assigned to a variable h; this is one of them"
    assert recording.variable_note(recording.roots[0]) == note
    single = ex.tanh(x)
    assert recorded(single).variable_note(recorded(single).roots[0]) == ""


def test_the_replacement_of_a_value_has_its_name(x: ex.Expr) -> None:
    squared = x**2
    recording = recorded(squared)
    final = recording.resolver(recording.end)[recording.roots[0]]
    assert recording.named_label(recording.roots[0]) == "squared = power 2"
    assert recording.named_label(final) == "squared = square"


def test_text_output_and_files_contain_the_names(x: ex.Expr) -> None:
    """They appear in locations and kernels, and a file keeps them."""
    hidden = ex.tanh(x @ x)
    loss = hidden.sum() + hidden.max()
    plan = ex.EvalPlan()
    plan.register(loss)
    text = plan.prepare().explain()
    assert "hidden = tanh, line " in text
    assert "→ loss = add, line " in text or " loss = add, line " in text
    recording = plan.recording
    assert from_json(to_json(recording)).variables == recording.variables
    (node,) = [node for node, name in recording.variables.items() if name == "hidden"]
    assert ex.explore(plan).why("hidden") == ex.explore(plan).why(node)
