"""Loader of image files as input tensors of networks.

Files are untrusted: only decoders of plain formats are allowed, sizes are checked before pixels are decoded, and every
decoder error becomes a FileError. Images are resized and cropped as in torchvision's evaluation transforms, because
published accuracies were measured with them.
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
from explorer.record.reasons import counted_text

if TYPE_CHECKING:
    from PIL import Image


FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
"""allowed decoders; none of them starts another program, unlike the EPS decoder"""
EXTENSIONS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
"""extensions of image files"""
MAX_PIXELS = 2**26
"""maximum number of pixels: 67 million, 200 MB in RGB"""
MODES = {1: "L", 3: "RGB"}
_BROKEN = (OSError, SyntaxError, ValueError, TypeError, LookupError, EOFError, ArithmeticError, struct.error)
"""exceptions that Pillow's decoders raise for broken files"""


def decode(path: str | os.PathLike[str], channels: int = 3) -> Image.Image:
    """Return the first image in a file, rotated upright, with 8 bits per channel; ``channels`` is 1 (grey) or 3 (RGB).

    Transparent pixels become white. Raise FileError for a file that is missing, not an image or damaged, has more than
    ``MAX_PIXELS`` pixels, or has pixels without a known range.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    name = os.fspath(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # damaged metadata is accepted; the size is checked below
            with opened(path, what="the image") as file, Image.open(file, formats=FORMATS) as image:
                _check_size(image, name)
                # Cameras store their orientation in metadata instead of rotating the pixels.
                upright = ImageOps.exif_transpose(image)
                upright.load()
                return _plain(upright, name).convert(MODES[channels])
    except Image.DecompressionBombError as error:
        raise _too_large(f"{error}", name) from None
    except FileError:
        raise
    except UnidentifiedImageError:
        raise FileError(
            "the file is not an image",
            path=name,
            rule=f"the format must be one of {', '.join(FORMATS)}",
            fix="convert it to PNG",
        ) from None
    except _BROKEN as error:
        raise FileError(
            f"the image is damaged: {type(error).__name__}: {error}", path=name, rule="the image must be complete",
            fix="save it again",
        ) from error  # fmt: skip


def _check_size(image: Image.Image, name: str) -> None:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise _too_large(f"{width} × {height} pixels", name)


def _too_large(size: str, name: str) -> FileError:
    return FileError(size, path=name, rule=f"an image must have at most {MAX_PIXELS:,} pixels", fix="make it smaller")


def _plain(image: Image.Image, name: str) -> Image.Image:
    """Return the image without transparency, with 8 bits per channel."""
    from PIL import Image

    if image.mode.startswith("I;16"):  # Pillow would clip these at 255
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
"""name → (mean, standard deviation) of each channel for levels from 0 to 1; "none" keeps levels from 0 to 255"""
CROP = 224 / 256
"""fraction of the shorter side that remains after cropping, as in torchvision's evaluation of ImageNet weights"""
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

    ``size`` is height and width. Each image is resized and then center-cropped to this size. ``crop`` is the fraction
    of the resized image's shorter side that remains, as in torchvision. Levels from 0 to 1 are normalized with ``mean``
    and ``std``, each of which is one number, or one number per channel. By default ``preset`` determines both:
    "imagenet", "0-1" (unchanged levels) or "none" (levels from 0 to 255). Raise FileError for a file that is not an
    image, OperandError for other invalid arguments.

    >>> import PIL.Image
    >>> PIL.Image.new("RGB", (300, 200), "grey").save("grey.png")
    >>> ex.load_image("grey.png", 224, preset="0-1").type
    1×3×224×224 float32
    """
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    height, width = (size, size) if isinstance(size, int) else size
    if not paths or min(height, width) < 1 or not 0 < crop <= 1:
        raise OperandError(
            f"{counted_text(len(paths), 'image')} of height {height} and width {width} with crop={crop:g}",
            rule="there must be at least one image, height and width must be at least 1, and crop must be in (0, 1]",
            fix="ex.load_image(path, (224, 224), crop=0.875)",
        )
    choices = {"preset": (preset, PRESETS), "resample": (resample, RESAMPLES), "layout": (layout, LAYOUTS)}
    for option, (choice, names) in choices.items():
        if choice not in names:
            raise UnknownNameError(choice, kind=option, known=names)
    if channels not in MODES:
        raise OperandError(
            f"an image of {channels} channels", rule="channels must be 1 (grey) or 3 (red, green, blue)",
            fix="add channels to the array of ex.evaluate(ex.load_image(…))",
        )  # fmt: skip
    shift = _per_channel("mean", PRESETS[preset][0] if mean is None else mean, channels)
    scale = _per_channel("std", PRESETS[preset][1] if std is None else std, channels)
    element_dtype = _dtype(dtype, shift, scale)
    channels_first = layout == "NCHW"
    sizes = (channels, height, width) if channels_first else (height, width, channels)
    pixels = np.empty((len(paths), *sizes), element_dtype)
    for index, file in enumerate(paths):
        image = center_crop(decode(file, channels), (height, width), crop, resample)
        levels = _levels(image, shift, scale, element_dtype)
        pixels[index] = levels.transpose(2, 0, 1) if channels_first else levels
    return tensor(pixels, name=Path(paths[0]).stem if len(paths) == 1 else "images", copy=False)


def center_crop(image: Image.Image, size: tuple[int, int], crop: float, resample: str) -> Image.Image:
    """Return an image resized and center-cropped to ``size`` (height, width), with sides rounded as in torchvision."""
    from PIL import Image

    height, width = size
    image_width, image_height = image.size
    # the resized image must be at least this large, because the crop is the fraction ``crop`` of its shorter side
    minimum = round(width / crop), round(height / crop)
    if minimum[0] * image_height >= minimum[1] * image_width:
        resized = minimum[0], max(int(minimum[0] * image_height / image_width), height)
    else:
        resized = max(int(minimum[1] * image_width / image_height), width), minimum[1]
    # An image of 1 × 10⁶ pixels would be resized to gigabytes before cropping.
    if max(resized) > 64 * max(minimum):
        raise OperandError(
            f"an image of {image_width} × {image_height} pixels for {width} × {height}",
            rule="a side of the resized image must be at most 64 times as long as its crop",
            fix="crop the image first",
        )
    resized_image = image.resize(resized, Image.Resampling[resample.upper()])
    left, top = round((resized[0] - width) / 2.0), round((resized[1] - height) / 2.0)
    return resized_image.crop((left, top, left + width, top + height))


def _levels(image: Image.Image, shift: Array, scale: Array, element_dtype: np.dtype[Any]) -> Array:
    """Return the levels as an array (height, width, channels), normalized in float64 and rounded once."""
    levels = np.asarray(image).reshape(image.height, image.width, -1)
    return (
        levels.astype(element_dtype)
        if _is_raw(shift, scale)
        else ((levels / 255 - shift) / scale).astype(element_dtype)
    )


def _is_raw(shift: Array, scale: Array) -> bool:
    return not shift.any() and bool((scale == 1 / 255).all())


def _per_channel(option: str, numbers: Sequence[float], channels: int) -> Array:
    values = np.asarray(numbers, np.float64).reshape(-1)
    if len(values) not in (1, channels) or not np.isfinite(values).all() or (option == "std" and (values <= 0).any()):
        raise OperandError(
            f"{option} {tuple(numbers)} for images of {counted_text(channels, 'channel')}",
            rule="there must be one number for all channels or one for each, and standard deviations must be above 0",
            fix="preset='0-1' for grey images",
        )
    return values


def _dtype(dtype: Any, shift: Array, scale: Array) -> np.dtype[Any]:
    element_dtype: np.dtype[Any] = np.dtype(dtype)
    if element_dtype.kind != "f" and not (
        _is_raw(shift, scale) and element_dtype.kind in "iu" and np.can_cast(np.uint8, element_dtype)
    ):
        raise OperandError(
            f"an image as {element_dtype.name}",
            rule="the dtype must be floating, or an integer dtype with 0 to 255 for raw levels",
            fix="dtype=np.float32, or dtype=np.uint8 with preset='none'",
        )  # fmt: skip
    return element_dtype
