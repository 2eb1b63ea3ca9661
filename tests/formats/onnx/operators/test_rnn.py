"""Recurrent ONNX operators against the standard's equations, step by step in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.formats.onnx.models import FLOAT, model, node, opened, result

Array = np.ndarray[Any, Any]
STEPS, BATCH, FEATURES, HIDDEN = 4, 2, 3, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STATES = {"LSTM": ("initial_h", "initial_c"), "GRU": ("initial_h",), "RNN": ("initial_h",)}
OPERANDS = {
    "LSTM": ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"),
    "GRU": ("X", "W", "R", "B", "sequence_lens", "initial_h"),
    "RNN": ("X", "W", "R", "B", "sequence_lens", "initial_h"),
}
DIRECTIONS = {"forward": (1,), "reverse": (-1,), "bidirectional": (1, -1)}


def sigmoid(a: Array) -> Array:
    return 1 / (1 + np.exp(-a))


def step(kind: str, given: dict[str, Array], x: Array, states: tuple[Array, ...], attributes: Any) -> tuple[Array, ...]:
    """One step of one direction, in the letters of the standard; gates are in its order: iofc, zrh."""
    h, gates = states[0], GATES[kind]
    w, r = np.split(given["W"], gates), np.split(given["R"], gates)
    biases = np.split(given.get("B", np.zeros(2 * gates * HIDDEN)), 2 * gates)
    from_x = [x @ w[gate].T + biases[gate] for gate in range(gates)]
    from_h = [h @ r[gate].T + biases[gates + gate] for gate in range(gates)]
    if kind == "RNN":
        total = from_x[0] + from_h[0]
        return (np.maximum(total, 0) if attributes.get("activations", ["Tanh"])[0] == "Relu" else np.tanh(total),)
    if kind == "GRU":
        z, r_t = (sigmoid(from_x[gate] + from_h[gate]) for gate in range(2))
        if attributes.get("linear_before_reset"):
            fresh = np.tanh(from_x[2] + r_t * from_h[2])
        else:
            fresh = np.tanh(from_x[2] + (r_t * h) @ r[2].T + biases[gates + 2])
        return ((1 - z) * fresh + z * h,)
    c = states[1]
    p_i, p_o, p_f = np.split(given.get("P", np.zeros(3 * HIDDEN)), 3)
    entry = sigmoid(from_x[0] + from_h[0] + p_i * c)
    forget = sigmoid(from_x[2] + from_h[2] + p_f * c)
    memory = forget * c + entry * np.tanh(from_x[3] + from_h[3])
    leave = sigmoid(from_x[1] + from_h[1] + p_o * memory)
    return leave * np.tanh(memory), memory


def expected(kind: str, given: dict[str, Array], attributes: dict[str, Any]) -> list[Array]:
    """The sequence and the last states of all directions."""
    batch_first = attributes.get("layout", 0) == 1
    x = given["X"].swapaxes(0, 1) if batch_first else given["X"]
    sequences, last = [], []
    for number, way in enumerate(DIRECTIONS[attributes.get("direction", "forward")]):
        own = {name: array[number] for name, array in given.items() if name in ("W", "R", "B", "P")}
        starts = (
            given.get(name, np.zeros((BATCH, 2, HIDDEN) if batch_first else (2, BATCH, HIDDEN)))
            for name in STATES[kind]
        )
        states = tuple(start[:, number] if batch_first else start[number] for start in starts)
        outputs = []
        for moment in x[::way]:
            states = step(kind, own, moment, states, attributes)
            outputs.append(states[0])
        sequences.append(np.stack(outputs[::way]))
        last.append(states)
    axis = 1 if batch_first else 0
    whole = np.stack(sequences, 1)
    return [
        whole.transpose(2, 0, 1, 3) if batch_first else whole,
        *[np.stack(parts, axis) for parts in zip(*last, strict=True)],
    ]


def arrays(kind: str, attributes: dict[str, Any], *optional: str) -> dict[str, Array]:
    """Seeded operands by their names in the standard, in its order."""
    random = np.random.default_rng(5)
    ways, gates = len(DIRECTIONS[attributes.get("direction", "forward")]), GATES[kind]
    batch_first = attributes.get("layout", 0) == 1
    state = (BATCH, ways, HIDDEN) if batch_first else (ways, BATCH, HIDDEN)
    shapes = {
        "X": (BATCH, STEPS, FEATURES) if batch_first else (STEPS, BATCH, FEATURES),
        "W": (ways, gates * HIDDEN, FEATURES),
        "R": (ways, gates * HIDDEN, HIDDEN),
        "B": (ways, 2 * gates * HIDDEN),
        "initial_h": state,
        "initial_c": state,
        "P": (ways, 3 * HIDDEN),
    }
    chosen = [name for name in OPERANDS[kind] if name in ("X", "W", "R", *optional)]
    return {name: random.standard_normal(shapes[name]).astype(np.float32) for name in chosen}


@pytest.mark.spec("I-9")
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    ("kind", "optional", "attributes"),
    [
        ("LSTM", (), {}),
        ("LSTM", ("B", "initial_h", "initial_c"), {}),
        ("LSTM", ("initial_c", "P"), {}),
        ("LSTM", ("B", "initial_h", "P"), {}),
        ("GRU", (), {}),
        ("GRU", ("B", "initial_h"), {}),
        ("GRU", ("B", "initial_h"), {"linear_before_reset": 1}),
        ("RNN", (), {}),
        ("RNN", ("B", "initial_h"), {"activations": ["Tanh"]}),
        ("RNN", ("B", "initial_h"), {"activations": ["Relu"]}),
    ],
)
def test_a_recurrent_operator_is_the_standards_equations(
    kind: str, optional: tuple[str, ...], attributes: dict[str, Any], direction: str, layout: int, tmp_path: Path
) -> None:
    """Gates in their order, biases, first states and peepholes, in either direction or both, batch first or not."""
    if "activations" in attributes:
        attributes = attributes | {"activations": attributes["activations"] * len(DIRECTIONS[direction])}
    attributes = attributes | {"direction": direction, "layout": layout}
    given = arrays(kind, attributes, *optional)
    inputs = [name if name in given else "" for name in OPERANDS[kind]]
    outputs = ["Y", "Y_h", "Y_c"][: 1 + len(STATES[kind])]
    found = result(tmp_path, node(kind, inputs, outputs, hidden_size=HIDDEN, **attributes), *given.values())
    for name, wanted in zip(outputs, expected(kind, given, attributes), strict=True):
        assert found[name].shape == wanted.shape
        np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", GATES)
def test_every_sequence_has_all_steps(kind: str, tmp_path: Path) -> None:
    """Lengths that are given are those of the whole; shorter sequences are refused, not read to their end."""
    given = arrays(kind, {})
    for lengths, said in (([STEPS] * BATCH, ""), ([STEPS, STEPS - 1], "different lengths")):
        constants = {"W": given["W"], "R": given["R"], "lengths": np.array(lengths, np.int32)}
        made = node(kind, ["X", "W", "R", "", "lengths"], ["Y"], hidden_size=HIDDEN)
        net = opened(model([made], {"X": (FLOAT, given["X"].shape)}, ["Y"], constants), tmp_path)
        if said:
            with pytest.raises(ex.FileError, match=said):
                net.run(given["X"])
        else:
            np.testing.assert_allclose(net.run(given["X"]), expected(kind, given, {})[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "attributes", "said"),
    [
        ("LSTM", {"clip": 1.0}, r"clip=1\.0"),
        ("LSTM", {"input_forget": 1}, "input_forget=1"),
        ("LSTM", {"activations": ["Sigmoid", "Relu", "Tanh"]}, r"must be Sigmoid, Tanh, Tanh"),
        ("GRU", {"activations": ["Tanh", "Tanh"]}, "must be Sigmoid, Tanh"),
        ("RNN", {"activations": ["Affine"]}, "must be Tanh or Relu"),
        ("RNN", {"direction": "backward"}, "forward"),
    ],
)
def test_what_no_recurrent_operator_computes_is_refused(
    kind: str, attributes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    given = arrays(kind, {})
    constants = {name: given[name] for name in ("W", "R")}
    made = node(kind, ["X", "W", "R"], ["Y"], hidden_size=HIDDEN, **attributes)
    net = opened(model([made], {"X": (FLOAT, given["X"].shape)}, ["Y"], constants), tmp_path)
    with pytest.raises(ex.FileError, match=said):
        net.run(given["X"])
