"""Functions: traced once per combination of types, and again when a variable that they read was rebound."""

from __future__ import annotations

import gc
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.function import Call

SCALE: Any = 2.0
WEIGHT: Any = ex.tensor([1.0, 2.0])


def value(node: Any) -> Any:
    return np.asarray(ex.evaluate(node)).tolist()


@pytest.fixture
def x() -> ex.Tensor:
    return ex.tensor([3.0, 5.0])


def test_a_body_is_traced_once_per_combination_of_types(x: ex.Tensor) -> None:
    runs = []

    @ex.function
    def f(a: ex.Expr, b: ex.Expr) -> ex.Expr:
        runs.append(1)
        return a * b

    for _ in range(3):
        node = f(x, x)
    assert isinstance(node.operation, Call)
    assert node.operands == (x, x)
    assert node.operation is f(x, x).operation
    assert (len(runs), f.traces) == (1, 1)
    f(x, x.astype(np.float32))
    f(x, x.sum())
    assert (len(runs), f.traces) == (3, 3)
    assert value(node) == [9.0, 25.0]


@pytest.mark.parametrize(
    ("first", "second"), [(0.0, -0.0), (1, True), (1, 1.0), (2.0, np.float64(2.0)), (np.float32(0.0), np.float32(-0.0))]
)
def test_static_arguments_are_distinguished_by_type_and_bits(first: Any, second: Any) -> None:
    """f(x, 0.0) and f(x, −0.0) have different bodies, since their values differ in sign."""
    x = ex.tensor(np.array([1.0, -1.0], np.float32))

    @ex.function
    def f(a: ex.Expr, number: Any) -> ex.Expr:
        return a * number

    results = [ex.evaluate(f(x, number)) for number in (first, second, first)]
    for got, number in zip(results, (first, second, first), strict=True):
        expected = np.asarray(x) * number
        assert got.dtype == expected.dtype
        assert got.tobytes() == expected.tobytes()
    assert f.traces == 2


def test_nan_as_a_static_argument_is_traced_once(x: ex.Tensor) -> None:
    @ex.function
    def f(a: ex.Expr, number: float) -> ex.Expr:
        return a + number

    f(x, float("nan"))
    f(x, float("nan"))
    assert f.traces == 1


def test_static_arguments_select_the_body(x: ex.Tensor) -> None:
    @ex.function
    def power(a: ex.Expr, n: int) -> ex.Expr:
        return a if n == 0 else a * power(a, n - 1)

    assert value(power(x, 2)) == [27.0, 125.0]
    assert power.traces == 3


def test_unhashable_static_arguments_raise_an_error(x: ex.Tensor) -> None:
    @ex.function
    def f(a: ex.Expr, option: Any) -> ex.Expr:
        return a

    with pytest.raises(ex.DeclarationError, match="cannot be hashed"):
        f(x, {1, 2})


def test_arrays_are_operands(x: ex.Tensor) -> None:
    """Another array of the same type runs the same body."""

    @ex.function
    def f(a: ex.Expr, b: Any) -> ex.Expr:
        return a + b

    assert value(f(x, np.array([1.0, 2.0]))) == [4.0, 7.0]
    assert value(f(x, np.array([10.0, 20.0]))) == [13.0, 25.0]
    assert value(f(x, np.array(100.0))) == [103.0, 105.0]
    assert value(f(x, np.array(200.0))) == [203.0, 205.0]
    assert f.traces == 2


def test_keywords_containers_and_several_outputs(x: ex.Tensor) -> None:
    class Pair(NamedTuple):
        low: Any
        high: Any

    @ex.function
    def f(items: Any, *, scale: Any, more: Any = ()) -> Any:
        return {"sum": items["a"] + items["b"][0], "pair": Pair(items["a"] * scale, [items["a"].sum()])}

    result = f({"a": x, "b": [x + 1]}, scale=ex.tensor(2.0))
    assert set(result) == {"sum", "pair"}
    assert isinstance(result["pair"], Pair)
    assert value(result["sum"]) == [7.0, 11.0]
    assert value(result["pair"].low) == [6.0, 10.0]
    assert value(result["pair"].high[0]) == 8.0


def test_outputs_may_repeat_or_be_operands_or_captured_values(x: ex.Tensor) -> None:
    outer = ex.tensor([7.0, 8.0])

    @ex.function
    def f(a: ex.Expr) -> Any:
        y = a + 1
        return y, y, a, outer, (y,)

    first, again, same, captured, (nested,) = f(x)
    assert [value(v) for v in (first, again, same, captured, nested)] == [
        [4.0, 6.0], [4.0, 6.0], [3.0, 5.0], [7.0, 8.0], [4.0, 6.0],
    ]  # fmt: skip


