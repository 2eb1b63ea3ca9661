"""Images as network inputs: decoded safely, cropped and normalized as in torchvision."""

from __future__ import annotations

import contextlib
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import explorer as ex
from explorer.data.image import MAX_PIXELS, decode

Array = np.ndarray[Any, Any]
ASSETS = Path(__file__).parents[2] / "assets"
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def noise(height: int, width: int, channels: int = 3) -> Array:
    shape = (height, width, channels) if channels > 1 else (height, width)
    return np.random.default_rng(5).integers(0, 256, shape, np.uint8)


def picture(folder: Path, pixels: Array, name: str = "p.png") -> Path:
    Image.fromarray(pixels).save(folder / name)
    return folder / name


@pytest.mark.spec("I-11")
@pytest.mark.parametrize(
    ("height", "width", "resized", "box"),
    [
        (480, 640, (341, 256), (58, 16, 282, 240)),
        (300, 200, (256, 384), (16, 80, 240, 304)),
        (256, 256, (256, 256), (16, 16, 240, 240)),
        (100, 90, (256, 284), (16, 30, 240, 254)),
    ],
)
def test_an_image_is_cropped_and_normalized_as_in_torchvision(
    tmp_path: Path, height: int, width: int, resized: tuple[int, int], box: tuple[int, int, int, int]
) -> None:
    """`ex.load_image` resizes the shorter side to 256, crops the centre 224 and normalizes for ImageNet."""
    path = picture(tmp_path, noise(height, width))
    with Image.open(path) as image:
        levels = np.asarray(image.resize(resized, Image.Resampling.BILINEAR).crop(box)) / 255
    result = ex.load_image(path)
    assert (result.shape, result.dtype, result.name) == ((1, 3, 224, 224), np.float32, "p")
    np.testing.assert_allclose(result.array[0].transpose(1, 2, 0), (levels - MEAN) / STD, rtol=1e-6, atol=1e-6)


def test_the_crop_need_not_be_square(tmp_path: Path) -> None:
    pixels = noise(40, 40)
    for size in ((20, 40), (40, 20), (10, 40)):
        image = ex.load_image(picture(tmp_path, pixels), size, preset="none", crop=1.0, dtype=np.uint8)
        top, left = (40 - size[0]) // 2, (40 - size[1]) // 2
        np.testing.assert_array_equal(
            image.array[0].transpose(1, 2, 0), pixels[top : top + size[0], left : left + size[1]]
        )


def test_presets_layouts_and_batches(tmp_path: Path) -> None:
    """Values are integers, in 0 … 1, or normalized; channels come first or last; several images are a batch."""
    first, second = noise(8, 8), noise(8, 8)[::-1]
    paths = [picture(tmp_path, first, "a.png"), picture(tmp_path, second, "b.png")]
    whole = ex.load_image(paths, 8, preset="none", crop=1, layout="NHWC")
    np.testing.assert_array_equal(whole.array, np.stack([first, second]).astype(np.float32))
    unit = ex.load_image(paths, 8, preset="0-1", crop=1, dtype=np.float64)
    np.testing.assert_allclose(unit.array, whole.array.transpose(0, 3, 1, 2) / 255, rtol=1e-7)
    own = ex.load_image(paths, 8, mean=[0.5], std=[0.25, 0.5, 1], crop=1, dtype=np.float64)
    np.testing.assert_allclose(own.array, (unit.array - 0.5) / np.array([0.25, 0.5, 1]).reshape(3, 1, 1), rtol=1e-12)
    assert ex.load_image(ASSETS / "digit_3.png", 64, channels=1, preset="0-1", crop=1).shape == (1, 1, 64, 64)


def test_an_upscaled_digit_is_restored_by_averaging(tmp_path: Path) -> None:
    """Each pixel is a square in the image."""
    images, labels = (np.load(ASSETS / "digits.npz")[key] for key in ("images", "labels"))
    for digit in (3, 5, 8):
        path = ASSETS / f"digit_{digit}.png"
        image = ex.load_image(path, 8, channels=1, preset="0-1", crop=1, resample="box")
        np.testing.assert_allclose(image.array[0], images[labels == digit][0], atol=1 / 500)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "I;16", "I;16B"])
def test_images_of_every_mode_have_the_displayed_colours(tmp_path: Path, mode: str) -> None:
    """Test grey, palette, transparent and 16-bit images."""
    pixels = np.zeros((4, 4), np.uint8)
    pixels[:2] = 255
    if mode.startswith("I;16"):
        wide = pixels.astype(">u2" if mode.endswith("B") else "<u2") * 257
        image = Image.frombytes(mode, (4, 4), wide.tobytes())
    else:
        image = Image.fromarray(pixels).convert("RGB").convert("RGBA" if mode == "PA" else mode)
    suffix = {"CMYK": "tiff", "YCbCr": "jpg", "I;16B": "tiff"}.get(mode, "png")
    image.save(tmp_path / f"p.{suffix}")
    result = np.asarray(decode(tmp_path / f"p.{suffix}")).astype(int)
    assert result.shape == (4, 4, 3)
    np.testing.assert_allclose(result, np.repeat(pixels[..., None], 3, axis=2), atol=3)
    np.testing.assert_allclose(np.asarray(decode(tmp_path / f"p.{suffix}", 1)).astype(int), pixels, atol=3)


