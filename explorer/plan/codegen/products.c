/* Products of rows of numbers and a matrix, written for float32; the functions for float64 are the same with other types.
 *
 * The columns of the matrix are divided into blocks of 64 bytes. The sums of a tile, which is ROWS rows and up to WIDE
 * blocks, stay in vector registers. Each sum is added in the order of the numbers, so its bits depend neither on the
 * size of the tile nor on the number of threads. */
#ifndef ROWS
#define WIDE 3
#if defined(__AVX512F__)
#define VECTOR 64 /* bytes */
#define ROWS 8
#define TILED WIDE /* blocks whose sums fit into the registers */
#elif defined(__AVX__)
#define VECTOR 32
#define ROWS 6
#define TILED 1
#else
#define VECTOR 16
#define ROWS 6
#define TILED 1
#endif
/* fused multiply-add for a * b + c of vectors, which the compiler's option forbids elsewhere */
#if defined(__clang__)
#define CONTRACT PRAGMA(clang fp contract(fast))
#define CONTRACTED
#define ONCE static __attribute__((noinline)) /* compiled once, not for each kernel */
#else
#define CONTRACT
#define CONTRACTED __attribute__((optimize("fp-contract=fast")))
#define ONCE static __attribute__((noinline, noclone))
#endif

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
#endif

typedef f32 vector_f32 __attribute__((vector_size(VECTOR), aligned(sizeof(f32)), may_alias));
#define COLUMNS_f32 ((int64_t)(64 / sizeof(f32)))
#define VECTORS_f32(blocks) ((blocks) * (64 / VECTOR))

/* sums[r] = numbers[r] * matrix for ROWS rows, each of which consists of parts of `depth` numbers, `apart` from each other,
 * which are `stride` from each other; rows of sums are `line` numbers from each other, blocks of the matrix `block`, and
 * its rows `step`. The rows for a part begin at its offset, or after the part before. The row `ahead` is fetched. */
#define TILE_f32(blocks)                                                                                               \
    CONTRACTED ONCE void tile##blocks##_f32(                                                                           \
        f32 *sums, int64_t line, const f32 *const *numbers, int64_t parts, int64_t apart, int64_t depth,               \
        int64_t stride, const f32 *matrix, const int64_t *offsets, int64_t block, int64_t step, int64_t ahead) {        \
        CONTRACT                                                                                                       \
        vector_f32 sum[ROWS][VECTORS_f32(blocks)];                                                                     \
        const int64_t lanes = VECTOR / sizeof(f32);                                                                    \
        UNROLL(8) for (int r = 0; r < ROWS; r++)                                                                       \
            UNROLL(12) for (int v = 0; v < VECTORS_f32(blocks); v++) sum[r][v] = (vector_f32){0};                      \
        for (int64_t part = 0; part < parts; part++) {                                                                 \
            const f32 *row[ROWS], *factors = matrix + (offsets ? offsets[part] : part * depth * step);                   \
            UNROLL(8) for (int r = 0; r < ROWS; r++) row[r] = numbers[r] + part * apart;                               \
            for (int64_t k = 0; k < depth * stride; k += stride, factors += step) {                                    \
                __builtin_prefetch(factors + ahead, 0, 2);                                                             \
                vector_f32 factor[VECTORS_f32(blocks)];                                                                \
                UNROLL(12) for (int v = 0; v < VECTORS_f32(blocks); v++)                                               \
                    factor[v] = *(const vector_f32 *)(factors + v / VECTORS_f32(1) * block + v % VECTORS_f32(1) * lanes); \
                UNROLL(8) for (int r = 0; r < ROWS; r++)                                                               \
                    UNROLL(12) for (int v = 0; v < VECTORS_f32(blocks); v++) sum[r][v] += row[r][k] * factor[v];       \
            }                                                                                                          \
        }                                                                                                              \
        UNROLL(8) for (int r = 0; r < ROWS; r++)                                                                       \
            UNROLL(12) for (int v = 0; v < VECTORS_f32(blocks); v++)                                                   \
                *(vector_f32 *)(sums + r * line + v * lanes) = sum[r][v];                                              \
    }
