"""Export the models that the tests run as ONNX, with both of PyTorch's exporters, and compute what they must give.

Kept are the graphs, which say of each weight where it would stand in a file beside them, and small reference values;
weights are those of ``seeded.py``, for the tests too. README.md beside this file says how to install what is imported.
"""

from __future__ import annotations

import argparse
import io
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import seeded
import torch
from architectures import Encoder, MobileNetV2, Recurrent, ResNet18
from onnx import ModelProto, NodeProto, TensorProto, checker, numpy_helper
from onnx.reference import ReferenceEvaluator
from torch import nn

PICKED = 8
"""elements of each operand that are kept, evenly spread"""
DEPARTURE = 1e-5
"""by how much two programs may differ in float32, relative to the largest element"""
SCOPES = "pkg.torch.onnx.name_scopes"
"""the one of an exporter's notes that is kept; others quote the source that was exported"""


@dataclass(frozen=True)
class Model:
    """What is exported: the module, the shape of its input, its axes that are left open, and for which opset."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    opened: tuple[int, ...]
    opset: int
    run: tuple[int, ...]
    """the input's shape in the reference"""
    tokens: int = 0
    traced: bool = False
    """by the exporter that traces TorchScript, and not by torch.export"""

    @property
    def dtype(self) -> str:
        """The dtype of the input."""
        return "int64" if self.tokens else "float32"

    def input(self, shape: tuple[int, ...]) -> np.ndarray:
        """The input of a shape."""
        return seeded.given("input0", shape, self.dtype, self.tokens)


PICTURE, PICTURES = (1, 3, 64, 64), (2, 3, 64, 64)
MODELS = {
    "resnet18": Model(ResNet18, PICTURE, (0, 2, 3), 18, PICTURES),
    "resnet18_opset13": Model(ResNet18, PICTURE, (0,), 13, PICTURES, traced=True),
    "mobilenet_v2": Model(MobileNetV2, PICTURE, (0, 2, 3), 18, PICTURES),
    "encoder": Model(Encoder, (2, 32), (0,), 20, (3, 32), 256),
    "encoder_opset14": Model(Encoder, (2, 32), (0,), 14, (3, 32), 256, True),
    "lstm": Model(Recurrent, (2, 20), (), 18, (2, 20), 100),
}


def export(module: nn.Module, model: Model) -> ModelProto:
    """The module as its exporter writes it, but for notes that quote this machine's files."""
    given = torch.from_numpy(model.input(model.shape))
    buffer = io.BytesIO()
    if model.traced:
        axes = {"x": {axis: f"axis{axis}" for axis in model.opened}, "y": {0: "axis0"}}
        torch.onnx.export(
            module, (given,), buffer, dynamo=False, opset_version=model.opset,
            input_names=["x"], output_names=["y"], dynamic_axes=axes,
        )  # fmt: skip
    else:
        opened = dict.fromkeys(model.opened, torch.export.Dim.DYNAMIC)
        made = torch.onnx.export(
            module, (given,), dynamo=True, opset_version=model.opset, input_names=["x"], output_names=["y"],
            dynamic_shapes=(opened,), verbose=False,
        )  # fmt: skip
        buffer.write(made.model_proto.SerializeToString())
    found = ModelProto.FromString(buffer.getvalue())
    for node in found.graph.node:
        kept = [entry for entry in node.metadata_props if entry.key == SCOPES]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
        node.ClearField("doc_string")
    for value in (*found.graph.input, *found.graph.output, *found.graph.value_info, *found.graph.initializer):
        del value.metadata_props[:]
    del found.graph.metadata_props[:]
    del found.metadata_props[:]
    return found


def with_seeded_weights(module: nn.Module) -> nn.Module:
    """The module with weights that differ from one another: exporters merge what is equal."""
    state = module.state_dict()
    drawn = {name: torch.from_numpy(seeded.weight(name, value.shape)) for name, value in state.items() if value.ndim}
    module.load_state_dict({**state, **drawn})
    return module.eval()


def is_weight(tensor: TensorProto) -> bool:
    """Whether a tensor's elements are drawn; numbers are a part of the graph."""
    return tensor.data_type == TensorProto.FLOAT and numpy_helper.to_array(tensor).size > 1


