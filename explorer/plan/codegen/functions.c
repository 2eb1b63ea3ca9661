/* Functions of generated kernels. They have no branches, so compilers vectorize loops that call them. Results differ by
 * at most 2 ulp from the exact value over the whole range, including subnormal numbers; NaN, infinities and signed
 * zeros are as in C's math library. tests/run/native/test_functions.py measures the errors. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

typedef float f32;
typedef double f64;

#define PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define VECTORIZE PRAGMA(clang loop vectorize(assume_safety))
#define UNROLL(count) PRAGMA(clang loop unroll(full))
#else
#define VECTORIZE PRAGMA(GCC ivdep)
#define UNROLL(count) PRAGMA(GCC unroll count)
#endif

/* a * b + c, with one rounding where the machine has an instruction for it; clang defines only the second and third */
#if defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define FUSED
#define MULADD(a, b, c) __builtin_fmaf(a, b, c)
#else
#define MULADD(a, b, c) ((a) * (b) + (c))
#endif

INLINE f32 muladd_f32(f32 a, f32 b, f32 c) { return MULADD(a, b, c); }
#ifdef FUSED
INLINE f64 muladd_f64(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
#else
INLINE f64 muladd_f64(f64 a, f64 b, f64 c) { return a * b + c; }
#endif

INLINE int32_t bits_of(f32 x) { int32_t bits; memcpy(&bits, &x, 4); return bits; }
INLINE f32 from_bits(int32_t bits) { f32 x; memcpy(&x, &bits, 4); return x; }

INLINE f32 abs_f32(f32 x) { return __builtin_fabsf(x); }
INLINE f64 abs_f64(f64 x) { return __builtin_fabs(x); }
INLINE f32 floor_f32(f32 x) { return __builtin_floorf(x); }
INLINE f64 floor_f64(f64 x) { return __builtin_floor(x); }
INLINE f32 ceil_f32(f32 x) { return __builtin_ceilf(x); }
INLINE f64 ceil_f64(f64 x) { return __builtin_ceil(x); }
INLINE f32 trunc_f32(f32 x) { return __builtin_truncf(x); }
INLINE f64 trunc_f64(f64 x) { return __builtin_trunc(x); }
INLINE f32 rint_f32(f32 x) { return __builtin_rintf(x); }
INLINE f64 rint_f64(f64 x) { return __builtin_rint(x); }
INLINE f32 sqrt_f32(f32 x) { return __builtin_sqrtf(x); }
INLINE f64 sqrt_f64(f64 x) { return __builtin_sqrt(x); }

/* comparisons with NaN are false, so NaN is selected if either operand is NaN */
INLINE f32 maximum_f32(f32 a, f32 b) { return a > b || a != a ? a : b; }
INLINE f64 maximum_f64(f64 a, f64 b) { return a > b || a != a ? a : b; }
INLINE f32 minimum_f32(f32 a, f32 b) { return a < b || a != a ? a : b; }
INLINE f64 minimum_f64(f64 a, f64 b) { return a < b || a != a ? a : b; }

/* the nearest finite number */
INLINE f32 finite_f32(f32 x) { return minimum_f32(maximum_f32(x, -0x1.fffffep+127f), 0x1.fffffep+127f); }
INLINE f64 finite_f64(f64 x) { return minimum_f64(maximum_f64(x, -0x1.fffffffffffffp+1023), 0x1.fffffffffffffp+1023); }

/* (e^r - 1 - r) / r^2 for |r| <= log(2) / 2 */
INLINE f32 exp_series(f32 r) {
    f32 p = 0.00138201378f;
    p = MULADD(p, r, 0.00836868584f);
    p = MULADD(p, r, 0.0416682735f);
    p = MULADD(p, r, 0.166665211f);
    return MULADD(p, r, 0.49999994f);
}

/* e^x = 2^n * e^r with |r| <= log(2) / 2, as 2^(n + shift) * e^r * scale with scale = 2^-shift and n + shift from -126 to
 * 127. Adding 1.5 * 2^23 rounds to an integer, which the low bits hold. */
INLINE f32 scaled_exp(f32 x, f32 shift, f32 scale) {
    f32 magic = 0x1.8p+23f + 127.0f + shift;
    f32 shifted = MULADD(x, 0x1.715476p+0f, magic);
    f32 n = shifted - magic;
    f32 r = MULADD(n, -0x1.62e4p-1f, x); /* log(2), in two parts */
    r = MULADD(n, -0x1.7f7d1cp-20f, r);
    f32 p = MULADD(exp_series(r), r * r, r) + 1.0f;
    return p * from_bits((int32_t)((uint32_t)bits_of(shifted) << 23)) * scale;
}

INLINE f32 exp_f32(f32 x) {
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    return scaled_exp(x, x > 0.0f ? -64.0f : 64.0f, x > 0.0f ? 0x1p+64f : 0x1p-64f);
}

/* exp of a number that is not positive */
INLINE f32 exp_negative(f32 x) { return scaled_exp(x < -104.0f ? -104.0f : x, 64.0f, 0x1p-64f); }

/* exp of a number that is not positive, or infinity */
INLINE f32 exp_nonpositive_f32(f32 x) {
    f32 y = exp_negative(x);
    return x > 0.0f ? INFINITY : y;
}

/* 2^n * (e^r - 1) + (2^n - 1), as twice its half, since 2^n can overflow */
INLINE f32 expm1_f32(f32 x) {
    f32 bounded = x > 89.0f ? 89.0f : x;
    bounded = bounded < -18.0f ? -18.0f : bounded; /* the result rounds to -1 */
    f32 shifted = MULADD(bounded, 0x1.715476p+0f, 0x1.8p+23f + 126.0f);
    f32 n = shifted - (0x1.8p+23f + 126.0f);
    f32 r = MULADD(n, -0x1.62e4p-1f, bounded);
    r = MULADD(n, -0x1.7f7d1cp-20f, r);
    f32 p = MULADD(exp_series(r), r * r, r);
    f32 half = from_bits((int32_t)((uint32_t)bits_of(shifted) << 23));
    return __builtin_copysignf(2.0f * MULADD(half, p, half - 0.5f), x);
}

/* log(2^e * (1 + f)) with 1 + f between sqrt(1/2) and sqrt(2); ``rest`` is added */
INLINE f32 log_plus(f32 x, f32 rest) {
    f32 scaled = x < 0x1p-126f ? x * 0x1p+23f : x; /* subnormal numbers have fewer bits */
    int32_t bits = bits_of(scaled);
    int32_t offset = (int32_t)((uint32_t)bits - 0x3f3504f3u); /* bits of sqrt(1/2) */
    int32_t exponent = offset >> 23;
    f32 f = from_bits((int32_t)((uint32_t)bits - ((uint32_t)exponent << 23))) - 1.0f;
    f32 e = (f32)(x < 0x1p-126f ? exponent - 23 : exponent);
    f32 p = -0.0899369866f;
    p = MULADD(p, f, 0.132762104f);
    p = MULADD(p, f, -0.128041193f);
    p = MULADD(p, f, 0.140721098f);
    p = MULADD(p, f, -0.166519672f);
    p = MULADD(p, f, 0.200109392f);
    p = MULADD(p, f, -0.250001132f);
    p = MULADD(p, f, 0.333331227f);
    f32 square = f * f;
    f32 small = MULADD(e, 0x1.7f7d1cp-20f, MULADD(square * f, p, rest));
    small = MULADD(square, -0.5f, small);
    f32 y = MULADD(e, 0x1.62e4p-1f, small + f);
    y = x == 0.0f ? -INFINITY : y;
    y = x < 0.0f ? NAN : y;
    return x > 0x1.fffffep+127f || x != x ? x : y;
}

INLINE f32 log_f32(f32 x) { return log_plus(x, 0.0f); }

/* log(sum) + rest / sum, where ``sum + rest`` is exactly 1 + x */
INLINE f32 log1p_f32(f32 x) {
    f32 sum = 1.0f + x, rest = x < 1.0f ? x - (sum - 1.0f) : 1.0f - (sum - x);
    f32 y = log_plus(sum, x > 0x1p+30f ? 0.0f : rest / sum);
    return __builtin_copysignf(y, x);
}

/* m / (m + 2) with m = e^(2|x|) - 1, which is 2^n * (e^r - 1) + (2^n - 1) */
INLINE f32 tanh_f32(f32 x) {
    f32 size = abs_f32(x);
    f32 twice = size > 10.0f ? 20.0f : 2.0f * size; /* tanh(10) rounds to 1 */
    f32 shifted = MULADD(twice, 0x1.715476p+0f, 0x1.8p+23f);
    f32 n = shifted - 0x1.8p+23f;
    f32 r = MULADD(n, -0x1.62e4p-1f, twice);
    r = MULADD(n, -0x1.7f7d1cp-20f, r);
    f32 p = MULADD(exp_series(r), r * r, r);
    f32 power = from_bits((int32_t)((uint32_t)bits_of(shifted) << 23) + 0x3f800000);
    f32 m = MULADD(power, p, power - 1.0f);
    f32 y = m / (m + 2.0f);
    y = m < 0.7f ? MULADD(0.5f * m, -y, 0.5f * m) : y; /* m / 2 - m / 2 * y is the same, with smaller rounding errors */
    return __builtin_copysignf(y, x);
}

INLINE f32 sigmoid_f32(f32 x) {
    f32 e = exp_negative(-abs_f32(x)); /* at most 1, so nothing overflows */
    f32 y = 1.0f / (1.0f + e);
    return x < 0.0f ? MULADD(-e, e * y, e) : y; /* e / (1 + e) is e - e * e / (1 + e), which is rounded less */
}

INLINE f32 erf_f32(f32 x) {
    f32 size = abs_f32(x), square = x * x;
    f32 p = 6.52477102e-05f;
    p = MULADD(p, square, -0.000756105117f);
    p = MULADD(p, square, 0.00513108401f);
    p = MULADD(p, square, -0.0268200189f);
    p = MULADD(p, square, 0.112826794f);
    p = MULADD(p, square, -0.376125365f);
    p = MULADD(p, square, 0.128379151f);
    f32 near = MULADD(p, x, x);
    f32 u = (size > 3.885f ? 3.885f : size) - 2.56f; /* from here on the result rounds to 1 */
    f32 q = -8.89444709e-06f;
    q = MULADD(q, u, 1.39362874e-05f);
    q = MULADD(q, u, 7.24323327e-05f);
    q = MULADD(q, u, -0.000235442581f);
    q = MULADD(q, u, 0.000148820298f);
    q = MULADD(q, u, 0.000668878201f);
    q = MULADD(q, u, -0.00255650072f);
    q = MULADD(q, u, 0.00513835996f);
    q = MULADD(q, u, -0.00693124812f);
    q = MULADD(q, u, 0.00649224827f);
    q = MULADD(q, u, -0.00411664136f);
    q = MULADD(q, u, 0.00160774565f);
    q = MULADD(q, u, 0.999705851f);
    return size > 1.2f ? __builtin_copysignf(q, x) : near;
}

INLINE uint64_t bits_of_f64(f64 x) { uint64_t bits; memcpy(&bits, &x, 8); return bits; }
INLINE f64 f64_from_bits(uint64_t bits) { f64 x; memcpy(&x, &bits, 8); return x; }

/* The functions for float64 are those for float32 with longer polynomials. They shift unsigned integers to the right, and
 * convert integers by adding them to the bits of 2^52, because processors without AVX-512 have no other vector
 * instructions for 64 bits. */

/* e^(r + rest) - 1 - r for |r| <= log(2) / 2, and a rounding error of r */
INLINE f64 exp_series_f64(f64 r, f64 rest) {
    f64 p = 2.0921589370829142e-09;
    p = muladd_f64(p, r, 2.510521838664829e-08);
    p = muladd_f64(p, r, 2.7557252912472866e-07);
    p = muladd_f64(p, r, 2.7557255396471e-06);
    p = muladd_f64(p, r, 2.480158734733946e-05);
    p = muladd_f64(p, r, 0.0001984126987482399);
    p = muladd_f64(p, r, 0.0013888888888874398);
    p = muladd_f64(p, r, 0.008333333333326134);
    p = muladd_f64(p, r, 0.041666666666666685);
    p = muladd_f64(p, r, 0.1666666666666667);
    p = muladd_f64(p, r, 0.5);
    return muladd_f64(p, r * r, rest);
}

INLINE f64 exp_f64(f64 x) {
    x = x > 710.0 ? 710.0 : x;
    x = x < -746.0 ? -746.0 : x;
    f64 shifted = x * 0x1.71547652b82fep+0 + 0x1.8p+52;
    f64 n = shifted - 0x1.8p+52;
    f64 high = muladd_f64(n, -0x1.62e42feep-1, x); /* log(2), in two parts */
    f64 r = muladd_f64(n, -0x1.a39ef35793c76p-33, high);
    f64 p = exp_series_f64(r, muladd_f64(n, -0x1.a39ef35793c76p-33, high - r)), sum = 1.0 + r;
    p = sum + ((1.0 - sum) + r + p);
    uint64_t exponent = bits_of_f64(shifted) - bits_of_f64(0x1.8p+52);
    uint64_t half = bits_of_f64(n * 0.5 + 0x1.8p+52) - bits_of_f64(0x1.8p+52);
    return p * f64_from_bits((half + 1023) << 52) * f64_from_bits((exponent - half + 1023) << 52);
}

INLINE f64 exp_nonpositive_f64(f64 x) {
    f64 bounded = x < -746.0 ? -746.0 : x;
    f64 shifted = muladd_f64(bounded, 0x1.71547652b82fep+0, 0x1.8p+52 + 1087.0); /* 1087 = 1023 + 64 */
    f64 n = shifted - (0x1.8p+52 + 1087.0);
    f64 r = muladd_f64(n, -0x1.62e42feep-1, bounded);
    r = muladd_f64(n, -0x1.a39ef35793c76p-33, r);
    f64 y = (exp_series_f64(r, r) + 1.0) * f64_from_bits(bits_of_f64(shifted) << 52) * 0x1p-64;
    return x > 0.0 ? INFINITY : y;
}

INLINE f64 expm1_f64(f64 x) {
    f64 bounded = x > 710.0 ? 710.0 : x;
    bounded = bounded < -40.0 ? -40.0 : bounded;
    f64 shifted = muladd_f64(bounded, 0x1.71547652b82fep+0, 0x1.8p+52 + 1022.0);
    f64 n = shifted - (0x1.8p+52 + 1022.0);
    f64 high = muladd_f64(n, -0x1.62e42feep-1, bounded);
    f64 r = muladd_f64(n, -0x1.a39ef35793c76p-33, high);
    f64 p = r + exp_series_f64(r, muladd_f64(n, -0x1.a39ef35793c76p-33, high - r));
    f64 half = f64_from_bits(bits_of_f64(shifted) << 52);
    return __builtin_copysign(2.0 * muladd_f64(half, p, half - 0.5), x);
}

/* log(2^e * (1 + f)) with log(1 + f) = 2 * atanh(s) and s = f / (2 + f); ``rest`` is added */
INLINE f64 log_plus_f64(f64 x, f64 rest) {
    f64 scaled = x < 0x1p-1022 ? x * 0x1p+54 : x;
    uint64_t offset = bits_of_f64(scaled) - bits_of_f64(0x1.6a09e667f3bcdp-1) + bits_of_f64(1.0);
    uint64_t exponent = offset >> 52; /* e + 1023 */
    f64 f = f64_from_bits((offset & 0xfffffffffffffu) + bits_of_f64(0x1.6a09e667f3bcdp-1)) - 1.0;
    f64 e = f64_from_bits(exponent | bits_of_f64(0x1p+52)) - (0x1p+52 + 1023.0);
    e = x < 0x1p-1022 ? e - 54.0 : e;
    f64 s = f / (2.0 + f), square = s * s;
    f64 p = 0.14618008831373527;
    p = muladd_f64(p, square, 0.15331585960092398);
    p = muladd_f64(p, square, 0.1818289354886713);
    p = muladd_f64(p, square, 0.22222211068328085);
    p = muladd_f64(p, square, 0.285714286264267);
    p = muladd_f64(p, square, 0.39999999999898384);
    p = muladd_f64(p, square, 0.666666666666667);
    f64 half = 0.5 * f * f;
    f64 small = muladd_f64(s, muladd_f64(p, square, half), muladd_f64(e, 0x1.a39ef35793c76p-33, rest));
    f64 y = muladd_f64(e, 0x1.62e42feep-1, f - (half - small));
    y = x == 0.0 ? -INFINITY : y;
    y = x < 0.0 ? NAN : y;
    return x > 0x1.fffffffffffffp+1023 || x != x ? x : y;
}

INLINE f64 log_f64(f64 x) { return log_plus_f64(x, 0.0); }

INLINE f64 log1p_f64(f64 x) {
    f64 sum = 1.0 + x, rest = x < 1.0 ? x - (sum - 1.0) : 1.0 - (sum - x);
    f64 y = log_plus_f64(sum, x > 0x1p+60 ? 0.0 : rest / sum);
    return __builtin_copysign(y, x);
}

INLINE f64 tanh_f64(f64 x) {
    f64 size = abs_f64(x);
    f64 twice = size > 20.0 ? 40.0 : 2.0 * size; /* tanh(20) rounds to 1 */
    f64 shifted = muladd_f64(twice, 0x1.71547652b82fep+0, 0x1.8p+52 + 1023.0);
    f64 n = shifted - (0x1.8p+52 + 1023.0);
    f64 high = muladd_f64(n, -0x1.62e42feep-1, twice);
    f64 r = muladd_f64(n, -0x1.a39ef35793c76p-33, high);
    f64 series = exp_series_f64(r, muladd_f64(n, -0x1.a39ef35793c76p-33, high - r));
    f64 p = r + series, power = f64_from_bits(bits_of_f64(shifted) << 52);
    f64 m = muladd_f64(power, p, power - 1.0);
    f64 rest = muladd_f64(power, p, (power - 1.0) - m) + power * (series - (p - r)); /* rounding errors of m and p */
    f64 y = m / (m + 2.0), half = 0.5 * m, slope = 0.5 * (1.0 - y) * (1.0 - y);
    y = m < 0.7 ? muladd_f64(rest, slope, muladd_f64(-y, half, half)) : y;
    return __builtin_copysign(x != x ? x : y, x);
}

INLINE f64 sigmoid_f64(f64 x) {
    f64 e = exp_f64(-abs_f64(x)), sum = 1.0 + e, inverse = 1.0 / sum;
    f64 part = x < 0.0 ? e : 1.0;
#ifdef FUSED
    f64 y = part * inverse, rest = muladd_f64(-y, sum, part); /* rounding error of the quotient */
#else
    f64 y = part / sum, rest = 0.0;
#endif
    rest = rest - y * (e - (sum - 1.0)); /* and of the sum */
    return muladd_f64(rest, inverse, y);
}

INLINE f64 erf_f64(f64 x) {
    f64 size = abs_f64(x), square = x * x;
    f64 p = 1.027007069973812e-08;
    p = muladd_f64(p, square, -1.5549644869917407e-07);
    p = muladd_f64(p, square, 1.637637766730464e-06);
    p = muladd_f64(p, square, -1.4919983523887308e-05);
    p = muladd_f64(p, square, 0.00012055090793077843);
    p = muladd_f64(p, square, -0.0008548320352009543);
    p = muladd_f64(p, square, 0.005223977510627877);
    p = muladd_f64(p, square, -0.026866170633589235);
    p = muladd_f64(p, square, 0.11283791670895575);
    p = muladd_f64(p, square, -0.37612638903182555);
    p = muladd_f64(p, square, 0.12837916709551253);
    f64 near = muladd_f64(p, size, size);
    f64 t = size > 6.0 ? 6.0 : size, u = t - 3.0; /* -log(1 - erf(t)) is t * q(t - 3) */
    f64 q = -1.7606903007777277e-12;
    q = muladd_f64(q, u, -1.2821799297940337e-11);
    q = muladd_f64(q, u, -3.672797878807742e-11);
    q = muladd_f64(q, u, -4.5284449309905026e-11);
    q = muladd_f64(q, u, 1.858634733084476e-10);
    q = muladd_f64(q, u, -1.227052668674989e-10);
    q = muladd_f64(q, u, 2.1760059130881717e-09);
    q = muladd_f64(q, u, -6.642733314205456e-09);
    q = muladd_f64(q, u, 7.115527151909258e-09);
    q = muladd_f64(q, u, 1.125884005547109e-07);
    q = muladd_f64(q, u, -1.4080463986526432e-06);
    q = muladd_f64(q, u, 1.1340464062769027e-05);
    q = muladd_f64(q, u, -7.710213244063032e-05);
    q = muladd_f64(q, u, 0.0004769988164672098);
    q = muladd_f64(q, u, -0.002784307011618924);
    q = muladd_f64(q, u, 0.015764812743510163);
    q = muladd_f64(q, u, 0.9100997805592591);
    q = muladd_f64(q, u, 3.5734543473271323);
    f64 far = 1.0 - exp_f64(-q * t);
    far = x != x ? x : far;
    return __builtin_copysign(size < 0.9 ? near : far, x);
}
