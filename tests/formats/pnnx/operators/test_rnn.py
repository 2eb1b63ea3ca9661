"""Recurrent modules in files against loops over the formulas in torch's documentation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.formats.pnnx.operators import TABLE
from explorer.formats.pnnx.param_reader import parse
from explorer.net import Net
from explorer.net.definition.definition import NetDefinition, OperatorDefinition, WeightReference
from tests.support.refusals import refused

FEATURES, HIDDEN, STEPS, BATCH = 3, 4, 5, 2
GATES = {"nn.LSTM": 4, "nn.GRU": 3, "nn.RNN": 1}
Weights = Mapping[str, Any]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def step(kind: str, x: Any, state: list[Any], w: Weights, suffix: str) -> list[Any]:
    entering = w["weight_ih" + suffix] @ x + w.get("bias_ih" + suffix, 0)
    h = state[0]
    kept = w["weight_hh" + suffix] @ h + w.get("bias_hh" + suffix, 0)
    if kind == "nn.RNN":
        return [np.tanh(entering + kept)]
    if kind == "nn.GRU":
        (xr, xz, xn), (hr, hz, hn) = np.split(entering, 3), np.split(kept, 3)
        z = sigmoid(xz + hz)
        return [(1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h]
    i, f, g, o = np.split(entering + kept, 4)
    c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    return [sigmoid(o) * np.tanh(c), c]


def reference(kind: str, x: Any, w: Weights, layers: int, directions: int, start: list[Any]) -> list[Any]:
    """Return outputs for x (N, steps, features), and the last states, (layers · directions, N, hidden) each."""
    last: list[list[Any]] = []
    for layer in range(layers):
        values = []
        for direction in range(directions):
            suffix = f"_l{layer}" + "_reverse" * direction
            whole = np.zeros((len(x), x.shape[1], HIDDEN))
            ends = []
            for n in range(len(x)):
                state = [s[layer * directions + direction][n] for s in start]
                for t in range(x.shape[1])[:: -1 if direction else 1]:
                    state = step(kind, x[n, t], state, w, suffix)
                    whole[n, t] = state[0]
                ends.append(state)
            values.append(whole)
            last.append([np.stack([end[i] for end in ends]) for i in range(len(start))])
        x = np.concatenate(values, 2)
    return [x, *[np.stack([state[i] for state in last]) for i in range(len(start))]]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("layers", "directions"), [(1, 1), (2, 2)])
@pytest.mark.parametrize("kind", GATES)
def test_sequences_and_last_states(kind: str, layers: int, directions: int, bias: bool) -> None:
    """Test layers, directions, given or missing initial states, and batch or steps first."""
    random = np.random.default_rng(0)
    weights: dict[str, Any] = {}
    for layer in range(layers):
        for suffix in [f"_l{layer}", f"_l{layer}_reverse"][:directions]:
            width = FEATURES if layer == 0 else HIDDEN * directions
            rows = GATES[kind] * HIDDEN
            weights |= {"weight_ih" + suffix: random.normal(size=(rows, width))}
            weights |= {"weight_hh" + suffix: random.normal(size=(rows, HIDDEN))}
            if bias:
                weights |= {"bias_ih" + suffix: random.normal(size=rows), "bias_hh" + suffix: random.normal(size=rows)}
    states = 2 if kind == "nn.LSTM" else 1
    x = random.normal(size=(BATCH, STEPS, FEATURES))
    start = [random.normal(size=(layers * directions, BATCH, HIDDEN)) for _ in range(states)]
    arguments: dict[str, Any] = {
        "batch_first": True,
        "bias": bias,
        "bidirectional": directions == 2,
        "hidden_size": HIDDEN,
        "num_layers": layers,
    }
    if kind == "nn.LSTM":
        arguments["proj_size"] = 0
    result = net(kind, arguments, weights, 1 + states, 1 + states).run(x, *start)
    for value, expected in zip(result.values(), reference(kind, x, weights, layers, directions, start), strict=True):
        np.testing.assert_allclose(value, expected, atol=1e-12)
    zero = [np.zeros_like(state) for state in start]
    expected = reference(kind, x, weights, layers, directions, zero)[0]
    np.testing.assert_allclose(net(kind, arguments, weights, 1, 1).run(x), expected, atol=1e-12)
    steps_first = net(kind, arguments | {"batch_first": False}, weights, 1, 1).run(x.swapaxes(0, 1))
    np.testing.assert_allclose(steps_first, expected.swapaxes(0, 1), atol=1e-12)


def net(kind: str, arguments: dict[str, Any], weights: Weights, inputs: int, outputs: int) -> Net:
    held = {f"rnn.{name}": array for name, array in weights.items()}
    declared = {name: WeightReference(f"rnn.{name}", array.shape, "float64") for name, array in weights.items()}
    reads, makes = tuple(f"x{i}" for i in range(inputs)), tuple(f"y{i}" for i in range(outputs))
    operator = OperatorDefinition(kind, "rnn", reads, makes, arguments, {}, declared)
    return Net(NetDefinition.of("n", [operator], reads, makes, weights=held), TABLE)


def test_all_steps_are_one_recurrence_in_the_box_of_the_layer() -> None:
    random = np.random.default_rng(0)
    weights = {"weight_ih_l0": random.normal(size=(4, 3)), "weight_hh_l0": random.normal(size=(4, 4))}
    arguments = {"batch_first": True, "bias": False, "hidden_size": 4, "num_layers": 1, "nonlinearity": "relu"}
    network = net("nn.RNN", arguments, weights, 1, 1)
    result = network.run(random.normal(size=(2, STEPS, 3)))
    assert result.shape == (2, STEPS, 4)
    assert result.min() >= 0
    recording = network.plan(np.zeros((2, STEPS, 3))).recording
    calls = [n for n in range(len(recording.nodes)) if recording.nodes.kind[n] == "call"]
    assert len(calls) == 1
    assert {recording.scopes[recording.nodes.scope[n]].name for n in calls} == {"layer 0"}
    with refused(ex.OperandError, "tanh", "relu"):
        net("nn.RNN", arguments | {"nonlinearity": "sigmoid"}, weights, 1, 1).build((2, 5, 3))
    with pytest.raises(ex.OperandError, match=r"must have the axes \(N, steps, features\)"):
        net("nn.RNN", arguments, weights, 1, 1).build((2, 3))


@pytest.mark.parametrize("name", ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (3, 3, 3)])
def test_weights_of_other_shapes_raise_an_error(name: str, shape: tuple[int, ...]) -> None:
    """The error names the weight, although its slices would broadcast."""
    shapes: dict[str, tuple[int, ...]] = {
        "weight_ih_l0": (12, 3),
        "weight_hh_l0": (12, 4),
        "bias_ih_l0": (12,),
        "bias_hh_l0": (12,),
    }
    weights = {key: np.ones(length) for key, length in (shapes | {name: shape}).items()}
    arguments = {"batch_first": True, "bias": True, "hidden_size": 4, "num_layers": 1}
    with pytest.raises(ex.OperandError, match=rf"{name} .*\n.*must have the shape"):
        net("nn.GRU", arguments, weights, 1, 1).build((2, 5, 3))


def net_with_recorded_types(
    kind: str,
    outputs: dict[str, str],
    layers: int = 1,
    entering: tuple[int, int] | None = None,
    batch_first: bool = True,
) -> tuple[Net, Weights]:
    """Return a net of one module from a file's text, with the recorded result types, and its weights."""
    rows, random = GATES[kind] * HIDDEN, np.random.default_rng(3)
    shapes = {}
    for layer in range(layers):
        shapes[f"weight_ih_l{layer}"] = rows, HIDDEN if layer else FEATURES
        shapes[f"weight_hh_l{layer}"] = rows, HIDDEN
    first = entering or (BATCH, STEPS)
    weights = {name: random.normal(size=shape) for name, shape in shapes.items()}
    declared = " ".join(f"@{name}=({shape[0]},{shape[1]})f64" for name, shape in shapes.items())
    types = " ".join(
        f"#{name}={type}" for name, type in {"x": f"({first[0]},{first[1]},{FEATURES})f64", **outputs}.items()
    )
    text = (
        f"7767517\n{2 + len(outputs)} {1 + len(outputs)}\npnnx.Input in 0 1 x\n"
        f"{kind} rnn 1 {len(outputs)} x {' '.join(outputs)} batch_first={batch_first} bias=False bidirectional=False "
        f"hidden_size={HIDDEN} num_layers={layers} {declared} {types}\n"
        + "".join(f"pnnx.Output out{name} 1 0 {name}\n" for name in outputs)
    )
    held = {f"rnn.{name}": array for name, array in weights.items()}
    definition = replace(parse(text.encode(), path="n.pnnx.param", name="n"), weights=held)
    return Net(definition, TABLE), weights