TILE_f32(1)
#if TILED > 1
TILE_f32(2)
TILE_f32(3)
#endif

/* number of columns of the next tile, if `left` columns are left: four blocks are two tiles of two */
INLINE int64_t width_f32(int64_t left) {
    int64_t blocks = (left + COLUMNS_f32 - 1) / COLUMNS_f32;
    return (blocks == 4 ? 2 : least(blocks, WIDE)) * COLUMNS_f32;
}

/* sums of a tile of `width` columns */
INLINE void tile_f32(f32 *sums, int64_t line, const f32 *const *numbers, int64_t parts, int64_t apart, int64_t depth,
                     int64_t stride, const f32 *matrix, const int64_t *offsets, int64_t block, int64_t step, int64_t width,
                     int64_t ahead) {
#if TILED > 1
    if (width == 3 * COLUMNS_f32)
        tile3_f32(sums, line, numbers, parts, apart, depth, stride, matrix, offsets, block, step, ahead);
    else if (width == 2 * COLUMNS_f32)
        tile2_f32(sums, line, numbers, parts, apart, depth, stride, matrix, offsets, block, step, ahead);
    else
        tile1_f32(sums, line, numbers, parts, apart, depth, stride, matrix, offsets, block, step, ahead);
#else
    for (int64_t i = 0; i < width / COLUMNS_f32; i++)
        tile1_f32(sums + i * COLUMNS_f32, line, numbers, parts, apart, depth, stride, matrix + i * block, offsets, block,
                  step, ahead);
#endif
}

/* sums of ROWS rows and `width` columns; the tiles of the first rows fetch the next columns of the matrix from memory */
ONCE void product_f32(f32 *sums, const f32 *const *numbers, int64_t parts, int64_t apart, int64_t depth,
                      int64_t stride, const f32 *matrix, int64_t block, int64_t step, int64_t width, int64_t tile) {
    const int64_t ahead = tile < WIDE * ROWS ? (width / COLUMNS_f32 + tile / ROWS) * block : 0;
    tile_f32(sums, WIDE * COLUMNS_f32, numbers, parts, apart, depth, stride, matrix, 0, block, step, width, ahead);
}

/* sums of ROWS filters for `length` adjacent windows of a band, whose pixels are stored channel by channel, `plane` numbers
 * from each other; `offsets` are the offsets of a window's pixels */
ONCE void filters_f32(f32 *sums, int64_t length, const f32 *const *numbers, const f32 *band, int64_t pixels,
                      const int64_t *offsets, int64_t channels, int64_t plane) {
    for (int64_t column = 0, width; column < length; column += width) {
        width = width_f32(length - column);
        tile_f32(sums + column, length, numbers, pixels, channels, channels, 1, band + column, offsets, COLUMNS_f32,
                 plane, width, 0);
    }
}

/* copy of a matrix in blocks of columns, the last of which is filled with zeros; its rows are `down` numbers from each
 * other, and its columns `right` */
ONCE void blocks_f32(f32 *blocks, const f32 *matrix, int64_t rows, int64_t columns, int64_t down, int64_t right) {
    for (int64_t column = 0; column < columns; column += COLUMNS_f32)
        for (int64_t row = 0; row < rows; row++, blocks += COLUMNS_f32) {
            const f32 *numbers = matrix + row * down + column * right;
            if (right == 1 && column + COLUMNS_f32 <= columns)
                memcpy(blocks, numbers, 64);
            else
                for (int64_t i = 0; i < COLUMNS_f32; i++)
                    blocks[i] = column + i < columns ? numbers[i * right] : 0;
        }
}

