"""Names in ONNX files that are not in the standard, shared by the reader and the writer.

Some operators have another meaning in old opsets. The reader marks such an operator with an argument that no opset
defines, and the builder of the current operator interprets it.
"""

SCOPES = "pkg.torch.onnx.name_scopes"
"""metadata key for the path of a node's modules, which torch's exporter records"""
SLOPES_OF_CHANNELS = "slopes_of_channels"
"""argument of PRelu before opset 7: a vector of slopes has one slope for each channel"""
FLATTENS = "flattens"
"""argument of Softmax and similar operators before opset 13: merge the axes before ``axis``, and those from it on"""
NEAREST_BY_SCALE = "nearest_by_scale"
"""argument of Resize in opset 10: the index of the nearest element is rounded up if an axis shrinks, else down"""
STACK_TRACE = "pkg.torch.onnx.stack_trace"
"""metadata key for a node's traceback in the program, which torch's exporter records"""


def left_out(operator: str, formal: str) -> str:
    """Return a name for an omitted output, given the operator's name and the output's name in the standard."""
    return f"{operator}:{formal}"
