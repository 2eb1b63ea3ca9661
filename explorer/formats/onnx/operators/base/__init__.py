"""The table of ONNX operator types, readers of inputs and attributes, and types that the onnx package evaluates."""
