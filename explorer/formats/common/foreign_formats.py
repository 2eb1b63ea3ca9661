"""Formats of models that are not opened: each with its endings, its name, and the way to a file that opens.

The one table by which ``ex.open`` refuses such a file. A command in it is for a shell, a call for Python.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

_TF2ONNX = "pip install tf2onnx; python -m tf2onnx.convert {option} {path} --output {out}.onnx"


class ForeignFormat(NamedTuple):
    """A format that is not opened, with ``fix``, in which ``{path}`` and ``{out}`` stand for the file's names."""

    endings: tuple[str, ...]
    name: str
    fix: str

    def fix_for(self, path: Path) -> str:
        """Return the fix for one file."""
        names = {"file": str(path), "stem": path.stem, "folder": shlex.quote(str(path.parent))}
        # A command is copied into a shell: a name with blanks, or with worse, must stay one word.
        quoted = {"path": shlex.quote(str(path)), "out": shlex.quote(path.stem), "name": shlex.quote(path.name)}
        return self.fix.format(**names, **quoted)


def tf2onnx(option: str, more: str = "") -> str:
    """Return the fix for a format of TensorFlow: the command that makes an ONNX file of it."""
    return _TF2ONNX.replace("{option}", option) + more


TFLITE = ForeignFormat((".tflite", ".lite"), "TensorFlow Lite", tf2onnx("--tflite"))
"""a format that is opened where its package is installed, and is converted elsewhere"""

_MODULE = "open the torch module that it is for: ex.open(module, example_inputs)"
_STATE_DICT = (
    "for its weights: from safetensors.torch import save_file; "
    "save_file(torch.load({file!r}, weights_only=True), {stem!r} + '.safetensors'); for the graph, " + _MODULE
)
_ORIGINAL = "open the model that it was made of: the .onnx file, or the torch module, ex.open(module, example_inputs)"


SAVED_MODEL = "saved_model.pb"
"""the file by which a folder is a SavedModel of TensorFlow"""


FOREIGN = (
    ForeignFormat((".pt", ".pth", ".pyt"), "PyTorch (torch.save or TorchScript)", _STATE_DICT),
    ForeignFormat(
        (".torchscript", ".jit"),
        "TorchScript",
        "pip install pnnx; pnnx {path} inputshape=[1,3,224,224], and open the .pnnx.param that it writes; or "
        + _MODULE,
    ),
    ForeignFormat((".ckpt",), "a training checkpoint (PyTorch Lightning, TensorFlow)", _MODULE),
    ForeignFormat((".bin",), "weights without a graph (Hugging Face, OpenVINO, ncnn)", _STATE_DICT),
    ForeignFormat((".mar",), "TorchServe's archive", "unpack it (unzip {path}), and " + _MODULE),
    ForeignFormat((".nemo",), "NVIDIA NeMo", "ASRModel.restore_from({file!r}).export({stem!r} + '.onnx')"),
    ForeignFormat((".ptl", ".pte"), "PyTorch for devices (Lite, ExecuTorch)", _MODULE),
    ForeignFormat(
        (".h5", ".hdf5", ".keras"),
        "Keras",
        "keras.models.load_model({file!r}).export({stem!r} + '.onnx', format='onnx')",
    ),
    ForeignFormat(
        (".pb", ".pbtxt"),
        "TensorFlow (a SavedModel's, or a frozen graph)",
        tf2onnx("--saved-model").replace("{path}", "{folder}")
        + "; a frozen graph with --graphdef {path} --inputs … --outputs …",
    ),
    ForeignFormat(
        (".index", ".meta"), "a checkpoint of TensorFlow", tf2onnx("--checkpoint", " --inputs … --outputs …")
    ),
    ForeignFormat(
        (".mlmodel", ".mlpackage", ".mlmodelc"),
        "Core ML",
        _ORIGINAL + "; an older .mlmodel: onnxmltools.convert_coreml(coremltools.utils.load_spec({file!r}))",
    ),
    ForeignFormat(
        (".caffemodel", ".prototxt"),
        "Caffe",
        "pip install caffe2onnx; python -m caffe2onnx.convert --prototxt {out}.prototxt --caffemodel {out}.caffemodel "
        "--onnx {out}.onnx",
    ),
    ForeignFormat(
        (".pdmodel", ".pdiparams", ".pdparams"),
        "PaddlePaddle",
        "pip install paddle2onnx; paddle2onnx --model_dir {folder} --model_filename {out}.pdmodel "
        "--params_filename {out}.pdiparams --save_file {out}.onnx",
    ),
    ForeignFormat((".engine", ".plan", ".trt"), "a TensorRT engine, compiled for one GPU", _ORIGINAL),
    ForeignFormat((".ort",), "ONNX Runtime's own format", "open the .onnx file that it was made of"),
    ForeignFormat((".xml",), "OpenVINO", _ORIGINAL),
    ForeignFormat(
        (".joblib", ".pkl", ".pickle"),
        "a pickle of Python, which opening would run (scikit-learn and others)",
        "pip install skl2onnx; skl2onnx.to_onnx(model, X[:1]).SerializeToString() into a .onnx file; "
        "arrays: numpy.savez('x.npz', **arrays)",
    ),
    ForeignFormat(
        (".msgpack",),
        "Flax",
        "numpy.savez({stem!r} + '.npz', **flax.traverse_util.flatten_dict("
        "flax.serialization.msgpack_restore(open({file!r}, 'rb').read()), sep='/'))",
    ),
    ForeignFormat((".mnn",), "MNN", _ORIGINAL),
    ForeignFormat((".ncnn",), "ncnn", "open x.pnnx.param, which pnnx writes beside x.ncnn.param"),
    ForeignFormat((".tnnproto", ".tnnmodel"), "TNN", _ORIGINAL),
    ForeignFormat((".rknn", ".dlc", ".hef", ".om", ".kmodel", ".nb"), "a format of one device", _ORIGINAL),
    ForeignFormat((".params",), "MXNet", "mxnet.onnx.export_model(symbol, {file!r}, in_shapes=[…])"),
    ForeignFormat((".weights", ".cfg"), "Darknet", "convert it to torch, and " + _MODULE),
    ForeignFormat((".ggml", ".ggmf", ".ggjt"), "ggml before GGUF", "convert it with llama.cpp to a .gguf file"),
    ForeignFormat((".llamafile",), "llamafile", "unpack it (unzip {path}), and open the .gguf file in it"),
    ForeignFormat((".npk", ".mpk"), "Burn", _ORIGINAL),
    ForeignFormat((".mlir", ".stablehlo"), "MLIR (StableHLO, TOSA and others)", _ORIGINAL),
    ForeignFormat(
        (".zip", ".gz", ".bz2", ".xz", ".zst", ".tar", ".tgz", ".7z"),
        "an archive",
        "unpack it, and open the file in it: x.onnx",
    ),
)
"""by the endings; the first row counts"""


def foreign_format(path: Path) -> ForeignFormat | None:
    """Return the format of a file, or a folder, that is not opened, by its ending; None for an unknown one."""
    name = path.name.lower()
    return next((row for row in FOREIGN if name.endswith(row.endings)), None)
