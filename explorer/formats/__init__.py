"""Files of models; the format is chosen by the file's ending."""

from explorer.formats.open_save import open, save
from explorer.formats.registry import FORMATS, Format, endings, file_operator, layer_types, register_format

__all__ = ["FORMATS", "Format", "endings", "file_operator", "layer_types", "open", "register_format", "save"]
