"""Write dynamic_lstm.npz: dynamically quantised LSTMs with results of ONNX Runtime 1.32.0 on one thread.

``.venv-bench/bin/python assets/dynamic_lstm.py`` makes small LSTMs with random weights, quantises each with
``onnxruntime.quantization.quantize_dynamic``, and stores the file with inputs and outputs.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

STEPS, N, FEATURES, HIDDEN = 6, 3, 4, 5
CASES: dict[str, dict[str, Any]] = {
    "forward": {"direction": "forward"},
    "reverse": {"direction": "reverse", "per_channel": True},
    "both directions": {"direction": "bidirectional"},
    "first states": {"direction": "bidirectional", "states": True, "per_channel": True},
    "peepholes": {"direction": "forward", "peepholes": True},
    "no bias": {"direction": "forward", "bias": False},
    "lengths": {"direction": "forward", "lengths": [4, 2, 5], "states": True},
    "lengths of both directions": {"direction": "bidirectional", "lengths": [6, 1, 3]},
    "a sequence without steps": {"direction": "reverse", "lengths": [0, 6, 2]},
    "last states alone": {"direction": "bidirectional", "lengths": [4, 2, 5], "sequence": False},
}


def lstm(
    random: np.random.Generator, options: dict[str, Any]
) -> tuple[onnx.ModelProto, dict[str, np.ndarray[Any, Any]]]:
    """Return a floating-point LSTM and its inputs."""

    def real(*shape: int) -> np.ndarray[Any, Any]:
        return random.normal(0, 0.5, shape).astype(np.float32)

    count = 2 if options["direction"] == "bidirectional" else 1
    weights = {"W": real(count, 4 * HIDDEN, FEATURES), "R": real(count, 4 * HIDDEN, HIDDEN)}
    if options.get("bias", True):
        weights["B"] = real(count, 8 * HIDDEN)
    if options.get("peepholes"):
        weights["P"] = real(count, 3 * HIDDEN)
    inputs = {"x": 2 * real(STEPS, N, FEATURES)}
    if "lengths" in options:
        inputs["lengths"] = np.array(options["lengths"], np.int32)
    if options.get("states"):
        inputs |= {"h": real(count, N, HIDDEN), "c": real(count, N, HIDDEN)}
    present = weights.keys() | inputs.keys()
    names = [name if name in present else "" for name in ("x", "W", "R", "B", "lengths", "h", "c", "P")]
    results = ["sequence" if options.get("sequence", True) else "", "last_h", "last_c"]
    node = helper.make_node("LSTM", names, results, direction=options["direction"], hidden_size=HIDDEN)
    graph = helper.make_graph(
        [node],
        "lstm",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in inputs.items()
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results if name],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), inputs


def main() -> None:
    """Write the references."""
    random = np.random.default_rng(21)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        real, quantised = Path(folder, "real.onnx"), Path(folder, "quantised.onnx")
        for name, options in CASES.items():
            model, inputs = lstm(random, options)
            onnx.save(model, real)
            quantize_dynamic(
                real, quantised, weight_type=QuantType.QInt8, per_channel=options.get("per_channel", False)
            )
            session = onnxruntime.InferenceSession(quantised, settings, providers=["CPUExecutionProvider"])
            arrays[f"{name}: file"] = np.frombuffer(quantised.read_bytes(), np.uint8)
            arrays |= {f"{name}: input {key}": value for key, value in inputs.items()}
            outputs = [output.name for output in session.get_outputs()]
            values = zip(outputs, session.run(None, inputs), strict=True)
            arrays |= {f"{name}: output {key}": value for key, value in values}
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **arrays)


if __name__ == "__main__":
    main()
