"""Images: from files to the input tensors of networks.

Files are untrusted: only decoders of plain formats are allowed, sizes are checked before pixels are decoded, and every
failure of a decoder becomes a FileError. Resizing and cropping follow torchvision's evaluation transforms, to which
published accuracies refer.
"""

from __future__ import annotations

import os
import struct
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from explorer.core.argument_checks import named
from explorer.core.errors import FileError, OperandError, UnknownNameError
from explorer.core.files.open_untrusted import opened
from explorer.core.ir.tensor import Tensor, tensor
from explorer.core.types.tensor_type import Array

if TYPE_CHECKING:
    from PIL import Image


FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
"""allowed decoders; those that start other programs, as EPS does, are not among them"""
ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
"""endings of image files"""
PIXELS = 2**26
"""most pixels of a decoded image: 67 million, 200 MB as colours"""
MODES = {1: "L", 3: "RGB"}
_BROKEN = (OSError, SyntaxError, ValueError, TypeError, LookupError, EOFError, ArithmeticError, struct.error)
"""exceptions that Pillow's decoders raise for broken files"""


def decode(path: str | os.PathLike[str], channels: int = 3) -> Image.Image:
    """Decode the first image in a file, upright, with 8 bits for each of 1 (grey) or 3 (red, green, blue) channels.

    Transparent pixels become white. Raises FileError for a file that is missing, not an image, broken, larger than
    ``PIXELS``, or whose pixels have no known range.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    name = os.fspath(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about damaged metadata; the limit on pixels is checked below
            with opened(path, what="the picture") as file, Image.open(file, formats=FORMATS) as image:
                _check_size(image, name)
                # cameras store how they were held instead of turning the pixels
                upright = ImageOps.exif_transpose(image)
                upright.load()
                return _plain(upright, name).convert(MODES[channels])
    except Image.DecompressionBombError as error:
        raise _too_large(f"{error}", name) from None
    except FileError:
        raise
    except UnidentifiedImageError:
        raise FileError(
            "this is no picture",
            path=name,
            rule=f"the format must be one of {', '.join(FORMATS)}",
            fix="convert it to PNG",
        ) from None
    except _BROKEN as error:
        raise FileError(
            f"the picture is broken: {type(error).__name__}: {error}", path=name, rule="the image must be whole",
            fix="save it anew",
        ) from error  # fmt: skip


def _check_size(image: Image.Image, name: str) -> None:
    width, height = image.size
    if width * height > PIXELS:
        raise _too_large(f"{width} × {height} pixels", name)


def _too_large(size: str, name: str) -> FileError:
    return FileError(size, path=name, rule=f"an image must have at most {PIXELS:,} pixels", fix="make it smaller")


def _plain(image: Image.Image, name: str) -> Image.Image:
    """Return the image without transparency, with 8 bits per channel."""
    from PIL import Image

    if image.mode.startswith("I;16"):  # Pillow would cut these off at 255
        return Image.fromarray((np.asarray(image) // 257).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise FileError(
            f"pixels of mode {image.mode}", path=name, rule="pixels must have 8 or 16 bits",
            fix="read it with NumPy, scale it, and pass the array",
        )  # fmt: skip
    if image.mode == "LAB":
        raise FileError(
            "pixels of mode LAB", path=name, rule="pixels must be grey, RGB, CMYK, YCbCr or HSV",
            fix="convert it to RGB, with its colour profile",
        )  # fmt: skip
    if not image.has_transparency_data:
        return image
    coloured = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), coloured)


PRESETS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "0-1": ((0.0,), (1.0,)),
    "none": ((0.0,), (1 / 255,)),
}
"""name → mean and standard deviation of each channel, for levels from 0 to 1; "none" keeps levels from 0 to 255"""
CROP = 224 / 256
"""fraction of the shorter side that is kept, as in torchvision's evaluation of ImageNet weights"""
RESAMPLES = ("bilinear", "bicubic", "nearest", "box", "lanczos")
LAYOUTS = ("NCHW", "NHWC")


