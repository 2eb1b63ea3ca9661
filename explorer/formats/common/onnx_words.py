"""Words of ONNX files that the reader and the writer share, beside those of the standard."""

SCOPES = "pkg.torch.onnx.name_scopes"
"""key of the metadata in which torch's exporter notes the path of a node's modules"""
SLOPES_OF_CHANNELS = "slopes_of_channels"
"""an argument of PRelu before opset 7: a list of slopes has one for each channel"""
FLATTENS = "flattens"
"""an argument of Softmax and its like before opset 13: the axes before ``axis`` are one, and those from there on"""
