"""Writing of ONNX files. Nets with ONNX operator types are written unchanged, all other nets as their expressions."""
