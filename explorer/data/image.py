"""From pictures to the tensors that networks for images expect."""

from __future__ import annotations

import os
import struct
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from explorer.core.errors import FileError, OperandError, UnknownNameError
from explorer.core.files.open_untrusted import opened
from explorer.core.ir.tensor import Tensor, tensor
from explorer.core.types.tensor_type import Array

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


PRESETS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "0-1": ((0.0,), (1.0,)),
    "none": ((0.0,), (1 / 255,)),
}
"""name → mean and standard deviation of each channel, of levels from 0 to 1; "none" leaves levels from 0 to 255"""
CROP = 224 / 256
"""the part of the shorter side that is kept, as torchvision's weights for ImageNet are evaluated"""
RESAMPLES = ("bilinear", "bicubic", "nearest", "box", "lanczos")
LAYOUTS = ("NCHW", "NHWC")


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
    """Pictures for a network: (N, channels, height, width), or (N, height, width, channels) with layout "NHWC".

    ``size`` is height and width. Each picture is resized until its centre of that size is the part ``crop`` of the
    shorter side, and that centre is cut out, as torchvision does. Levels from 0 to 1 are normalised by ``mean`` and
    ``std``, of each channel or one for all; where not given they are those of ``preset``: "imagenet", "0-1" (levels
    stay) or "none" (levels from 0 to 255). Raises FileError for what is no picture, OperandError for other arguments.
    """
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    height, width = (size, size) if isinstance(size, int) else size
    if not paths or min(height, width) < 1 or not 0 < crop <= 1:
        raise OperandError(
            f"{len(paths)} pictures of height {height}, width {width}, of which {crop:g} is kept",
            rule="there is a picture, height and width are 1 or more, and the part kept is above 0 and at most 1",
        )
    known = {"preset": (preset, PRESETS), "resample": (resample, RESAMPLES), "layout": (layout, LAYOUTS)}
    for word, (given, names) in known.items():
        if given not in names:
            raise UnknownNameError(given, kind=word, known=names)
    if channels not in MODES:
        raise OperandError(
            f"a picture of {channels} channels", rule="a picture is grey (1) or red, green, blue (3)",
            fix="make the missing channels from the array of ex.evaluate(ex.load_image(…))",
        )  # fmt: skip
    shift = _per_channel("mean", PRESETS[preset][0] if mean is None else mean, channels)
    scale = _per_channel("std", PRESETS[preset][1] if std is None else std, channels)
    kind = _dtype(dtype, shift, scale)
    first = layout == "NCHW"
    made = np.empty((len(paths), channels, height, width) if first else (len(paths), height, width, channels), kind)
    for index, each in enumerate(paths):
        levels = _levels(centred(decode(each, channels), (height, width), crop, resample), shift, scale, kind)
        made[index] = levels.transpose(2, 0, 1) if first else levels
    return tensor(made, name=Path(paths[0]).stem if len(paths) == 1 else "images", copy=False)


def centred(image: Image.Image, size: tuple[int, int], crop: float, resample: str) -> Image.Image:
    """The centre of a picture, resized until it is ``size`` (height, width); sides are rounded as torchvision does."""
    from PIL import Image

    height, width = size
    wide, high = image.size
    wanted = round(width / crop), round(height / crop)
    if wanted[0] * high >= wanted[1] * wide:
        resized = wanted[0], max(int(wanted[0] * high / wide), height)
    else:
        resized = max(int(wanted[1] * wide / high), width), wanted[1]
    if max(resized) > 64 * max(wanted):
        raise OperandError(
            f"a picture of {wide} × {high} pixels for {width} × {height}",
            rule="a side is at most 64 times as long as what is cut out of it",
            fix="cut out the part that matters",
        )
    enlarged = image.resize(resized, Image.Resampling[resample.upper()])
    left, top = round((resized[0] - width) / 2.0), round((resized[1] - height) / 2.0)
    return enlarged.crop((left, top, left + width, top + height))


def _levels(image: Image.Image, shift: Array, scale: Array, kind: np.dtype[Any]) -> Array:
    """(height, width, channels), normalised in float64 and rounded once."""
    levels = np.asarray(image).reshape(image.height, image.width, -1)
    return levels.astype(kind) if _is_raw(shift, scale) else ((levels / 255 - shift) / scale).astype(kind)


def _is_raw(shift: Array, scale: Array) -> bool:
    """Whether levels from 0 to 255 stay what they are."""
    return not shift.any() and bool((scale == 1 / 255).all())


def _per_channel(word: str, given: Sequence[float], channels: int) -> Array:
    values = np.asarray(given, np.float64).reshape(-1)
    if len(values) not in (1, channels) or not np.isfinite(values).all() or (word == "std" and (values <= 0).any()):
        raise OperandError(
            f"{word} {tuple(given)} for pictures of {channels} channels",
            rule="there is one number for all channels or one for each; a standard deviation is above 0",
            fix="for grey pictures choose the preset 0-1",
        )
    return values


def _dtype(dtype: Any, shift: Array, scale: Array) -> np.dtype[Any]:
    kind: np.dtype[Any] = np.dtype(dtype)
    if kind.kind != "f" and not (_is_raw(shift, scale) and kind.kind in "iu" and np.can_cast(np.uint8, kind)):
        raise OperandError(
            f"a picture as {kind.name}", rule="normalised levels are fractions, levels as they are go from 0 to 255",
            fix="choose a floating-point dtype, or uint8 with the preset none",
        )  # fmt: skip
    return kind
