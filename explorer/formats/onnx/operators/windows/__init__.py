"""Windows that slide over signals, images and volumes: convolution and pooling."""

from explorer.formats.onnx.operators.windows import conv, pooling, roi_pool

__all__ = ["conv", "pooling", "roi_pool"]