def test_transparent_pixels_are_blended_with_white(tmp_path: Path) -> None:
    pixels = np.zeros((2, 2, 4), np.uint8)
    pixels[0, 0] = [255, 0, 0, 255]
    pixels[1, 1] = [0, 0, 0, 128]
    result = np.asarray(decode(picture(tmp_path, pixels)))
    assert result[0, 0].tolist() == [255, 0, 0]
    assert result[0, 1].tolist() == [255, 255, 255]
    assert result[1, 1].tolist() == [127, 127, 127]


def test_a_photograph_is_rotated_upright(tmp_path: Path) -> None:
    pixels = np.zeros((4, 8), np.uint8)
    pixels[:, :4] = 255
    image = Image.fromarray(pixels)
    notes = Image.Exif()
    notes[0x0112] = 6  # the camera was rotated: left is up
    image.save(tmp_path / "p.png", exif=notes)
    result = np.asarray(decode(tmp_path / "p.png", 1))
    assert result.shape == (8, 4)
    assert (result[:4] == 255).all()
    assert (result[4:] == 0).all()


def claiming(width: int, height: int) -> bytes:
    """Return a PNG that claims a size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 64)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [8_200, 12_000, 60_000])
def test_an_image_with_a_huge_claimed_size_raises_an_error(tmp_path: Path, side: int) -> None:
    """The error has the file's name, and nothing is decoded."""
    (tmp_path / "bomb.png").write_bytes(claiming(side, side))
    with pytest.raises(ex.FileError, match=rf"bomb\.png.*(\n.*)*at most {MAX_PIXELS:,} pixels"):
        ex.load_image(tmp_path / "bomb.png")


def test_errors_of_broken_files_contain_their_name(tmp_path: Path) -> None:
    """Test other and truncated files, formats that would start another program, and unknown ranges of values."""
    whole = picture(tmp_path, noise(64, 64)).read_bytes()
    jpeg = picture(tmp_path, noise(64, 64), "p.jpg").read_bytes()
    cases = {
        "none.png": b"",
        "text.png": b"hello" * 50,
        "cut.png": whole[: len(whole) // 2],
        "cut.jpg": jpeg[: len(jpeg) // 2],
        "short.png": claiming(400, 400),
        "script.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n",
    }
    for name, data in cases.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ex.FileError, match=name):
            decode(tmp_path / name)
    with pytest.raises(ex.FileError, match=r"absent\.png: the image cannot be read: No such file"):
        decode(tmp_path / "absent.png")
    Image.fromarray(np.ones((4, 4), np.float32)).save(tmp_path / "float.tiff")
    with pytest.raises(ex.FileError, match="pixels of mode F"):
        decode(tmp_path / "float.tiff")
    Image.new("LAB", (4, 4)).save(tmp_path / "lab.tiff")
    with pytest.raises(ex.FileError, match="pixels of mode LAB"):
        decode(tmp_path / "lab.tiff")
    Image.fromarray(np.zeros((1, 4000), np.uint8)).save(tmp_path / "strip.png")
    with pytest.raises(ex.OperandError, match="64 times"):
        ex.load_image(tmp_path / "strip.png", 8)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_images_raise_one_kind_of_error(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    wholes = [
        picture(tmp_path, noise(16, 16), f"p.{extension}").read_bytes() for extension in ("png", "jpg", "gif", "tiff")
    ]
    for number in range(40):
        data = bytearray(wholes[number % len(wholes)])
        for _ in range(6):
            data[random.integers(len(data))] = random.integers(256)
        path = tmp_path / "damaged.png"
        path.write_bytes(data)
        with contextlib.suppress(ex.FileError):  # any other error fails the test
            assert decode(path).mode == "RGB"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"preset": "imagnet"}, "unknown preset 'imagnet'\n  rule: known: imagenet"),
        ({"layout": "NWHC"}, "unknown layout"),
        ({"resample": "linear"}, "unknown resample"),
        ({"channels": 4}, "an image of 4 channels"),
        ({"channels": 1}, "mean (0.485, 0.456, 0.406) for images of 1 channel"),
        ({"std": [0.0]}, "standard deviations must be above 0"),
        ({"mean": [float("nan")]}, "mean (nan,)"),
        ({"dtype": np.uint8}, "an image as uint8"),
        ({"preset": "none", "dtype": np.int8}, "an image as int8"),
        ({"crop": 0.0}, "crop must be in"),
        ({"size": 0}, "height 0"),
    ],
)
def test_invalid_arguments_raise_an_error_before_anything_is_read(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ex.ExplorerError) as caught:
        ex.load_image("absent.png", **changes)
    assert said in str(caught.value)
    with pytest.raises(ex.OperandError, match="0 images"):
        ex.load_image([])
