"""Data types: tensors of fixed rank, structured tensors, growing tensors, user-defined types, images and tables."""