/* addresses of ROWS windows from `row` on, or of the last one before `end`; `across` windows are `right` numbers from each
 * other, and the next ones `down` from them */
ONCE void windows_f32(const f32 **numbers, const f32 *source, int64_t row, int64_t end, int64_t across, int64_t down,
                      int64_t right) {
    const f32 *line = source + row / across * down;
    int64_t column = row % across;
    for (int64_t i = 0; i < ROWS; i++) {
        numbers[i] = line + column * right;
        if (row + i + 1 < end && ++column == across)
            column = 0, line += down;
    }
}

/* copy `rows` rows of an image from the row `top` on, with `left` zeros before each row, to rows of `padded` pixels;
 * neighbouring pixels are `pixel` numbers from each other, and channels `channel` */
ONCE void band_f32(f32 *band, const f32 *image, int64_t top, int64_t rows, int64_t height, int64_t width,
                            int64_t channels, int64_t left, int64_t padded, int64_t pixel, int64_t channel) {
    const int64_t copied = least(width, padded - left);
    for (int64_t row = 0; row < rows; row++) {
        f32 *line = band + row * padded * channels;
        const f32 *numbers = image + (top + row) * width * pixel;
        if (top + row < 0 || top + row >= height || copied <= 0) {
            memset(line, 0, (size_t)(padded * channels) * sizeof(f32));
            continue;
        }
        memset(line, 0, (size_t)(left * channels) * sizeof(f32));
        line += left * channels;
        if (channel == 1)
            memcpy(line, numbers, (size_t)(copied * channels) * sizeof(f32));
        else
            for (int64_t c = 0; c < channels; c++)
                for (int64_t i = 0; i < copied; i++)
                    line[i * channels + c] = numbers[c * channel + i * pixel];
        memset(line + copied * channels, 0, (size_t)((padded - left - copied) * channels) * sizeof(f32));
    }
}

/* copy the pixels under a band of windows, channel by channel, with zeros outside the image: `lines` rows of `columns`
 * pixels from the row `top` and the column -`left` on. Windows are `down` rows and `across` columns of pixels from each
 * other. Rows with the same remainder are together, and so are columns, so that adjacent windows read adjacent numbers. */
ONCE void planes_f32(f32 *band, const f32 *image, int64_t top, int64_t left, int64_t height, int64_t width,
                     int64_t channels, int64_t plane, int64_t down, int64_t phase_rows, int64_t lines, int64_t across,
                     int64_t phase_columns, int64_t columns, int64_t pixel, int64_t channel) {
    for (int64_t c = 0; c < channels; c++) {
        f32 *to = band + c * plane, *end = to + plane;
        for (int64_t phase = 0; phase < phase_rows * phase_columns; phase++) {
            const int64_t phase_row = phase / phase_columns, start = left - phase % phase_columns;
            const int64_t first = least(start > 0 ? (start + across - 1) / across : 0, columns);
            const int64_t last = least((start + width + across - 1) / across, columns);
            for (int64_t line = 0; line < lines; line++, to += columns) {
                const int64_t row = top + line * down + phase_row;
                if (row < 0 || row >= height || last <= first) {
                    memset(to, 0, (size_t)columns * sizeof(f32));
                    continue;
                }
                const f32 *numbers = image + c * channel + (row * width + first * across - start) * pixel;
                const int64_t step = across * pixel;
                memset(to, 0, (size_t)first * sizeof(f32));
                if (step == 1)
                    memcpy(to + first, numbers, (size_t)(last - first) * sizeof(f32));
                else
                    for (int64_t i = 0; i < last - first; i++)
                        to[first + i] = numbers[i * step];
                memset(to + last, 0, (size_t)(columns - last) * sizeof(f32));
            }
        }
        memset(to, 0, (size_t)(end - to) * sizeof(f32));
    }
    memset(band + channels * plane, 0, 64);
}

