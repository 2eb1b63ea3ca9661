"""Table of unsupported model formats: extensions, name, and how to convert a file into a supported format.

``ex.open`` shows this information in its errors. A fix is a shell command or a Python call.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

_TF2ONNX = "pip install tf2onnx; python -m tf2onnx.convert {option} {path} --output {out}.onnx"


class UnsupportedFormat(NamedTuple):
    """An unsupported format. ``fix`` is a template with placeholders, which :meth:`fix_for` replaces."""

    extensions: tuple[str, ...]
    name: str
    fix: str

    def fix_for(self, path: Path) -> str:
        """Return the fix for the file ``path``; ``{path}``, ``{out}`` and ``{name}`` are quoted for a shell."""
        names = {"file": str(path), "stem": path.stem, "folder": shlex.quote(str(path.parent))}
        # Commands are copied into a shell, so a name with blanks or special characters must stay one word.
        quoted = {"path": shlex.quote(str(path)), "out": shlex.quote(path.stem), "name": shlex.quote(path.name)}
        return self.fix.format(**names, **quoted)


def tf2onnx(option: str, more: str = "") -> str:
    """Return the command that converts a TensorFlow format to ONNX, followed by ``more``."""
    return _TF2ONNX.replace("{option}", option) + more


TFLITE = UnsupportedFormat((".tflite", ".lite"), "TensorFlow Lite", tf2onnx("--tflite"))
"""TensorFlow Lite, which must be converted only if an optional package is not installed"""

_MODULE = "open the torch module that it belongs to: ex.open(module, example_inputs)"
_STATE_DICT = (
    "for its weights: from safetensors.torch import save_file; "
    "save_file(torch.load({file!r}, weights_only=True), {stem!r} + '.safetensors'); for the graph, " + _MODULE
)
_ORIGINAL = "open the original model: the .onnx file, or the torch module, ex.open(module, example_inputs)"


SAVED_MODEL = "saved_model.pb"
"""file that identifies a folder as a TensorFlow SavedModel"""


UNSUPPORTED_FORMATS = (
    UnsupportedFormat((".pt", ".pth", ".pyt"), "PyTorch (torch.save or TorchScript)", _STATE_DICT),
    UnsupportedFormat(
        (".torchscript", ".jit"),
        "TorchScript",
        "pip install pnnx; pnnx {path} inputshape=[1,3,224,224], and open the .pnnx.param that it writes; or "
        + _MODULE,
    ),
    UnsupportedFormat((".ckpt",), "a training checkpoint (PyTorch Lightning, TensorFlow)", _MODULE),
    UnsupportedFormat((".bin",), "weights without a graph (Hugging Face, OpenVINO, ncnn)", _STATE_DICT),
    UnsupportedFormat((".mar",), "TorchServe's archive", "unpack it (unzip {path}), and " + _MODULE),
    UnsupportedFormat((".nemo",), "NVIDIA NeMo", "ASRModel.restore_from({file!r}).export({stem!r} + '.onnx')"),
    UnsupportedFormat((".ptl", ".pte"), "PyTorch for devices (Lite, ExecuTorch)", _MODULE),
    UnsupportedFormat(
        (".h5", ".hdf5", ".keras"),
        "Keras",
        "keras.models.load_model({file!r}).export({stem!r} + '.onnx', format='onnx')",
    ),
    UnsupportedFormat(
        (".pb", ".pbtxt"),
        "TensorFlow (a SavedModel or a frozen graph)",
        tf2onnx("--saved-model").replace("{path}", "{folder}")
        + "; a frozen graph with --graphdef {path} --inputs … --outputs …",
    ),
    UnsupportedFormat(
        (".index", ".meta"), "a checkpoint of TensorFlow", tf2onnx("--checkpoint", " --inputs … --outputs …")
    ),
    UnsupportedFormat(
        (".mlmodel", ".mlpackage", ".mlmodelc"),
        "Core ML",
        _ORIGINAL + "; an older .mlmodel: onnxmltools.convert_coreml(coremltools.utils.load_spec({file!r}))",
    ),
    UnsupportedFormat(
        (".caffemodel", ".prototxt"),
        "Caffe",
        "pip install caffe2onnx; python -m caffe2onnx.convert --prototxt {out}.prototxt --caffemodel {out}.caffemodel "
        "--onnx {out}.onnx",
    ),
    UnsupportedFormat(
        (".pdmodel", ".pdiparams", ".pdparams"),
        "PaddlePaddle",
        "pip install paddle2onnx; paddle2onnx --model_dir {folder} --model_filename {out}.pdmodel "
        "--params_filename {out}.pdiparams --save_file {out}.onnx",
    ),
    UnsupportedFormat((".engine", ".plan", ".trt"), "a TensorRT engine, compiled for one GPU", _ORIGINAL),
    UnsupportedFormat((".ort",), "ONNX Runtime's own format", "open the original .onnx file"),
    UnsupportedFormat((".xml",), "OpenVINO", _ORIGINAL),
    UnsupportedFormat(
        (".joblib", ".pkl", ".pickle"),
        "a Python pickle, which would run code when opened (scikit-learn and others)",
        "pip install skl2onnx; skl2onnx.to_onnx(model, X[:1]).SerializeToString() into a .onnx file; "
        "arrays: numpy.savez('x.npz', **arrays)",
    ),
    UnsupportedFormat(
        (".msgpack",),
        "Flax",
        "numpy.savez({stem!r} + '.npz', **flax.traverse_util.flatten_dict("
        "flax.serialization.msgpack_restore(open({file!r}, 'rb').read()), sep='/'))",
    ),
    UnsupportedFormat((".mnn",), "MNN", _ORIGINAL),
    UnsupportedFormat((".ncnn",), "ncnn", "open x.pnnx.param, which pnnx writes next to x.ncnn.param"),
    UnsupportedFormat((".tnnproto", ".tnnmodel"), "TNN", _ORIGINAL),
    UnsupportedFormat((".rknn", ".dlc", ".hef", ".om", ".kmodel", ".nb"), "a format for one kind of device", _ORIGINAL),
    UnsupportedFormat((".params",), "MXNet", "mxnet.onnx.export_model(symbol, {file!r}, in_shapes=[…])"),
    UnsupportedFormat((".weights", ".cfg"), "Darknet", "convert it to torch, and " + _MODULE),
    UnsupportedFormat(
        (".ggml", ".ggmf", ".ggjt"), "ggml, the predecessor of GGUF", "convert it with llama.cpp to a .gguf file"
    ),
    UnsupportedFormat((".llamafile",), "llamafile", "unpack it (unzip {path}), and open the .gguf file in it"),
    UnsupportedFormat((".npk", ".mpk"), "Burn", _ORIGINAL),
    UnsupportedFormat((".mlir", ".stablehlo"), "MLIR (StableHLO, TOSA and others)", _ORIGINAL),
    UnsupportedFormat(
        (".zip", ".gz", ".bz2", ".xz", ".zst", ".tar", ".tgz", ".7z"),
        "an archive",
        "unpack it, and open the file in it: x.onnx",
    ),
)
"""the unsupported formats; the first row with a matching extension applies"""


def foreign_format(path: Path) -> UnsupportedFormat | None:
    """Return the unsupported format of the file or folder ``path``, or None if its extension is not in the table."""
    name = path.name.lower()
    return next((row for row in UNSUPPORTED_FORMATS if name.endswith(row.extensions)), None)
