/* Reductions of rows of n numbers, written for float32; the functions for float64 are the same with other types.
 *
 * Sums have a fixed order, so they have the same bits in every run. A block is the sum of 32 interleaved lanes, and
 * blocks are added pairwise, so each number passes through at most 15 + log2(n / 256) additions, fewer than in NumPy's
 * pairwise summation. A sum starts from 0, like NumPy's. */
typedef f32 lanes_f32 __attribute__((vector_size(32)));
#define WIDTH_f32 ((int64_t)(sizeof(lanes_f32) / sizeof(f32)))
#define LANES_f32 (4 * WIDTH_f32)
#define BLOCK_f32 (8 * LANES_f32)

INLINE lanes_f32 load_f32(const f32 *x) { lanes_f32 v; memcpy(&v, x, sizeof v); return v; }

/* sum of the lanes of a vector */
INLINE f32 joined_f32(lanes_f32 v) {
    f32 x[WIDTH_f32];
    memcpy(x, &v, sizeof v);
    for (int64_t width = WIDTH_f32 / 2; width; width /= 2)
        for (int64_t k = 0; k < width; k++)
            x[k] += x[k + width];
    return x[0];
}

/* sums of the lanes of less than a block */
INLINE lanes_f32 rest_f32(const f32 *x, int64_t n) {
    int64_t i = 0;
    lanes_f32 a = {0}, b = {0}, c = {0}, d = {0};
    for (; i + LANES_f32 <= n; i += LANES_f32) {
        a += load_f32(x + i);
        b += load_f32(x + i + WIDTH_f32);
        c += load_f32(x + i + 2 * WIDTH_f32);
        d += load_f32(x + i + 3 * WIDTH_f32);
    }
    for (; i + WIDTH_f32 <= n; i += WIDTH_f32)
        a += load_f32(x + i);
    if (i < n) {
        lanes_f32 last = {0};
        memcpy(&last, x + i, (size_t)(n - i) * sizeof(f32));
        b += last;
    }
    return (lanes_f32){0} + ((a + b) + (c + d));
}

/* a sum of numbers that arrive in parts: sums of 1, 2, 4, ... blocks for the bits of their number, and of the rest */
typedef struct { lanes_f32 blocks[56], rest; int64_t count; } total_f32;

/* add n numbers to a total; n is a multiple of the block's size, except in the last part */
static void add_f32(total_f32 *total, const f32 *x, int64_t n) {
    int64_t i = 0;
    for (; i + BLOCK_f32 <= n; i += BLOCK_f32) {
        lanes_f32 a = load_f32(x + i), b = load_f32(x + i + WIDTH_f32);
        lanes_f32 c = load_f32(x + i + 2 * WIDTH_f32), d = load_f32(x + i + 3 * WIDTH_f32);
        for (int64_t j = i + LANES_f32; j < i + BLOCK_f32; j += LANES_f32) {
            a += load_f32(x + j);
            b += load_f32(x + j + WIDTH_f32);
            c += load_f32(x + j + 2 * WIDTH_f32);
            d += load_f32(x + j + 3 * WIDTH_f32);
        }
        lanes_f32 sum = (a + b) + (c + d);
        int64_t level = 0;
        for (int64_t count = total->count; count & 1; count >>= 1)
            sum = total->blocks[level++] + sum;
        total->blocks[level] = sum;
        total->count++;
    }
    total->rest += rest_f32(x + i, n - i);
}

/* the sum of all parts, the shortest first */
static f32 result_f32(const total_f32 *total) {
    lanes_f32 sum = total->rest;
    int64_t level = 0;
    for (int64_t count = total->count; count; count >>= 1, level++)
        if (count & 1)
            sum += total->blocks[level];
    return joined_f32(sum);
}

static f32 long_sum_f32(const f32 *x, int64_t n) {
    total_f32 total;
    total.rest = (lanes_f32){0};
    total.count = 0;
    add_f32(&total, x, n);
    return result_f32(&total);
}

/* the lengths of rows are constants, so the compiler chooses between functions for short and for long rows */
INLINE f32 sum_f32(const f32 *x, int64_t n) { return n < BLOCK_f32 ? joined_f32(rest_f32(x, n)) : long_sum_f32(x, n); }

INLINE void fill_f32(f32 *x, int64_t n, f32 value) { for (int64_t i = 0; i < n; i++) x[i] = value; }

/* the second number if it is larger or smaller, else the first, also if the second is NaN */
INLINE f32 larger_f32(f32 a, f32 b) { return b > a ? b : a; }
INLINE f32 smaller_f32(f32 a, f32 b) { return b < a ? b : a; }

/* an extremum of many numbers without NaN, or NaN if there is one and ``keeps_nan``; blocks of lanes, and the last one,
 * which overlaps the one before, are combined element by element */
INLINE f32 extreme_f32(const f32 *x, int64_t n, f32 first, f32 (*chosen)(f32, f32), int keeps_nan) {
    f32 lanes[LANES_f32], nan[LANES_f32];
    for (int64_t k = 0; k < LANES_f32; k++) {
        lanes[k] = x[n - LANES_f32 + k] == x[n - LANES_f32 + k] ? x[n - LANES_f32 + k] : first;
        nan[k] = x[n - LANES_f32 + k];
    }
    for (int64_t i = 0; i + LANES_f32 <= n; i += LANES_f32)
        for (int64_t k = 0; k < LANES_f32; k++) {
            lanes[k] = chosen(lanes[k], x[i + k]);
            nan[k] = x[i + k] == x[i + k] ? nan[k] : x[i + k];
        }
    for (int64_t width = LANES_f32 / 2; width; width /= 2)
        for (int64_t k = 0; k < width; k++) {
            lanes[k] = chosen(lanes[k], lanes[k + width]);
            nan[k] = nan[k] == nan[k] ? nan[k + width] : nan[k];
        }
    return keeps_nan && nan[0] != nan[0] ? nan[0] : lanes[0];
}

static f32 long_largest_f32(const f32 *x, int64_t n) { return extreme_f32(x, n, -INFINITY, larger_f32, 0); }
static f32 long_max_f32(const f32 *x, int64_t n) { return extreme_f32(x, n, -INFINITY, larger_f32, 1); }
static f32 long_min_f32(const f32 *x, int64_t n) { return extreme_f32(x, n, INFINITY, smaller_f32, 1); }

/* the largest number that is not NaN, or -infinity */
INLINE f32 largest_f32(const f32 *x, int64_t n) {
    if (n >= LANES_f32)
        return long_largest_f32(x, n);
    f32 largest = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        largest = larger_f32(largest, x[i]);
    return largest;
}

/* extrema, or NaN if a number is NaN */
INLINE f32 max_f32(const f32 *x, int64_t n) {
    if (n >= LANES_f32)
        return long_max_f32(x, n);
    f32 largest = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        largest = maximum_f32(largest, x[i]);
    return largest;
}

INLINE f32 min_f32(const f32 *x, int64_t n) {
    if (n >= LANES_f32)
        return long_min_f32(x, n);
    f32 least = INFINITY;
    for (int64_t i = 0; i < n; i++)
        least = minimum_f32(least, x[i]);
    return least;
}
