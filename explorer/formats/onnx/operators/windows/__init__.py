"""Windows that slide over signals, images and volumes: convolution and pooling."""

from explorer.formats.onnx.operators.windows import conv, deform_conv, pooling, roi_align, roi_pool

__all__ = ["conv", "deform_conv", "pooling", "roi_align", "roi_pool"]
