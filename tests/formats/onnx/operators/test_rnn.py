"""Recurrent ONNX operators against the standard's equations, step by step in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.formats.onnx.models import FLOAT, INT32, model, node, opened, result

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


ACTIVATIONS = {
    "Sigmoid": sigmoid,
    "Tanh": np.tanh,
    "Relu": lambda a: np.maximum(a, 0),
    "Softsign": lambda a: a / (1 + np.abs(a)),
    "Softplus": lambda a: np.logaddexp(a, 0),
    "HardSigmoid": lambda a, alpha=0.2, beta=0.5: np.clip(alpha * a + beta, 0, 1),
    "ScaledTanh": lambda a, alpha=1, beta=1: alpha * np.tanh(beta * a),
    "Affine": lambda a, alpha=1, beta=0: alpha * a + beta,
    "LeakyRelu": lambda a, alpha=0.01: np.where(a < 0, alpha * a, a),
    "ThresholdedRelu": lambda a, alpha=1: np.where(a > alpha, a, 0),
    "Elu": lambda a, alpha=1: np.where(a < 0, alpha * np.expm1(a), a),
}
USUAL = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


def activations(kind: str, attributes: dict[str, Any]) -> list[Any]:
    """Return the activations of one direction, with alpha and beta, clipped except for an LSTM's last one."""
    results = []
    values = [list(attributes.get(f"activation_{each}", ())) for each in ("alpha", "beta")]
    for place, name in enumerate(attributes.get("activations", USUAL[kind])[: len(USUAL[kind])]):
        takes = {"HardSigmoid": 2, "ScaledTanh": 2, "Affine": 2, "LeakyRelu": 1, "ThresholdedRelu": 1, "Elu": 1}
        own = [value.pop(0) for value in values[: takes.get(name, 0)] if value]
        limit = attributes.get("clip", np.inf) if place < 2 else np.inf
        results.append(lambda a, name=name, own=own, limit=limit: ACTIVATIONS[name](np.clip(a, -limit, limit), *own))
    return results


def step(kind: str, given: dict[str, Array], x: Array, states: tuple[Array, ...], attributes: Any) -> tuple[Array, ...]:
    """Return one step of one direction, with the standard's letters and gate orders iofc and zrh."""
    h, gates = states[0], GATES[kind]
    w, r = np.split(given["W"], gates), np.split(given["R"], gates)
    biases = np.split(given.get("B", np.zeros(2 * gates * HIDDEN)), 2 * gates)
    from_x = [x @ w[gate].T + biases[gate] for gate in range(gates)]
    from_h = [h @ r[gate].T + biases[gates + gate] for gate in range(gates)]
    f, *others = activations(kind, attributes)
    if kind == "RNN":
        return (f(from_x[0] + from_h[0]),)
    if kind == "GRU":
        z, r_t = (f(from_x[gate] + from_h[gate]) for gate in range(2))
        if attributes.get("linear_before_reset"):
            fresh = others[0](from_x[2] + r_t * from_h[2])
        else:
            fresh = others[0](from_x[2] + (r_t * h) @ r[2].T + biases[gates + 2])
        return ((1 - z) * fresh + z * h,)
    c = states[1]
    p_i, p_o, p_f = np.split(given.get("P", np.zeros(3 * HIDDEN)), 3)
    entry = f(from_x[0] + from_h[0] + p_i * c)
    forget = 1 - entry if attributes.get("input_forget") else f(from_x[2] + from_h[2] + p_f * c)
    memory = forget * c + entry * others[0](from_x[3] + from_h[3])
    leave = f(from_x[1] + from_h[1] + p_o * memory)
    return leave * others[1](memory), memory