/* Winograd's method for 3x3 filters: 4x4 pixels of a tile become 16 numbers for each channel, their products with the
 * transformed filters are added over the channels, and the 16 sums become 2x2 results for each filter. Arrays of numbers
 * and products have an outermost axis of 16, and then `most` tiles. */
ONCE void winograd_pixels_f32(f32 *numbers, const f32 *band, int64_t tile, int64_t count, int64_t most, int64_t across,
                                int64_t padded, int64_t channels) {
    const int64_t apart = most * channels;
    for (int64_t i = 0; i < count; i++) {
        const f32 *pixel = band + ((tile + i) / across * padded + (tile + i) % across) * 2 * channels;
        f32 *to = numbers + i * channels;
        VECTORIZE
        for (int64_t c = 0; c < channels; c++) {
            f32 d[4][4];
            UNROLL(4) for (int k = 0; k < 4; k++) {
                f32 a[4];
                UNROLL(4) for (int r = 0; r < 4; r++) a[r] = pixel[(r * padded + k) * channels + c];
                d[0][k] = a[0] - a[2], d[1][k] = a[1] + a[2], d[2][k] = a[2] - a[1], d[3][k] = a[1] - a[3];
            }
            UNROLL(4) for (int r = 0; r < 4; r++) {
                to[(4 * r + 0) * apart + c] = d[r][0] - d[r][2];
                to[(4 * r + 1) * apart + c] = d[r][1] + d[r][2];
                to[(4 * r + 2) * apart + c] = d[r][2] - d[r][1];
                to[(4 * r + 3) * apart + c] = d[r][1] - d[r][3];
            }
        }
    }
}

/* products for the columns from `left` to `right`; rows of the products have `most` tiles of `group` columns */
ONCE void winograd_products_f32(f32 *products, const f32 *numbers, const f32 *filters, int64_t count, int64_t most,
                                int64_t channels, int64_t columns, int64_t left, int64_t right, int64_t group) {
    const int64_t block = channels * COLUMNS_f32, blocks = (columns + COLUMNS_f32 - 1) / COLUMNS_f32;
    f32 sums[ROWS * WIDE * COLUMNS_f32];
    for (int64_t part = 0; part < 16; part++)
        for (int64_t column = left, width; column < right; column += width) {
            width = width_f32(right - column);
            const f32 *matrix = filters + (part * blocks + column / COLUMNS_f32) * block;
            for (int64_t tile = 0; tile < count; tile += ROWS) {
                const f32 *rows[ROWS];
                windows_f32(rows, numbers + part * most * channels, tile, count, count, 0, channels);
                product_f32(sums, rows, 1, 0, channels, 1, matrix, block, COLUMNS_f32, width, tile);
                for (int64_t i = 0; i < least(ROWS, count - tile); i++)
                    memcpy(products + (part * most + tile + i) * group + column - left, sums + i * WIDE * COLUMNS_f32,
                           (size_t)least(width, right - column) * sizeof(f32));
            }
        }
}

/* sums[r * 2 + k] of row r and column k of a tile's results, for all columns */
ONCE void winograd_sums_f32(f32 *sums, const f32 *products, int64_t most, int64_t columns) {
    const int64_t apart = most * columns;
    VECTORIZE
    for (int64_t c = 0; c < columns; c++) {
        f32 d[2][4];
        UNROLL(4) for (int k = 0; k < 4; k++) {
            f32 a[4];
            UNROLL(4) for (int r = 0; r < 4; r++) a[r] = products[(4 * r + k) * apart + c];
            d[0][k] = a[0] + a[1] + a[2], d[1][k] = a[1] - a[2] - a[3];
        }
        UNROLL(2) for (int r = 0; r < 2; r++) {
            sums[(2 * r + 0) * columns + c] = d[r][0] + d[r][1] + d[r][2];
            sums[(2 * r + 1) * columns + c] = d[r][1] - d[r][2] - d[r][3];
        }
    }
}
