"""Nonstandard names in ONNX files, shared by the reader and the writer.

Some operators have another meaning in old opsets. The reader marks them with arguments that no opset defines, and the
builders of the current operators interpret these arguments.
"""

SCOPES = "pkg.torch.onnx.name_scopes"
"""metadata key for the path of the submodule that a node comes from; torch's exporter records it"""
SLOPES_OF_CHANNELS = "slopes_of_channels"
"""argument of PRelu before opset 7: a vector of slopes has one slope for each channel"""
FLATTENS = "flattens"
"""argument of Softmax and similar operators before opset 13: all axes from ``axis`` on are treated as one axis"""
NEAREST_BY_SCALE = "nearest_by_scale"
"""argument of Resize in opset 10: the index of the nearest element is rounded up if an axis shrinks, else down"""
STACK_TRACE = "pkg.torch.onnx.stack_trace"
"""metadata key for the traceback of the code that a node comes from; torch's exporter records it"""

GRAPH, INPUT, OUTPUT, FUNCTION = "graph: ", "input ", "output ", "function "
"""beginnings of the names of metadata about parts of a model"""


def omitted_output_name(operator: str, formal: str) -> str:
    """Return a name for an omitted output, given the operator's name and the output's name in the standard."""
    return f"{operator}:{formal}"
