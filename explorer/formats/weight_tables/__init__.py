"""Readers of files that contain only weights. Each file becomes a net without a graph, with tensors in named boxes."""

from explorer.formats.weight_tables.gguf import read_gguf
from explorer.formats.weight_tables.numpy_files import read_npy, read_npz
from explorer.formats.weight_tables.safetensors import read_index, read_safetensors
from explorer.formats.weight_tables.table import TABLE

__all__ = ["TABLE", "read_gguf", "read_index", "read_npy", "read_npz", "read_safetensors"]
