"""Operators with sliding windows over signals, images and volumes, such as convolution and pooling."""

from explorer.formats.onnx.operators.windows import col2im, conv, pooling, roi_align

__all__ = ["col2im", "conv", "pooling", "roi_align"]