def test_captured_values_are_hidden_operands(x: ex.Tensor) -> None:
    weight = ex.tensor([2.0, 3.0])
    derived = np.tanh(weight)

    @ex.function
    def f(a: ex.Expr) -> ex.Expr:
        return a * weight + derived

    node = f(x)
    assert set(node.operands) == {x, weight, derived}
    np.testing.assert_allclose(ex.evaluate(node), np.array([3.0, 5.0]) * [2, 3] + np.tanh([2.0, 3.0]))


def test_rebinding_an_outer_variable_traces_again(x: ex.Tensor) -> None:
    """The next call sees a new value, number or array, even if Python reuses memory."""
    for make in (ex.tensor, np.array, lambda rows: tuple(rows), lambda rows: float(rows[0])):
        outer: Any = make([1.0, 1.0])

        @ex.function
        def f(a: ex.Expr) -> ex.Expr:
            return a * np.asarray(outer) if isinstance(outer, tuple) else a * outer  # noqa: B023

        assert value(f(x)) == [3.0, 5.0]
        for number in range(2, 8):
            outer = make([float(number)] * 2)
            assert value(f(x)) == [3.0 * number, 5.0 * number]
            assert value(f(x)) == [3.0 * number, 5.0 * number]
        assert f.traces == 7


def _scaled(a: Any) -> Any:
    (scaled,) = [b * SCALE for b in [a]]
    return scaled


