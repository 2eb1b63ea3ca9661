"""Writing of ONNX files: nets of ONNX's own operator types as they are, all others by their expressions."""
