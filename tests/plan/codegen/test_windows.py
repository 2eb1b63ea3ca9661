"""C code of convolutions and poolings: the loop nest, and one line per operation."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex
from tests.support.kernel_codes import codes, declined


def ones(*shape: int) -> ex.Expr:
    return ex.tensor(np.ones(shape, np.float32))


def stored_by_pixel(y: ex.Expr) -> ex.Expr:
    """Return a result for which the images ``y`` are stored pixel by pixel, because they are not requested."""
    return -ex.transpose(y, (0, 2, 3, 1))


@pytest.mark.spec("K-1")
def test_a_depthwise_convolution_loops_over_channels() -> None:
    images = ex.conv2d(ones(1, 3, 40, 40), ones(16, 3, 3, 3), padding=1)
    y = ex.relu(ex.conv2d(images, ones(16, 1, 3, 3), strides=2, padding=1, groups=16) + ones(16, 1, 1))
    _, code = codes(stored_by_pixel(y))
    assert (
        code.text
        == """\
/* conv2d with 3×3 windows and 2 operations on 1×16×20×20 elements */
void compute_conv2d_add_relu(void *const *arrays, int64_t start, int64_t stop) {
    const f32 *conv2d = arrays[0];
    const f32 *tensor = arrays[1];
    const f32 *tensor_2 = arrays[2];
    f32 *relu = arrays[3];
    static const f32 outside[16];
    for (int64_t row = start; row < stop; row++) {
        const f32 *image = conv2d;
        for (int64_t column = 0; column < 20; column++) {
            const f32 *pixel[3 * 3];
            for (int64_t tap_row = 0; tap_row < 3; tap_row++) {
                const int64_t pixel_row = row * 2 + tap_row - 1;
                for (int64_t tap_column = 0; tap_column < 3; tap_column++) {
                    const int64_t pixel_column = column * 2 + tap_column - 1;
                    const int inside = pixel_row >= 0 && pixel_row < 40 && pixel_column >= 0 && pixel_column < 40;
                    pixel[tap_row * 3 + tap_column] = inside ? image + pixel_row * 640 + pixel_column * 16 : outside;
                }
            }
            const int64_t first = (row * 20 + column) * 16;
            VECTORIZE
            for (int64_t i = 0; i < 16; i++) {
                f32 conv2d_2 = 0;
                UNROLL(9)
                for (int64_t tap = 0; tap < 9; tap++) {
                    conv2d_2 = muladd_f32(pixel[tap][i], tensor[tap * 16 + i], conv2d_2);
                }
                f32 add = conv2d_2 + tensor_2[i];
                relu[first + i] = add < 0 ? 0 : add;
            }
        }
    }
}
"""
    )


@pytest.mark.spec("K-1")
def test_windows_with_strides_read_adjacent_pixels_of_a_phase() -> None:
    filters = ones(32, 1, 3, 3)
    y = ex.relu(ex.conv2d(ones(1, 32, 56, 56), filters, strides=2, padding=1, groups=32))
    (code,) = codes(y)
    assert (
        code.text
        == """\
/* conv2d with 3×3 windows and 1 operation on 1×32×28×28 elements */
void compute_conv2d_relu(void *const *arrays, int64_t start, int64_t stop) {
    const f32 *tensor = arrays[0];
    const f32 *tensor_2 = arrays[1];
    f32 *relu = arrays[2];
    static const f32 outside[56];
    f32 pixels[2][2][29][29];
    fill_f32((f32 *)pixels, 3364, 0);
    for (int64_t plane = start; plane < stop; plane++) {
        const f32 *image = tensor + plane * (56 * 56);
        const f32 *weights = tensor_2 + plane * (3 * 3);
        for (int64_t phase_row = 0; phase_row < 2; phase_row++) {
            for (int64_t line = 0; line < 29; line++) {
                const int64_t pixel_row = line * 2 + phase_row - 1;
                const int inside = pixel_row >= 0 && pixel_row < 56;
                const f32 *pixel = inside ? image + pixel_row * 56 : outside;
                UNROLL(2)
                for (int64_t phase_column = 0; phase_column < 2; phase_column++) {
                    for (int64_t column = (2 - phase_column) / 2; column < (58 - phase_column) / 2; column++) {
                        pixels[phase_row][phase_column][line][column] = pixel[column * 2 + phase_column - 1];
                    }
                }
            }
        }
        for (int64_t row = 0; row < 28; row++) {
            const int64_t first = (plane * 28 + row) * 28;
            VECTORIZE
            for (int64_t i = 0; i < 28; i++) {
                f32 conv2d = 0;
                UNROLL(3)
                for (int64_t tap_row = 0; tap_row < 3; tap_row++) {
                    UNROLL(3)
                    for (int64_t tap_column = 0; tap_column < 3; tap_column++) {
                        f32 number = pixels[tap_row % 2][tap_column % 2][row + tap_row / 2][i + tap_column / 2];
                        conv2d = muladd_f32(number, weights[tap_row * 3 + tap_column], conv2d);
                    }
                }
                relu[first + i] = conv2d < 0 ? 0 : conv2d;
            }
        }
    }
}
"""
    )


@pytest.mark.spec("K-1")
def test_windows_of_large_images_are_computed_in_bands_of_rows() -> None:
    (code,) = codes(ex.relu(ex.conv2d(ones(1, 32, 112, 112), ones(32, 1, 3, 3), strides=2, padding=1, groups=32)))
    assert "const int64_t plane = band / 4, top = band % 4 * 14;" in code.text
    assert "for (int64_t row = top; row < top + 14; row++) {" in code.text
    assert (code.length, code.row) == (32 * 4, 14 * 56)


@pytest.mark.spec("K-1")
def test_all_operations_have_a_line() -> None:
    (code,) = codes(ex.relu(ex.max_pool2d(ones(2, 4, 60, 60), 3, 2, 1)) * 2)
    lines = code.text.splitlines()
    assert [lines[line - 1].strip() for line, _ in code.lines] == [
        "largest = number >= largest ? number : largest;",
        "f32 max_pool2d = is_nan ? NAN : largest;",
        "f32 relu = max_pool2d < 0 ? 0 : max_pool2d;",
        "multiply[first + i] = relu * 2.0f;",
    ]


@pytest.mark.spec("K-3")
def test_operations_on_windows_without_code_are_declined_with_the_reason() -> None:
    x = ones(1, 8, 40, 40)
    assert declined(ex.conv2d(x, ones(8, 1, 9, 9), groups=8)) == ["large_window"]
    assert declined(ex.max_pool2d(ones(1, 1, 4, 40000), 2)) == ["long_run"]
    assert declined(ex.max_pool2d(ex.conv2d(ones(1, 3, 80, 80), ones(32, 3, 3, 3)), 2)) == ["memory_order"]
    assert declined(ex.max_pool2d(ex.tensor(np.ones((1, 8, 99, 99), np.float16)), 2)) == ["dtype"]
