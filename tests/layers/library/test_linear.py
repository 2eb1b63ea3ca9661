"""Weights, biases and the perceptron: MetaNN's own cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer import layers

W = np.array([[0.1, 0.3, 0.5], [0.2, 0.4, 0.6]], np.float32)
B = np.array([0.7, 0.8, 0.9], np.float32)
X = np.array([0.1, 0.2], np.float32)


def collected(layer: layers.Layer) -> dict[str, Any]:
    """Return the computed gradients of a layer's parameters by name."""
    collector = layers.GradCollector()
    layer.grad_collect(collector)
    layer.neutral_invariant()
    return {parameter.name: ex.evaluate(gradient) for parameter, gradient in collector}


@pytest.mark.spec("M-L4", "M-L7", "M-L8")
def test_a_perceptron_equals_metanns_values_and_gradients() -> None:
    """Gradients are collected by parameter."""
    chosen = [layers.PUpdate, layers.PerceptronPolicy.activation(layers.Sigmoid)]
    layer = layers.SingleLayerPerceptron("root", 2, 3, policies=chosen, train=True)
    layer.init(layers.Initializer({"root/linear/weight/parameter": W, "root/linear/bias/parameter": B}))
    y = layer.feed_forward(X)
    assert isinstance(y, ex.Expr)
    np.testing.assert_allclose(ex.evaluate(y), 1 / (1 + np.exp(-np.array([0.75, 0.91, 1.07]))), rtol=1e-6)
    assert layer.feed_backward(np.array([0.19, 0.23, -0.15], np.float32)) is None
    result = collected(layer)
    expected = np.array([0.0414, 0.04706511, -0.02852585])
    np.testing.assert_allclose(result["root/linear/bias/parameter"], expected, rtol=1e-5)
    np.testing.assert_allclose(result["root/linear/weight/parameter"], np.outer(X, expected), rtol=1e-5)


@pytest.mark.spec("M-L4")
@pytest.mark.parametrize("biased", [True, False])
def test_a_policy_selects_the_bias_of_a_perceptron(biased: bool) -> None:
    """PerceptronPolicy.bias_involved selects a linear map with or without a bias."""
    chosen = [layers.PerceptronPolicy.bias_involved(biased), layers.PerceptronPolicy.activation(layers.Tanh)]
    layer = layers.SingleLayerPerceptron("root", 2, 3, policies=chosen)
    layer.init(layers.Initializer(filler=layers.Constant(1.0)))
    assert len(layer.save_weights()) == 1 + biased
    np.testing.assert_allclose(ex.evaluate(layer(X)), np.tanh(np.full(3, np.sum(X) + biased)), rtol=1e-6)


@pytest.mark.spec("M-L4", "M-L12")
def test_a_sublayer_that_does_not_update_has_no_gradient() -> None:
    """With PNoUpdate only for the weight, a linear layer collects one gradient, the bias's."""
    chosen = [layers.PUpdate, layers.Sub("weight", layers.PNoUpdate)]
    layer = layers.Linear("root", 2, 3, policies=chosen, train=True)
    layer.init(layers.Initializer({"root/weight/parameter": W, "root/bias/parameter": B}))
    np.testing.assert_allclose(ex.evaluate(layer(X)), [0.75, 0.91, 1.07], rtol=1e-6)
    gradient = np.array([0.1, 0.2, 0.3], np.float32)
    assert layer.feed_backward(gradient) is None
    result = collected(layer)
    assert list(result) == ["root/bias/parameter"]
    np.testing.assert_array_equal(result["root/bias/parameter"], gradient)
