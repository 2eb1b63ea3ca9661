"""Numbers at which exponentials overflow, and functions of exponentials written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

import explorer as ex

X = np.array([[1e4, -1e4, 0.0, 3.0], [-1e4, 5.0, 1e4, 1e4], [1.0, 2.0, 3.0, 4.0], [-1e4, -1e4, -1e4, -9999.0]])
TRUTH = np.array([[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.2, 0.3, 0.4, 0.1], [0.5, 0.0, 0.5, 0.0]])


def softmax_by_hand(x: Any) -> Any:
    """Return powers divided by their sum along the last axis."""
    powers = ex.exp(x)
    return powers / powers.sum(axis=-1, keepdims=True)


def softmax_with_spread_sum(x: Any) -> Any:
    """Return powers divided by their explicitly broadcast sum."""
    return ex.exp(x) / ex.broadcast_to(ex.exp(x).sum(axis=-1).reshape((4, 1)), (4, 4))


def sigmoid_by_hand(x: Any) -> Any:
    """Return 1 / (1 + exp(-x))."""
    return 1 / (1 + ex.exp(-x))


def sigmoid_of_power(x: Any) -> Any:
    """Return exp(x) / (exp(x) + 1)."""
    return ex.exp(x) / (ex.exp(x) + 1)


def reciprocal_sigmoid(x: Any) -> Any:
    """Return the reciprocal of 1 + exp(-x)."""
    return ex.reciprocal(1.0 + ex.exp(-x))


def bce(t: Any, s: Any) -> Any:
    """Return the mean binary cross-entropy of probabilities s."""
    return -(t * ex.log(s) + (1 - t) * ex.log(1 - s)).mean()


in_layers = ex.function(lambda x: ex.softmax(x))
log_layer = ex.function(lambda x: ex.log(x))
sigmoid_layer = ex.function(lambda x: ex.sigmoid(x))
nll_layer = ex.function(lambda t, p: ex.nll_loss(t, p))
bce_layer = ex.function(bce)
exp_layer = ex.function(lambda x: ex.exp(x))
plus_one = ex.function(lambda x: 1 + x)
SOFTMAXES = (ex.softmax, softmax_by_hand, softmax_with_spread_sum, in_layers)
SIGMOIDS = (ex.sigmoid, sigmoid_by_hand, reciprocal_sigmoid, sigmoid_layer)
SOFTPLUSES = (
    lambda x: ex.log(1 + ex.exp(x)),
    lambda x: ex.log(ex.exp(x) + 1.0),
    lambda x: ex.log1p(ex.exp(x)),
    lambda x: log_layer(plus_one(exp_layer(x))),
)
