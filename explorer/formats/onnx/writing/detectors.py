"""Writers of detector operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.formats.onnx.writing.node_writer import GraphWriter, writes


@writes("max_roi_pool")
def max_roi_pool(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the largest elements of a grid of windows in regions."""
    operation = node.operation
    return graph.node("MaxRoiPool", *names, pooled_shape=list(operation.size), spatial_scale=float(operation.scale))


@writes("roi_align")
def roi_align(graph: GraphWriter, node: Any, x: str, regions: str, numbers: str) -> Any:
    """Write bins of regions, each resampled from an image."""
    operation, operands = node.operation, node.operands
    regions = graph.cast(regions, operands[1].dtype, operands[0].dtype)
    return graph.node(
        "RoiAlign",
        x,
        regions,
        graph.cast(numbers, operands[2].dtype, np.int64),
        output_height=operation.size[0],
        output_width=operation.size[1],
        sampling_ratio=operation.samples,
        spatial_scale=float(operation.scale),
        mode=operation.mode,
        coordinate_transformation_mode="half_pixel" if operation.is_centred else "output_half_pixel",
    )


@writes("non_max_suppression")
def non_max_suppression(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the indices of the selected boxes, which the standard computes in single precision."""
    operation = node.operation
    operands = [graph.cast(name, operand.dtype, np.float32) for name, operand in zip(names, node.operands, strict=True)]
    limits = [graph.constant([operation.most]), graph.constant([operation.overlap], np.float32)]
    if operation.least is not None:
        limits.append(graph.constant([operation.least], np.float32))
    return graph.node("NonMaxSuppression", *operands, *limits, center_point_box=int(operation.is_centred))
