"""Files of models; the format is chosen by the file's ending."""

from explorer.formats.open_save import ENDINGS, open, save

__all__ = ["ENDINGS", "open", "save"]
