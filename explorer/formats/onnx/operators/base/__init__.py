"""The table of ONNX operator types, helpers for inputs and attributes, and operators evaluated by the onnx package."""
