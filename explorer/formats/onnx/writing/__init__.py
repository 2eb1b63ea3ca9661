"""Writing of ONNX files: nets with ONNX operator types unchanged, all other nets as their expressions."""
