"""All writers of operations. Importing this module declares them."""

from explorer.formats.onnx.writing import arrays, control, detectors, elementwise, networks
from explorer.formats.onnx.writing.node_writer import UNSUPPORTED, WRITERS

__all__ = ["UNSUPPORTED", "WRITERS", "arrays", "control", "detectors", "elementwise", "networks"]
