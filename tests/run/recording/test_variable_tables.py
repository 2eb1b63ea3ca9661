"""Variables of the user's program: names that the source gives to values, and none where it leaves a doubt."""

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
    """The recorded nodes with a variable, as they are shown."""
    recording = recorded(*roots)
    return [recording.named_label(node) for node in recording.variables if recording.nodes.born[node] < 0]


@pytest.fixture
def x() -> ex.Expr:
    return ex.tensor(np.ones((4, 4), "float32"), name="x")


def test_values_have_the_names_of_the_variables_that_they_were_given_to(x: ex.Expr) -> None:
    """A node is shown with the variable that its value was given to: h = tanh."""
    h = ex.tanh(x @ x)
    flat: ex.Expr = h.sum(axis=0)
    loss = ex.mean(
        (flat - 1) ** 2
    )  # fmt: skip
    loss += x[0, 0]
    assert named(loss) == ["h = tanh", "flat = sum", "loss = mean", "loss = add"]


def test_a_function_made_of_several_operations_names_its_last_one(x: ex.Expr) -> None:
    spread = ex.std(x)
    assert len(recorded(spread).visible(0)) > 3
    assert [name.partition(" = ")[0] for name in named(spread)] == ["spread"]


def test_a_part_of_a_value_has_no_name(x: ex.Expr) -> None:
    y = ex.exp(x) if x.ndim else ex.tanh(x)
    first, *second = ex.tanh(x), ex.sin(x)
    pair = (ex.cos(x), ex.log(x))
    both = third = ex.sqrt(x)
    assert named(y, first, *second, *pair, both, third) == []


def test_parts_that_are_written_down_have_the_names_at_their_places(x: ex.Expr) -> None:
    first, second = ex.tanh(x), x + 1
    [third, named_too] = ex.sin(x), x * 2
    assert named(first, second) == ["first = tanh", "second = add 1"]
    assert named(third, named_too) == []


def test_the_outputs_of_a_function_have_the_names_at_their_places(x: ex.Expr) -> None:
    """A traced function that returns a tuple, each time that it is called; not one of other containers."""

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


def test_a_layers_output_has_the_name_that_the_program_gives(x: ex.Expr) -> None:
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


def test_what_a_function_returns_has_the_name_that_its_caller_gives(x: ex.Expr) -> None:
    """A value that the user's function returns has the caller's name; one with a name inside keeps that."""
    large = scaled(x)
    curved = bent(x)
    assert named(large, curved) == ["large = multiply 3", "inner = tanh"]


def test_a_function_that_is_called_by_another_leaves_a_doubt(x: ex.Expr) -> None:
    last = list(map(scaled, [x, x]))
    folded = functools.reduce(lambda y, _: ex.tanh(y), range(2), x)
    assert named(*last, folded) == []


def test_functions_that_give_several_values_name_none(x: ex.Expr) -> None:
    parts = ex.topk(x, 2)
    slopes = ex.grad(x.sum(), [x])
    assert not [name for name in named(*parts, *slopes) if name.startswith(("parts", "slopes"))]


def test_calls_of_functions_are_named_if_they_give_one_value(x: ex.Expr) -> None:
    @ex.function
    def one(a: ex.Expr) -> ex.Expr:
        return ex.tanh(a) + 1

    @ex.function
    def listed(a: ex.Expr) -> list[ex.Expr]:
        return [ex.tanh(a) + 1]

    y = one(x)
    z = listed(x)
    assert named(y, z[0]) == ["y = one"]


def test_each_value_of_a_loop_is_named_and_their_number_is_told(x: ex.Expr) -> None:
    """A variable that was given several values says so for each of them, since only one of them is the last."""
    h = x
    for _ in range(3):
        h = ex.tanh(h)
    recording = recorded(h)
    assert [recording.named_label(node) for node in recording.variables] == ["h = tanh"] * 3
    note = "3 values were assigned to a variable h; this is one of them"
    assert recording.variable_note(recording.roots[0]) == note
    single = ex.tanh(x)
    assert recorded(single).variable_note(recorded(single).roots[0]) == ""


def test_a_node_that_stands_for_a_value_has_its_name(x: ex.Expr) -> None:
    squared = x**2
    recording = recorded(squared)
    final = recording.resolver(recording.end)[recording.roots[0]]
    assert recording.named_label(recording.roots[0]) == "squared = power 2"
    assert recording.named_label(final) == "squared = square"


def test_texts_and_files_have_the_names(x: ex.Expr) -> None:
    """Texts name the variable of a node in their places and kernels, and a file keeps it."""
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