SEQUENCE, STATE = f"({BATCH},{STEPS},{HIDDEN})f64", f"(1,{BATCH},{HIDDEN})f64"


@pytest.mark.parametrize("kind", ["nn.GRU", "nn.RNN"])
def test_a_last_state_without_its_sequence_is_recognized_by_its_shape(kind: str) -> None:
    """pnnx omits unread results, so that the only remaining one may be the sequence or the last state."""
    x = np.random.default_rng(4).normal(size=(BATCH, STEPS, FEATURES))
    start = [np.zeros((1, BATCH, HIDDEN))]
    for place, type in enumerate((SEQUENCE, STATE)):
        network, weights = net_with_recorded_types(kind, {"y": type})
        expected = reference(kind, x, weights, 1, 1, start)[place]
        np.testing.assert_allclose(network.run(x), expected, atol=1e-12)


def test_both_last_states_of_an_lstm_are_recognized_and_a_single_one_raises_an_error() -> None:
    """The file does not state which one it is, and a guess could give wrong numbers."""
    x = np.random.default_rng(4).normal(size=(BATCH, STEPS, FEATURES))
    network, weights = net_with_recorded_types("nn.LSTM", {"h": STATE, "c": STATE})
    expected = reference("nn.LSTM", x, weights, 1, 1, [np.zeros((1, BATCH, HIDDEN))] * 2)[1:]
    for value, wanted in zip(network.run(x).values(), expected, strict=True):
        np.testing.assert_allclose(value, wanted, atol=1e-12)
    for outputs in ({"h": STATE}, {"y": SEQUENCE, "h": STATE}):
        with refused(ex.FileError, "1 of the 2 last states", "both last states, h_n and c_n, or neither"):
            net_with_recorded_types("nn.LSTM", outputs)[0].build((BATCH, STEPS, FEATURES))