@named
def load_image(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    size: int | tuple[int, int] = 224,
    *,
    channels: int = 3,
    preset: str = "imagenet",
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    crop: float = CROP,
    resample: str = "bilinear",
    layout: str = "NCHW",
    dtype: Any = np.float32,
) -> Tensor:
    """Load images for a network: (N, channels, height, width), or (N, height, width, channels) with layout "NHWC".

    ``size`` is height and width. Each image is resized so that its centre of that size is the fraction ``crop`` of the
    shorter side, and that centre is cut out, as torchvision does. Levels from 0 to 1 are normalised by ``mean`` and
    ``std``, per channel or one for all; by default those of ``preset``: "imagenet", "0-1" (levels stay) or "none"
    (levels from 0 to 255). Raises FileError for a file that is no image, OperandError for other wrong arguments.

    >>> import PIL.Image
    >>> PIL.Image.new("RGB", (300, 200), "grey").save("grey.png")
    >>> ex.load_image("grey.png", 224, preset="0-1").type
    1×3×224×224 float32
    """
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    height, width = (size, size) if isinstance(size, int) else size
    if not paths or min(height, width) < 1 or not 0 < crop <= 1:
        raise OperandError(
            f"{len(paths)} pictures of height {height}, width {width}, of which {crop:g} is kept",
            rule="there must be an image, height and width of 1 or more, and a crop above 0 and at most 1",
            fix="ex.load_image(path, (224, 224), crop=0.875)",
        )
    choices = {"preset": (preset, PRESETS), "resample": (resample, RESAMPLES), "layout": (layout, LAYOUTS)}
    for word, (choice, names) in choices.items():
        if choice not in names:
            raise UnknownNameError(choice, kind=word, known=names)
    if channels not in MODES:
        raise OperandError(
            f"a picture of {channels} channels", rule="channels must be 1 (grey) or 3 (red, green, blue)",
            fix="make the missing channels from the array of ex.evaluate(ex.load_image(…))",
        )  # fmt: skip
    shift = _per_channel("mean", PRESETS[preset][0] if mean is None else mean, channels)
    scale = _per_channel("std", PRESETS[preset][1] if std is None else std, channels)
    element_dtype = _dtype(dtype, shift, scale)
    first = layout == "NCHW"
    pixels = np.empty(
        (len(paths), channels, height, width) if first else (len(paths), height, width, channels), element_dtype
    )
    for index, file in enumerate(paths):
        levels = _levels(centred(decode(file, channels), (height, width), crop, resample), shift, scale, element_dtype)
        pixels[index] = levels.transpose(2, 0, 1) if first else levels
    return tensor(pixels, name=Path(paths[0]).stem if len(paths) == 1 else "images", copy=False)


def centred(image: Image.Image, size: tuple[int, int], crop: float, resample: str) -> Image.Image:
    """Return the centre of an image, resized to ``size`` (height, width); sides are rounded as torchvision does."""
    from PIL import Image

    height, width = size
    wide, high = image.size
    # so much of the resized image that the fraction ``crop`` of it has the wanted size
    wanted = round(width / crop), round(height / crop)
    if wanted[0] * high >= wanted[1] * wide:
        resized = wanted[0], max(int(wanted[0] * high / wide), height)
    else:
        resized = max(int(wanted[1] * wide / high), width), wanted[1]
    # a picture of 1 × 10⁶ pixels would be resized to gigabytes before it is cropped
    if max(resized) > 64 * max(wanted):
        raise OperandError(
            f"a picture of {wide} × {high} pixels for {width} × {height}",
            rule="a side must be at most 64 times as long as the part that is cut out of it",
            fix="crop the image to the part that matters first",
        )
    enlarged = image.resize(resized, Image.Resampling[resample.upper()])
    left, top = round((resized[0] - width) / 2.0), round((resized[1] - height) / 2.0)
    return enlarged.crop((left, top, left + width, top + height))


def _levels(image: Image.Image, shift: Array, scale: Array, element_dtype: np.dtype[Any]) -> Array:
    """Return levels (height, width, channels), normalised in float64 and rounded once."""
    levels = np.asarray(image).reshape(image.height, image.width, -1)
    return (
        levels.astype(element_dtype)
        if _is_raw(shift, scale)
        else ((levels / 255 - shift) / scale).astype(element_dtype)
    )


def _is_raw(shift: Array, scale: Array) -> bool:
    """Whether levels from 0 to 255 stay as they are."""
    return not shift.any() and bool((scale == 1 / 255).all())


def _per_channel(word: str, numbers: Sequence[float], channels: int) -> Array:
    values = np.asarray(numbers, np.float64).reshape(-1)
    if len(values) not in (1, channels) or not np.isfinite(values).all() or (word == "std" and (values <= 0).any()):
        raise OperandError(
            f"{word} {tuple(numbers)} for pictures of {channels} channels",
            rule="there must be one number for all channels or one for each; a standard deviation must be above 0",
            fix="preset='0-1' for grey images",
        )
    return values


def _dtype(dtype: Any, shift: Array, scale: Array) -> np.dtype[Any]:
    element_dtype: np.dtype[Any] = np.dtype(dtype)
    if element_dtype.kind != "f" and not (
        _is_raw(shift, scale) and element_dtype.kind in "iu" and np.can_cast(np.uint8, element_dtype)
    ):
        raise OperandError(
            f"a picture as {element_dtype.name}", rule="the dtype must be floating, or hold 0 to 255 for raw levels",
            fix="dtype=np.float32, or dtype=np.uint8 with preset='none'",
        )  # fmt: skip
    return element_dtype
