"""Runtimes other than Explorer, which run model files: onnxruntime, the onnx package's evaluator, and LiteRT."""

from explorer.runtimes.contract import FileNode, MeasuredKernel, Measurement, Runtime, RuntimeModel
from explorer.runtimes.registry import RUNTIMES, answered, installed

__all__ = [
    "RUNTIMES",
    "FileNode",
    "MeasuredKernel",
    "Measurement",
    "Runtime",
    "RuntimeModel",
    "answered",
    "installed",
]
