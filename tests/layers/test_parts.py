"""What layers are handed: containers of ports, initialisers, load buffers, weights."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer import layers

ONES = layers.Initializer(filler=layers.Constant(1.0))


class Two(layers.Layer):
    """Two outputs."""

    outputs = ("a", "b")

    def forward(self, input: ex.Expr) -> dict[str, ex.Expr]:
        return {"b": input * 3, "a": ex.square(input)}


def test_containers_of_ports_are_dicts_that_do_not_change() -> None:
    """Several outputs are evaluated as a dict is, and go into another layer whole; nothing is written to them."""
    y = Two("t")(np.array(2.0))
    assert {name: float(each) for name, each in ex.evaluate(y).items()} == {"a": 4, "b": 6}
    assert (
        copy.copy(layers.Ports(("a",)).set(a=1))
        == pickle.loads(pickle.dumps(layers.Ports(("a",)).set(a=1)))
        == {"a": 1}
    )
    for write in (lambda: y.update(a=1), lambda: y.__setitem__("a", 1), lambda: y.pop("a"), lambda: y.clear()):
        with pytest.raises(ex.StateError, match="does not change"):
            write()


def test_what_is_initialised_with_is_checked() -> None:
    """Initialisers, buffers and weights of the wrong kind are refused; values that no parameter took are listed."""
    layer = layers.Bias("b", 2)
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: layer.init({"b/parameter": [1, 2]}), r"init\(Initializer\("),  # type: ignore[arg-type]
        (lambda: layer.init(ONES, [1]), "a load buffer maps parameter names"),  # type: ignore[arg-type]
        (lambda: layer.load_weights(None), "weights are arrays by parameter name"),  # type: ignore[arg-type]
        (lambda: layers.Initializer([1, 2]), "values are given by parameter name"),  # type: ignore[arg-type]
        (lambda: layers.Initializer(names=["a"]), "names are given by parameter name"),  # type: ignore[arg-type]
        (lambda: layer.init(layers.Initializer({"b/paramter": [1, 2]})), "there are values for b/paramter"),
    ]
    for call, message in calls:
        with pytest.raises(ex.ExplorerError, match=message):
            call()
    initializer = layers.Initializer({"b/paramter": [1, 2], "b/parameter": [3, 4]}, filler=layers.Constant(0.0))
    layer.init(initializer)
    assert initializer.unused() == ("b/paramter",)