def expected(kind: str, given: dict[str, Array], attributes: dict[str, Any]) -> list[Array]:
    """Return the sequence and the last states of all directions."""
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
    """Return seeded operands by their standard names, in the standard's order."""
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
        ("LSTM", ("B", "P"), {"clip": 0.3}),
        ("LSTM", ("B",), {"input_forget": 1}),
        ("LSTM", ("B",), {"activations": ["HardSigmoid", "Relu", "Softsign"]}),
        ("GRU", ("B", "initial_h"), {"clip": 0.3, "linear_before_reset": 1}),
        ("GRU", ("B",), {"clip": 0.3}),
        (
            "GRU",
            ("B",),
            {
                "activations": ["HardSigmoid", "ScaledTanh"],
                "activation_alpha": [0.3, 0.7],
                "activation_beta": [0.4, 1.5],
            },
        ),
        *[
            ("RNN", ("B",), {"activations": [name], "activation_alpha": [0.3], "activation_beta": [0.4]})
            for name in ("Affine", "LeakyRelu", "ThresholdedRelu", "Elu", "Softplus", "ScaledTanh")
        ],
    ],
)
def test_a_recurrent_operator_follows_the_equations_of_the_standard(
    kind: str, optional: tuple[str, ...], attributes: dict[str, Any], direction: str, layout: int, tmp_path: Path
) -> None:
    """Test gate orders, biases, initial states and peepholes, in either direction or both, batch first or not."""
    listed = [name for name in attributes if name.startswith("activation")]
    attributes = attributes | {name: attributes[name] * len(DIRECTIONS[direction]) for name in listed}
    attributes = attributes | {"direction": direction, "layout": layout}
    given = arrays(kind, attributes, *optional)
    inputs = [name if name in given else "" for name in OPERANDS[kind]]
    outputs = ["Y", "Y_h", "Y_c"][: 1 + len(STATES[kind])]
    outcome = result(tmp_path, node(kind, inputs, outputs, hidden_size=HIDDEN, **attributes), *given.values())
    for name, wanted in zip(outputs, expected(kind, given, attributes), strict=True):
        assert outcome[name].shape == wanted.shape
        np.testing.assert_allclose(outcome[name], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("kind", GATES)
def test_sequences_end_after_their_lengths(kind: str, known: bool, direction: str, tmp_path: Path) -> None:
    """Outputs after the end are 0, and the last state belongs to the last step."""
    given = arrays(kind, {"direction": direction}, "B", "initial_h", "initial_c")
    lengths = np.array([STEPS, STEPS - 2], np.int32)
    constants = {name: array for name, array in given.items() if name != "X"} | ({"lengths": lengths} if known else {})
    names = ["X", "W", "R", "B", "lengths", *STATES[kind]]
    outputs = ["Y", "Y_h", "Y_c"][: 1 + len(STATES[kind])]
    operator = node(kind, names, outputs, hidden_size=HIDDEN, direction=direction)
    inputs: dict[str, Any] = {"X": (FLOAT, given["X"].shape)}
    if not known:
        inputs["lengths"] = (INT32, (BATCH,))
    net = opened(model([operator], inputs, outputs, constants), tmp_path)
    assert net.check() == []
    result = net.run({"X": given["X"]} | ({} if known else {"lengths": lengths}))
    for member, length in enumerate(lengths):
        alone = given | {"X": given["X"][:length]}
        whole, *last = expected(kind, alone, {"direction": direction})
        np.testing.assert_allclose(result["Y"][:length, :, member], whole[:, :, member], rtol=1e-5, atol=1e-5)
        assert not result["Y"][length:, :, member].any()
        for name, state in zip(outputs[1:], last, strict=True):
            np.testing.assert_allclose(result[name][:, member], state[:, member], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("kind", GATES)
def test_each_direction_is_one_recurrence_for_any_number_of_steps(kind: str, direction: str, tmp_path: Path) -> None:
    given = arrays(kind, {"direction": direction}, "B")
    constants = {name: array for name, array in given.items() if name != "X"}
    operator = node(kind, ["X", "W", "R", "B"], ["Y"], hidden_size=HIDDEN, direction=direction)
    net = opened(model([operator], {"X": (FLOAT, ("steps", BATCH, FEATURES))}, ["Y"], constants), tmp_path)
    counts = []
    for steps in (3, 500):
        # products of few steps are small and would be joined
        recording = net.plan(np.zeros((steps, BATCH, FEATURES), np.float32), without="join").recording
        counts.append(len(recording.schedule.kernels))
        operations = [recording.operations[row] for row in recording.nodes.operation]
        assert operations.count("recurrence") == len(DIRECTIONS[direction])
    assert counts[0] == counts[1] < 40


@pytest.mark.parametrize(
    ("kind", "attributes", "said"),
    [
        ("LSTM", {"activations": ["Sigmoid", "Relu"]}, r"must be 3 activations for each direction"),
        ("GRU", {"activations": ["Tanh", "Gauss"]}, "must be 2 activations .*among Sigmoid, Tanh"),
        ("RNN", {"direction": "backward"}, "forward"),
    ],
)
def test_unsupported_recurrences_raise_an_error(
    kind: str, attributes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    given = arrays(kind, {})
    constants = {name: given[name] for name in ("W", "R")}
    operator = node(kind, ["X", "W", "R"], ["Y"], hidden_size=HIDDEN, **attributes)
    net = opened(model([operator], {"X": (FLOAT, given["X"].shape)}, ["Y"], constants), tmp_path)
    with pytest.raises(ex.FileError, match=said):
        net.run(given["X"])
