"""Pictures from files that nobody vouches for: decoded within limits, turned upright, as grey levels or colours."""

from __future__ import annotations

import os
import struct
import warnings
from typing import TYPE_CHECKING

import numpy as np

from explorer.core.errors import FileError
from explorer.core.files.open_untrusted import opened

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
"""the decoders that are let at a file: those that start other programs, as EPS does, are not among them"""
ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
"""the endings of files that are pictures"""
PIXELS = 2**26
"""the largest picture that is decoded: 67 million pixels, 200 MB as colours"""
MODES = {1: "L", 3: "RGB"}
_BROKEN = (OSError, SyntaxError, ValueError, TypeError, LookupError, EOFError, ArithmeticError, struct.error)
"""what Pillow's decoders raise for broken files"""


def decode(path: str | os.PathLike[str], channels: int = 3) -> Image.Image:
    """The first picture in a file, upright, with 8 bits for each of 1 (grey) or 3 (red, green, blue) channels.

    What is transparent lies on white. Raises FileError for a file that is absent, no picture, broken, larger than
    ``PIXELS``, or whose numbers have no known range.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    name = os.fspath(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of damaged notes beside the pixels; the limit on pixels is ours
            with opened(path, what="the picture") as file, Image.open(file, formats=FORMATS) as image:
                _check_size(image, name)
                upright = ImageOps.exif_transpose(image)
                upright.load()
                return _plain(upright, name).convert(MODES[channels])
    except Image.DecompressionBombError as error:
        raise _too_large(f"{error}", name) from None
    except FileError:
        raise
    except UnidentifiedImageError:
        raise FileError(
            "this is no picture", path=name, rule=f"pictures are {', '.join(FORMATS)}", fix="convert it to PNG"
        ) from None
    except _BROKEN as error:
        raise FileError(
            f"the picture is broken: {type(error).__name__}: {error}", path=name, rule="a picture is decoded whole",
            fix="save it anew",
        ) from error  # fmt: skip


def _check_size(image: Image.Image, name: str) -> None:
    width, height = image.size
    if width * height > PIXELS:
        raise _too_large(f"{width} × {height} pixels", name)


def _too_large(given: str, name: str) -> FileError:
    return FileError(
        given, path=name, rule=f"a picture has at most {PIXELS:,} pixels, whatever its file says", fix="make it smaller"
    )


def _plain(image: Image.Image, name: str) -> Image.Image:
    """The picture without transparency, 8 bits a channel."""
    from PIL import Image

    if image.mode.startswith("I;16"):  # Pillow would cut these off at 255
        return Image.fromarray((np.asarray(image) // 257).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise FileError(
            f"pixels of mode {image.mode}", path=name, rule="a pixel's range is known: 8 or 16 bits",
            fix="read it with NumPy, scale it, and give the array",
        )  # fmt: skip
    if image.mode == "LAB":
        raise FileError(
            "pixels of mode LAB", path=name, rule="a pixel must be grey, or be told in RGB, CMYK, YCbCr or HSV",
            fix="convert it to RGB, with its colour profile",
        )  # fmt: skip
    if not image.has_transparency_data:
        return image
    coloured = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), coloured)
