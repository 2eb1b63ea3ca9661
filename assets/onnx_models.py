"""Export the models for tests as ONNX with both of PyTorch's exporters, and compute their expected results.

Only graphs and small reference values are stored. Each graph contains the offsets of weights in an external file, and
``seeded.py`` computes the weights, also for the tests. README.md in this folder explains how to install the imports.
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
"""number of stored elements per operand, evenly spaced"""
DEPARTURE = 1e-5
"""tolerance between two programs in float32, relative to the largest element"""
SCOPES = "pkg.torch.onnx.name_scopes"
"""the only metadata of the exporter that is kept; the rest quotes the exported source"""


@dataclass(frozen=True)
class Model:
    """Export: a module, the shape of its input, its dynamic axes, and the opset."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    open_axes: tuple[int, ...]
    opset: int
    run: tuple[int, ...]
    """shape of the reference's input"""
    tokens: int = 0
    traced: bool = False
    """whether to use the exporter that traces TorchScript instead of torch.export"""

    @property
    def dtype(self) -> str:
        """The dtype of the input."""
        return "int64" if self.tokens else "float32"

    def input(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return the input of a shape."""
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
    """Return the exporter's model without metadata that quotes files of this machine."""
    given = torch.from_numpy(model.input(model.shape))
    buffer = io.BytesIO()
    if model.traced:
        axes = {"x": {axis: f"axis{axis}" for axis in model.open_axes}, "y": {0: "axis0"}}
        torch.onnx.export(
            module, (given,), buffer, dynamo=False, opset_version=model.opset,
            input_names=["x"], output_names=["y"], dynamic_axes=axes,
        )  # fmt: skip
    else:
        open_axes = dict.fromkeys(model.open_axes, torch.export.Dim.DYNAMIC)
        exported = torch.onnx.export(
            module, (given,), dynamo=True, opset_version=model.opset, input_names=["x"], output_names=["y"],
            dynamic_shapes=(open_axes,), verbose=False,
        )  # fmt: skip
        buffer.write(exported.model_proto.SerializeToString())
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
    """Return the module with distinct weights, because exporters merge equal ones."""
    state = module.state_dict()
    drawn = {name: torch.from_numpy(seeded.weight(name, value.shape)) for name, value in state.items() if value.ndim}
    module.load_state_dict({**state, **drawn})
    return module.eval()


def is_weight(tensor: TensorProto) -> bool:
    """Whether a tensor's elements are seeded; scalars belong to the graph."""
    return tensor.data_type == TensorProto.FLOAT and numpy_helper.to_array(tensor).size > 1


def drawn(model: ModelProto) -> ModelProto:
    """Return the model with seeded weights, as in the tests."""
    converted = ModelProto.FromString(model.SerializeToString())
    for tensor in converted.graph.initializer:
        if is_weight(tensor):
            tensor.CopyFrom(numpy_helper.from_array(seeded.weight(tensor.name, tensor.dims), tensor.name))
    return converted


def without_weights(model: ModelProto, file: str) -> bytes:
    """Return the model without weights, but with consecutive offsets of the weights in ``file``."""
    converted, offset = ModelProto.FromString(model.SerializeToString()), 0
    for tensor in converted.graph.initializer:
        if is_weight(tensor):
            shape, name = tuple(tensor.dims), tensor.name
            length = 4 * int(np.prod(shape))
            tensor.Clear()
            tensor.name, tensor.data_type, tensor.data_location = name, TensorProto.FLOAT, TensorProto.EXTERNAL
            tensor.dims.extend(shape)
            for key, value in (("location", file), ("offset", offset), ("length", length)):
                tensor.external_data.add(key=key, value=str(value))
            offset += length
    return converted.SerializeToString(deterministic=True)


def double(model: ModelProto) -> ModelProto:
    """Return the model in float64."""
    converted = ModelProto.FromString(model.SerializeToString())
    values = [attribute.t for node in converted.graph.node for attribute in node.attribute if attribute.HasField("t")]
    for tensor in (*converted.graph.initializer, *values):
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for node in converted.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
    for value in (*converted.graph.input, *converted.graph.output, *converted.graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    return converted


def departure(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference, relative to the largest element."""
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def by_runtime(model: ModelProto, given: np.ndarray) -> np.ndarray:
    """Return ONNX Runtime's result for one input."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": given})
    return np.asarray(result)


def check(name: str, comparison: str, found: np.ndarray, expected: np.ndarray) -> None:
    """Raise if two programs differ."""
    difference = departure(found, expected)
    if difference > DEPARTURE:
        raise RuntimeError(f"{name}: {comparison} by {difference:.3g}")


def is_constant(node: NodeProto, constants: Mapping[str, object]) -> bool:
    """Whether a node is only another name of a stored tensor."""
    return node.op_type == "Constant" or (node.op_type == "Identity" and node.input[0] in constants)


def reference(name: str, model: Model, graph: ModelProto) -> dict[str, np.ndarray]:
    """Return the output of a file with seeded weights in float64, and statistics and samples of its operands."""
    seeded_model, given = drawn(graph), model.input(model.run)
    doubled = given.astype(np.float64) if given.dtype.kind == "f" else given
    values = ReferenceEvaluator(double(seeded_model)).run(None, {"x": doubled}, intermediate=True)
    check(name, "ONNX Runtime differs from the reference evaluator", by_runtime(seeded_model, given), values["y"])
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
    warnings.simplefilter("ignore")  # the tracing exporter warns that it is deprecated
    kept: dict[str, np.ndarray] = {}
    for name, model in MODELS.items():
        module = with_seeded_weights(model.make())
        graph = export(module, model)
        checker.check_model(graph)
        given = model.input(model.run)
        check(
            name, "the file departs from its module", by_runtime(graph, given), module(torch.from_numpy(given)).numpy()
        )
        (folder / f"{name}.onnx").write_bytes(without_weights(graph, f"{name}.onnx.data"))
        kept |= {f"{name}/{key}": value for key, value in reference(name, model, graph).items()}
    np.savez_compressed(folder / "reference_onnx.npz", **kept)


if __name__ == "__main__":
    main()
