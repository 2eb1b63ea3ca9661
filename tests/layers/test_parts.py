"""Arguments of layers: port containers, initializers, load buffers, weights."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer import layers
from tests.support.refusals import refused

ONES = layers.Initializer(filler=layers.Constant(1.0))


class Two(layers.Layer):
    """Two outputs."""

    outputs = ("a", "b")

    def forward(self, input: ex.Expr) -> dict[str, ex.Expr]:
        return {"b": input * 3, "a": ex.square(input)}


def test_port_containers_are_read_only_dicts() -> None:
    """Several outputs are evaluated like a dict, and can be passed to another layer as a whole."""
    y = Two("t")(np.array(2.0))
    assert {name: float(each) for name, each in ex.evaluate(y).items()} == {"a": 4, "b": 6}
    assert (
        copy.copy(layers.Ports(("a",)).set(a=1))
        == pickle.loads(pickle.dumps(layers.Ports(("a",)).set(a=1)))
        == {"a": 1}
    )
    for write in (lambda: y.update(a=1), lambda: y.__setitem__("a", 1), lambda: y.pop("a"), lambda: y.clear()):
        with refused(ex.StateError):
            write()


def initial_value(name: str, *, seed: int = 0, first: str = "") -> Any:
    """Return a named bias's initial value if another parameter is initialized first."""
    initializer = layers.Initializer(filler=layers.Uniform(), seed=seed)
    buffer: dict[str, Any] = {}
    for each in (first, name):
        layer = layers.Bias(each or "other", 4)
        layer.init(initializer, buffer)
    return layer.save_weights()[f"{name}/parameter"].tolist()


@pytest.mark.spec("M-L3")
def test_a_filler_depends_only_on_the_name_and_the_seed() -> None:
    """Earlier initializations do not matter; similar names draw different numbers."""
    drawn = initial_value("ab")
    assert initial_value("ab") == initial_value("ab", first="cd") == drawn
    assert all(initial_value(name) != drawn for name in ("ba", "ac", "abc"))
    assert initial_value("ab", seed=1) != drawn


@pytest.mark.spec("M-L3", "M-L14")
def test_only_equal_parameters_are_shared() -> None:
    """A parameter in the load buffer must have the layer's shape, dtype and device."""
    buffer: dict[str, Any] = {}
    layers.Bias("b", 2).init(ONES, buffer)
    wrong = [
        layers.Bias("b", 3),
        layers.Bias("b", 2, policies=[layers.ParameterPolicy.dtype(np.float64)]),
        layers.Bias("b", 2, policies=[layers.ParameterPolicy.dtype(np.float16)]),
    ]
    for layer in wrong:
        with pytest.raises(ex.OperandError, match=r"'b/parameter' shares .*\n.*shape, dtype and device"):
            layer.init(ONES, buffer)
    same = layers.Bias("b", 2)
    same.init(ONES, buffer)
    assert same.parameters()["parameter"] is buffer["b/parameter"]


def test_weights_are_copied() -> None:
    """Writing to an assigned or initial array does not change the parameter."""
    given = np.ones(2, np.float32)
    layer = layers.Bias("b", 2)
    layer.init(layers.Initializer({"b/parameter": given}))
    given[:] = 5
    assert layer.save_weights()["b/parameter"].tolist() == [1, 1]
    layer.load_weights({"b/parameter": given})
    given[:] = 7
    assert layer.save_weights()["b/parameter"].tolist() == [5, 5]


def test_initial_values_are_checked() -> None:
    """Initializers, buffers and weights of a wrong kind raise an error; unused values are listed."""
    layer = layers.Bias("b", 2)
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: layer.init({"b/parameter": [1, 2]}), r"init\(Initializer\("),  # type: ignore[arg-type]
        (lambda: layer.init(ONES, [1]), "a load buffer must map"),  # type: ignore[arg-type]
        (lambda: layer.load_weights(None), "weights must be a mapping"),  # type: ignore[arg-type]
        (lambda: layers.Initializer([1, 2]), "must be a mapping keyed by parameter name"),  # type: ignore[arg-type]
        (lambda: layers.Initializer(names=["a"]), "names must be a mapping keyed by parameter name"),  # type: ignore[arg-type]
        (lambda: layer.init(layers.Initializer({"b/paramter": [1, 2]})), "there are values for b/paramter"),
    ]
    for call, message in calls:
        with pytest.raises(ex.ExplorerError, match=message):
            call()
    initializer = layers.Initializer({"b/paramter": [1, 2], "b/parameter": [3, 4]}, filler=layers.Constant(0.0))
    layer.init(initializer)
    assert initializer.unused() == ("b/paramter",)
    shared = layers.Initializer({"shared": [1, 2], "more": [1]}, names={"b/parameter": "shared"})
    layer.init(shared)
    assert shared.unused() == ("more",)


@pytest.mark.parametrize("kind", [layers.ParamSource, layers.ValueSource])
def test_a_source_rejects_policies_for_sublayers(kind: type[layers.Layer]) -> None:
    """It checks its shape, and like every layer that its policies refer to existing sublayers."""
    with refused(ex.UnknownNameError, "inner", "w"):
        kind("w", (3,), policies=[layers.Sub("inner", layers.PUpdate)])
