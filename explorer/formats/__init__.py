"""Files of models; the format is chosen by the file's ending."""

from explorer.formats.opening import ENDINGS, open

__all__ = ["ENDINGS", "open"]
