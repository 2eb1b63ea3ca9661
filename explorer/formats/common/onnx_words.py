"""Words of ONNX files that the reader and the writer share, beside those of the standard.

Operators of old opsets mean something else than today's of the same name. The reader notes such a meaning as an
argument that no opset has, and the builder of today's operator knows it.
"""

SCOPES = "pkg.torch.onnx.name_scopes"
"""key of the metadata in which torch's exporter notes the path of a node's modules"""
SLOPES_OF_CHANNELS = "slopes_of_channels"
"""an argument of PRelu before opset 7: a list of slopes has one for each channel"""
FLATTENS = "flattens"
"""an argument of Softmax and its like before opset 13: the axes before ``axis`` are one, and those from there on"""
NEAREST_BY_SCALE = "nearest_by_scale"
"""an argument of Resize in opset 10: where an axis shrinks the nearest element is the one above, else the one below"""
STACK_TRACE = "pkg.torch.onnx.stack_trace"
"""note of torch's exporter with a node: the lines of the program that led to it, as a traceback"""


def left_out(operator: str, formal: str) -> str:
    """Return the name of an operator's output that a file leaves out, for the standard's name of it."""
    return f"{operator}:{formal}"
