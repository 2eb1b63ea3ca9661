"""Readers and writers of model files. The extension of a file selects the format."""

from explorer.formats.open_save import open, save
from explorer.formats.registry import FORMATS, Format, extensions, file_operator, layer_types, register_format

__all__ = ["FORMATS", "Format", "extensions", "file_operator", "layer_types", "open", "register_format", "save"]