@pytest.mark.parametrize("kind", sorted(GATES))
def test_a_result_that_may_be_the_sequence_or_a_state_raises_an_error(kind: str) -> None:
    """The sequence of two layers over two steps has the shape of the last states."""
    network, _ = net_with_recorded_types(kind, {"y": f"(2,{BATCH},{HIDDEN})f64"}, 2, (2, BATCH), batch_first=False)
    names = "output or h_n or c_n" if kind == "nn.LSTM" else "output or h_n"
    with refused(ex.FileError, f"may be {names}: they have the same shape", "another number of steps"):
        network.build((2, BATCH, FEATURES))
    # three steps are unambiguous
    network, weights = net_with_recorded_types(
        kind, {"y": f"(3,{BATCH},{HIDDEN})f64"}, 2, (3, BATCH), batch_first=False
    )
    x = np.random.default_rng(4).normal(size=(3, BATCH, FEATURES))
    start = [np.zeros((2, BATCH, HIDDEN))] * (2 if kind == "nn.LSTM" else 1)
    expected = reference(kind, x.swapaxes(0, 1), weights, 2, 1, start)[0].swapaxes(0, 1)
    np.testing.assert_allclose(network.run(x), expected, atol=1e-12)


@pytest.mark.parametrize("batch_first", [False, True])
def test_after_one_step_of_one_layer_the_state_equals_the_sequence(batch_first: bool) -> None:
    """So either may be meant, unless it may be an LSTM's cell state."""
    type = f"(1,1,{HIDDEN})f64"
    network, weights = net_with_recorded_types("nn.GRU", {"y": type}, 1, (1, 1), batch_first)
    x = np.random.default_rng(4).normal(size=(1, 1, FEATURES))
    np.testing.assert_allclose(network.run(x), reference("nn.GRU", x, weights, 1, 1, [np.zeros((1, 1, HIDDEN))])[0])
    with refused(ex.FileError, "output or h_n or c_n"):
        net_with_recorded_types("nn.LSTM", {"y": type}, 1, (1, 1), batch_first)[0].build((1, 1, FEATURES))
