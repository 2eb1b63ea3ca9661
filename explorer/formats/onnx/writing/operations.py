"""All writers of operations, declared when this module is imported."""

from explorer.formats.onnx.writing import arrays, control, detectors, elementwise, networks
from explorer.formats.onnx.writing.node_writer import UNSUPPORTED, WRITERS

__all__ = ["UNSUPPORTED", "WRITERS", "arrays", "control", "detectors", "elementwise", "networks"]
