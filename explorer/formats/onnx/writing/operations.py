"""All writers of operations; importing this module declares them."""

from explorer.formats.onnx.writing import arrays, control, detectors, elementwise, networks
from explorer.formats.onnx.writing.node_writer import UNWRITTEN, WRITERS

__all__ = ["UNWRITTEN", "WRITERS", "arrays", "control", "detectors", "elementwise", "networks"]
