"""What a layer tells of itself, as text."""

from __future__ import annotations

import numpy as np
import pytest

from explorer import layers
from explorer.layers.written import write_out


@pytest.mark.spec("M-L12", "M-L13")
def test_a_layer_says_who_gave_each_policy_and_why_each_gradient_is_built() -> None:
    """describe() says who gave each policy of every layer inside, and of each gradient whether it is built, and why."""
    chosen = [layers.PUpdate, layers.Sub("weight", layers.PNoUpdate)]
    layer = layers.Linear("l", 2, 3, policies=chosen, train=True)
    weight, bias = layer["weight"].describe(), layer["bias"].describe()
    assert "GradPolicy.update = False · given by l, for weight" in weight
    assert "GradPolicy.update = True · given by l\n" in bias
    assert "✗ its gradient is not built: GradPolicy.update = False was given by l, for weight" in weight
    assert "✓ its gradient is built: GradPolicy.update = True was given by l" in bias
    assert "its gradient is not built" not in bias, "a source is no layer that feeds back"
    assert "✗ product feeds nothing back: nothing that it reads updates or feeds back" in weight
    assert "✓ sum feeds back: parameter updates or feeds back" in bias


@pytest.mark.spec("V-1")
def test_a_value_that_a_layer_is_explored_with_is_called_as_its_port() -> None:
    """An array that a layer is explored with has its port's name in the picture."""
    view = write_out(layers.Subtract("s"), {"left": np.ones(2), "right": np.ones(2)})
    assert [operand.label for operand in view.outputs["output"].operands] == ["left", "right"]