def drawn(model: ModelProto) -> ModelProto:
    """The model with the weights that the tests give it."""
    made = ModelProto.FromString(model.SerializeToString())
    for tensor in made.graph.initializer:
        if is_weight(tensor):
            tensor.CopyFrom(numpy_helper.from_array(seeded.weight(tensor.name, tensor.dims), tensor.name))
    return made


def emptied(model: ModelProto, file: str) -> bytes:
    """The model without weights: it says where in ``file`` each of them stands, one behind the other."""
    made, offset = ModelProto.FromString(model.SerializeToString()), 0
    for tensor in made.graph.initializer:
        if is_weight(tensor):
            shape, name = tuple(tensor.dims), tensor.name
            length = 4 * int(np.prod(shape))
            tensor.Clear()
            tensor.name, tensor.data_type, tensor.data_location = name, TensorProto.FLOAT, TensorProto.EXTERNAL
            tensor.dims.extend(shape)
            for key, value in (("location", file), ("offset", offset), ("length", length)):
                tensor.external_data.add(key=key, value=str(value))
            offset += length
    return made.SerializeToString(deterministic=True)


def double(model: ModelProto) -> ModelProto:
    """The model in float64."""
    made = ModelProto.FromString(model.SerializeToString())
    values = [attribute.t for node in made.graph.node for attribute in node.attribute if attribute.HasField("t")]
    for tensor in (*made.graph.initializer, *values):
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for node in made.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
    for value in (*made.graph.input, *made.graph.output, *made.graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    return made


def departure(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest element."""
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def by_runtime(model: ModelProto, given: np.ndarray) -> np.ndarray:
    """What ONNX Runtime computes for one input."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": given})
    return np.asarray(result)


def check(name: str, what: str, found: np.ndarray, expected: np.ndarray) -> None:
    """Raise where two programs differ."""
    apart = departure(found, expected)
    if apart > DEPARTURE:
        raise RuntimeError(f"{name}: {what} by {apart:.3g}")


def is_constant(node: NodeProto, constants: Mapping[str, object]) -> bool:
    """Whether a node only names a stored tensor."""
    return node.op_type == "Constant" or (node.op_type == "Identity" and node.input[0] in constants)


def reference(name: str, model: Model, graph: ModelProto) -> dict[str, np.ndarray]:
    """What a file gives with seeded weights, in float64: its output, and of every operand mean, deviation, samples."""
    whole, given = drawn(graph), model.input(model.run)
    doubled = given.astype(np.float64) if given.dtype.kind == "f" else given
    values = ReferenceEvaluator(double(whole)).run(None, {"x": doubled}, intermediate=True)
    check(name, "the runtime departs from the standard's evaluator", by_runtime(whole, given), values["y"])
    constants = {tensor.name for tensor in graph.graph.initializer}
    names = [
        output
        for node in graph.graph.node
        if not is_constant(node, constants)
        for output in node.output
        if output and values[output].dtype == np.float64
    ]
    arrays = [np.asarray(values[operand]) for operand in names]
    return {
        "input": np.array(json.dumps({"shape": model.run, "dtype": model.dtype, "below": model.tokens})),
        "output": np.asarray(values["y"], np.float32),
        "names": np.array(names),
        "mean": np.array([array.mean() for array in arrays]),
        "deviation": np.array([array.std() for array in arrays]),
        "picked": np.array([array.flat[seeded.places(array.size, PICKED)] for array in arrays], np.float32),
    }


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "models", help="folder to write to")
    folder: Path = parser.parse_args().output
    folder.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the exporter by tracing says that it is the older one
    kept: dict[str, np.ndarray] = {}
    for name, model in MODELS.items():
        module = with_seeded_weights(model.make())
        graph = export(module, model)
        checker.check_model(graph)
        given = model.input(model.run)
        check(
            name, "the file departs from its module", by_runtime(graph, given), module(torch.from_numpy(given)).numpy()
        )
        (folder / f"{name}.onnx").write_bytes(emptied(graph, f"{name}.onnx.data"))
        kept |= {f"{name}/{key}": value for key, value in reference(name, model, graph).items()}
    np.savez_compressed(folder / "reference_onnx.npz", **kept)


if __name__ == "__main__":
    main()
