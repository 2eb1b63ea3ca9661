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
#else
#define CONTRACT
#define CONTRACTED __attribute__((optimize("fp-contract=fast")))
#endif

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
#endif

typedef f32 vector_f32 __attribute__((vector_size(VECTOR), aligned(sizeof(f32)), may_alias));
#define COLUMNS_f32 ((int64_t)(64 / sizeof(f32)))
#define VECTORS_f32(blocks) ((blocks) * (64 / VECTOR))

/* sums[r] = numbers[r] * matrix for ROWS rows, each of which consists of parts of `depth` numbers, `apart` from each other;
 * blocks of the matrix are `block` numbers from each other, and its rows `step` */
#define TILE_f32(blocks)                                                                                               \
    CONTRACTED static __attribute__((noinline)) void tile##blocks##_f32(                                               \
        f32 *sums, const f32 *const *numbers, int64_t parts, int64_t apart, int64_t depth, const f32 *matrix,          \
        int64_t block, int64_t step) {                                                                                 \
        CONTRACT                                                                                                       \
        vector_f32 sum[ROWS][VECTORS_f32(blocks)];                                                                     \
        const int64_t lanes = VECTOR / sizeof(f32);                                                                    \
        UNROLL(8) for (int r = 0; r < ROWS; r++)                                                                       \
            UNROLL(12) for (int v = 0; v < VECTORS_f32(blocks); v++) sum[r][v] = (vector_f32){0};                      \
        for (int64_t part = 0; part < parts; part++) {                                                                 \
            const f32 *row[ROWS];                                                                                      \
            UNROLL(8) for (int r = 0; r < ROWS; r++) row[r] = numbers[r] + part * apart;                               \
            for (int64_t k = 0; k < depth; k++, matrix += step) {                                                      \
                vector_f32 factor[VECTORS_f32(blocks)];                                                                \
                UNROLL(12) for (int v = 0; v < VECTORS_f32(blocks); v++)                                               \
                    factor[v] = *(const vector_f32 *)(matrix + v / VECTORS_f32(1) * block + v % VECTORS_f32(1) * lanes); \
                UNROLL(8) for (int r = 0; r < ROWS; r++)                                                               \
                    UNROLL(12) for (int v = 0; v < VECTORS_f32(blocks); v++) sum[r][v] += row[r][k] * factor[v];       \
            }                                                                                                          \
        }                                                                                                              \
        UNROLL(8) for (int r = 0; r < ROWS; r++)                                                                       \
            UNROLL(12) for (int v = 0; v < VECTORS_f32(blocks); v++)                                                   \
                *(vector_f32 *)(sums + r * WIDE * COLUMNS_f32 + v * lanes) = sum[r][v];                                \
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

INLINE void product_f32(f32 *sums, const f32 *const *numbers, int64_t parts, int64_t apart, int64_t depth,
                               const f32 *matrix, int64_t block, int64_t step, int64_t width) {
#if TILED > 1
    if (width == 3 * COLUMNS_f32)
        tile3_f32(sums, numbers, parts, apart, depth, matrix, block, step);
    else if (width == 2 * COLUMNS_f32)
        tile2_f32(sums, numbers, parts, apart, depth, matrix, block, step);
    else
        tile1_f32(sums, numbers, parts, apart, depth, matrix, block, step);
#else
    for (int64_t i = 0; i < width / COLUMNS_f32; i++)
        tile1_f32(sums + i * COLUMNS_f32, numbers, parts, apart, depth, matrix + i * block, block, step);
#endif
}

/* copy `rows` rows of an image from the row `top` on, with `left` zeros before each row, to rows of `padded` pixels;
 * neighbouring pixels are `pixel` numbers from each other, and channels `channel` */
INLINE void band_f32(f32 *band, const f32 *image, int64_t top, int64_t rows, int64_t height, int64_t width,
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
            for (int64_t i = 0; i < copied; i++)
                for (int64_t c = 0; c < channels; c++)
                    line[i * channels + c] = numbers[c * channel + i * pixel];
        memset(line + copied * channels, 0, (size_t)((padded - left - copied) * channels) * sizeof(f32));
    }
}