def test_variables_of_helpers_and_comprehensions_are_seen(x: ex.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rebinding a plain helper, or what it reads, is seen as well."""

    @ex.function
    def f(a: ex.Expr) -> ex.Expr:
        return _scaled(a) + (lambda b: b * WEIGHT)(a)

    assert value(f(x)) == [9.0, 20.0]
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert value(f(x)) == [12.0, 25.0]
    monkeypatch.setitem(globals(), "WEIGHT", ex.tensor([0.0, 0.0]))
    assert value(f(x)) == [9.0, 15.0]
    monkeypatch.setitem(globals(), "_scaled", lambda a: a)
    assert value(f(x)) == [3.0, 5.0]
    assert f.traces == 4


def test_variables_of_a_nested_function_are_watched(x: ex.Tensor) -> None:
    weight = ex.tensor([1.0, 1.0])

    @ex.function
    def inner(a: ex.Expr) -> ex.Expr:
        return a * weight

    @ex.function
    def outer(a: ex.Expr) -> ex.Expr:
        return inner(a) + inner(a + 1)

    assert value(outer(x)) == [7.0, 11.0]
    weight = ex.tensor([10.0, 10.0])
    assert value(outer(x)) == [70.0, 110.0]


def test_bodies_of_old_bindings_are_freed(x: ex.Tensor) -> None:
    """A training loop that rebinds its weight does not keep all previous bodies."""
    weight = ex.tensor([0.0, 0.0])

    @ex.function
    def f(a: ex.Expr) -> ex.Expr:
        return a + weight

    for step in range(20):
        weight = ex.tensor([float(step)] * 2)
        f(x)
    assert f.traces == 20
    assert sum(map(len, f._traces.values())) <= 4


def test_traced_values_do_not_convert_to_numbers(x: ex.Tensor) -> None:
    """bool, float, int and asarray of a traced value raise an error with an alternative; outer values may be read."""
    outer = ex.tensor(4.0)

    @ex.function
    def reads_outer(a: ex.Expr) -> ex.Expr:
        return a if float(outer) > 3 else -a

    assert value(reads_outer(x)) == [3.0, 5.0]
    for convert in (bool, float, int, np.asarray):

        @ex.function
        def f(a: ex.Expr) -> ex.Expr:
            convert(a.sum())  # noqa: B023
            return a

        with pytest.raises(ex.StateError, match=r"ex\.cond, or with ex\.where") as caught:
            f(x)
        assert "ex.function" in str(caught.value)


def test_infinite_recursion_raises_an_error(x: ex.Tensor) -> None:
    @ex.function
    def f(a: ex.Expr) -> ex.Expr:
        return f(a + 1)

    with pytest.raises(ex.DeclarationError, match="calls itself"):
        f(x)


@pytest.mark.parametrize("result", [None, 3.0, (), [1.0], {"a": None}])
def test_results_are_expressions(result: Any, x: ex.Tensor) -> None:
    @ex.function
    def f(a: ex.Expr) -> Any:
        return result

    with pytest.raises(ex.DeclarationError, match="f returned"):
        f(x)


def test_a_failing_body_leaves_no_state(x: ex.Tensor) -> None:
    fail = True

    @ex.function
    def f(a: ex.Expr) -> ex.Expr:
        if fail:
            raise KeyError("of the user")
        return a

    with pytest.raises(KeyError, match="of the user"):
        f(x)
    fail = False
    assert value(f(x)) == [3.0, 5.0]
    assert float(x.sum()) == 8.0
    assert x.sum().scope is None


def test_methods_are_functions_too(x: ex.Tensor) -> None:
    class Scale:
        def __init__(self, by: float) -> None:
            self.by = by

        @ex.function
        def __call__(self, a: ex.Expr) -> ex.Expr:
            return a * self.by

    scale = Scale(2.0)
    assert value(scale(x)) == value(scale(x)) == [6.0, 10.0]
    assert value(Scale(3.0)(x)) == [9.0, 15.0]
    scale.by = 4.0
    assert value(scale(x)) == [12.0, 20.0]


class Layer:
    """A user-defined layer whose weight is an attribute, read by a method and by a property."""

    def __init__(self, weight: Any) -> None:
        self.weight = weight
        self.unused = 0

    @property
    def doubled(self) -> Any:
        return self.weight + self.weight

    def forward(self, a: Any) -> Any:
        return a * self.doubled


class Model:
    def __init__(self) -> None:
        self.layer = Layer(ex.tensor([1.0, 1.0]))


def test_rebound_attributes_are_seen(x: ex.Tensor) -> None:
    """A model's weight is replaced two objects down, and the next call reads the new one."""
    model = Model()

    @ex.function
    def f(a: ex.Expr) -> ex.Expr:
        return model.layer.forward(a)

    assert value(f(x)) == [6.0, 10.0]
    model.layer.weight = ex.tensor([0.5, 0.5])
    assert value(f(x)) == [3.0, 5.0]
    model.layer = Layer(ex.tensor([0.0, 0.0]))
    assert value(f(x)) == [0.0, 0.0]
    model.layer.unused = 1
    assert value(f(x)) == [0.0, 0.0]
    assert f.traces == 3


def test_scopes_and_parameters_are_named(x: ex.Tensor) -> None:
    @ex.function
    def layer(image: ex.Expr, weights: Any) -> ex.Expr:
        with ex.scope("inside"):
            return image * weights[0] + weights[1]

    with ex.scope("outside"):
        node = layer(x, [x, x + 1])
    assert repr(node.scope) == "outside"
    body = node.operation.body
    assert [parameter.operation.label for parameter in body.parameters] == ["image", "weights0", "weights1"]
    assert repr(body.outputs[0].scope) == "layer/inside"
    assert node.operation.label == "layer"


def test_a_nested_body_reads_values_of_neither_body(x: ex.Tensor) -> None:
    """While both are traced, the outer body's values are as unknown as the inner one's."""

    @ex.function
    def outer(a: ex.Expr) -> ex.Expr:
        total = a.sum()

        @ex.function
        def inner(b: ex.Expr) -> ex.Expr:
            return b if float(total) > 0 else -b

        return inner(a)

    with pytest.raises(ex.StateError, match=r"ex\.where"):
        outer(x)


def test_arguments_of_equal_types_in_other_containers_have_separate_bodies(x: ex.Tensor) -> None:
    @ex.function
    def f(*args: Any, **named: Any) -> ex.Expr:
        return x * len(args) + len(args[0]) if isinstance(args[0], tuple) else x * 10 * len(args) + len(named)

    assert value(f((x, x), x)) == [8.0, 12.0]
    assert value(f((x,), (x, x))) == [7.0, 11.0]
    assert value(f(x, x, x)) == [90.0, 150.0]
    assert value(f(x, x, last=x)) == [61.0, 101.0]
    assert f.traces == 4


def test_a_value_that_leaves_its_trace_has_no_value(x: ex.Tensor) -> None:
    leaked = []

    @ex.function
    def f(a: ex.Expr) -> ex.Expr:
        leaked.append(a + 1)
        return a

    f(x)
    with pytest.raises(ex.StateError, match="has no value"):
        ex.evaluate(leaked[0])


def test_the_number_of_bodies_of_a_function_is_limited(x: ex.Tensor) -> None:
    """A static value that differs at every call does not exhaust memory; the newest bodies are kept."""

    @ex.function
    def scaled(a: ex.Expr, by: float) -> ex.Expr:
        return a * by

    bodies = [weakref.ref(scaled(x, float(number)).operation) for number in range(1000)]
    gc.collect()
    kept = [number for number, body in enumerate(bodies) if body() is not None]
    assert kept == [*range(1000 - len(kept), 1000)]
    assert 100 < len(kept) < 500
    scaled(x, 999.0)
    assert scaled.traces == 1000
    assert value(scaled(x, 0.5)) == [1.5, 2.5]
