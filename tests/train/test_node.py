"""Nodes of a module: their training tensors, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.support.small_module import data

T = ex.train


def _node(layer: Any, samples: str = "first", dtype: str = "float64") -> Any:
    module = T.Module(loss=T.MeanSquaredError(), optimizer=T.SGD(0.1), dtype=dtype, samples=samples)
    node = module.add_node(layer)
    module.attach()
    return node


@pytest.mark.spec("T-4")
def test_integer_inputs_have_a_gradient_of_zeros() -> None:
    """Parameters have real gradients, and so have the integers, like all gradients of a module."""
    node = _node(T.Linear("l", 3, 2))
    node.forward(np.array([[3, 1, 3]]))
    gradient = node.backward(np.ones((1, 2)))
    np.testing.assert_array_equal(gradient, np.zeros((1, 3)))
    assert gradient.dtype == np.float64
    np.testing.assert_array_equal(node.gradients["l/weight"], [[3, 3], [1, 1], [3, 3]])


@pytest.mark.spec("T-7", headline=True)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_relu_masks_and_keeps_the_shape(dtype: str) -> None:
    """Keep positive elements in ReLU, and multiply the gradient by the same mask; the shape is unchanged."""
    node = _node(ex.relu, dtype=dtype)
    x = np.array([[-1.0, 0.0, 2.0], [3.0, -4.0, 0.5]], dtype)
    output = node.forward(x)
    assert output.dtype == dtype
    assert output.tolist() == [[0, 0, 2], [3, 0, 0.5]]
    assert node.backward(np.full((2, 3), 5.0, dtype)).tolist() == [[0, 0, 5], [5, 0, 5]]
    assert node.parameters == {}
    assert node.input_size == node.output_size == 3
    assert node.type == "relu"


@pytest.mark.spec("T-5", headline=True)
def test_a_node_keeps_its_last_input_and_a_copy_of_its_output() -> None:
    """Keep a layer's last input and a copy of its last output until the next forward call."""
    node = _node(T.Linear("l", 6, 2))
    assert node.last_input is None
    assert node.last_output is None
    assert (node.input_size, node.output_size) == (6, 2)
    x, _ = data()
    given = ex.tensor(x)
    output = node.forward(given)
    assert node.last_input is given
    before = output.copy()
    node.backward(np.ones((8, 2)))
    assert node.last_input is given
    assert (node.last_output == before).all()
    node.forward(data()[0] + 1)
    assert (output == before).all()
    node.forward(data(3)[0])
    assert node.last_output.shape == (3, 2)
    with pytest.raises(ex.OperandError, match="must have 6 elements"):
        node.forward(np.ones((2, 5)))


@pytest.mark.spec("T-14", headline=True)
def test_a_training_tensor_is_one_contiguous_block() -> None:
    """Store training tensors in one contiguous block with strides in elements; a view is copied first."""
    node = _node(T.Linear("l", 6, 2))
    whole = np.arange(24.0).reshape(6, 4)
    node.forward(whole.T)
    kept = node.last_input
    assert kept.array.flags.c_contiguous
    assert not np.shares_memory(kept.array, whole)
    assert (kept.shape, kept.strides) == ((4, 6), (6, 1))
    assert ex.tensor(np.zeros((2, 3, 4), "float32")).strides == (12, 4, 1)
    assert ex.tensor(1.0).strides == ()


@pytest.mark.spec("T-5")
def test_a_tensor_that_was_taken_over_cannot_be_used_again() -> None:
    node = _node(T.Linear("l", 6, 2))
    given = ex.tensor(data()[0])
    node.forward(given)
    with pytest.raises(ex.StateError, match="taken it over"):
        node.forward(given)
    array = data()[0]
    assert (node.forward(array) == node.forward(array)).all(), "an array is copied"


@pytest.mark.spec("T-6", headline=True)
def test_backward_takes_over_nothing_and_makes_new_gradients() -> None:
    """Return new gradients from backward; the upstream gradient must have the right size and is not modified."""
    node = _node(T.Linear("l", 6, 2))
    x, g = data()
    with pytest.raises(ex.StateError, match="without a forward"):
        node.backward(g)
    node.forward(x)
    before = g.copy()
    for upstream in (ex.tensor(g), g):
        one = node.backward(upstream)
        kept = one.copy()
        two = node.backward(2 * g)
        assert not np.shares_memory(one, two)
        assert (one == kept).all()
        np.testing.assert_allclose(two, 2 * one, rtol=1e-12)
        assert (np.asarray(upstream) == before).all(), "the upstream gradient is only read"
    node.backward(g)
    assert one.shape == x.shape
    assert {name: array.shape for name, array in node.gradients.items()} == {"l/bias": (2,), "l/weight": (6, 2)}
    with pytest.raises(ex.OperandError, match="last output's shape"):
        node.backward(np.ones((8, 3)))
