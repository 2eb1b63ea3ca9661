"""Windows that slide over signals, images and volumes: convolution and pooling."""

from explorer.formats.onnx.operators.windows import conv, pooling

__all__ = ["conv", "pooling"]
