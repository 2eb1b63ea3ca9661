"""Data types: tensors of a fixed rank, structured and growing tensors, users' own types, images and tables."""
