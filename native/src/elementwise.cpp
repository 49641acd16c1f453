// Kernels over one row: norm, encoding of activations, and the softmax's weights.
#include "kernels.h"
#include "simd.h"

namespace twinfer {
namespace TW_ISA {

void rms_norm(const float* x, const float* weight, float eps, long n, float* out) {
    Float squares = splat(0);
    long i = 0;
    for (; i + 16 <= n; i += 16) squares = fma(load(x + i), load(x + i), squares);
    Mask tail = first(n - i);
    if (i < n) squares = fma(load(x + i, tail), load(x + i, tail), squares);
    float scale = 1.0f / __builtin_sqrtf(sum(squares) / (float)n + eps);
    for (i = 0; i + 16 <= n; i += 16) store(out + i, mul(mul(load(x + i), splat(scale)), load(weight + i)));
    if (i < n) store(out + i, mul(mul(load(x + i, tail), splat(scale)), load(weight + i, tail)), tail);
}

// The largest magnitudes of groups of 64 into their `scale`, groups lying `apart`; returns the row's.
static float largest_of_groups(const float* x, long k, long count, CodeGroup* groups, long apart) {
    float all = 0;
    for (long g = 0; g < count; g++) {
        Float a = max(abs(take(x, g * 64, k)), abs(take(x, g * 64 + 16, k)));
        Float b = max(abs(take(x, g * 64 + 32, k)), abs(take(x, g * 64 + 48, k)));
        const float most = largest(max(a, b));
        groups[g * apart].scale = most;
        all = most > all ? most : all;
    }
    return all;
}

// The codes of a block of 32; returns their sum.
TW_INLINE int32_t encode_block(const float* x, long i, long k, Float inverse, int8_t* codes) {
    Int first = round_to_int(mul(take(x, i, k), inverse));
    Int second = round_to_int(mul(take(x, i + 16, k), inverse));
    store_i8(codes, first);
    store_i8(codes + 16, second);
    return isum(iadd(first, second));
}

// 8-bit codes with a scale per group of 64: outliers spoil their own group only. No group's scale is less
// than 2^-20 of the largest, so that their ratios stay finite.
static void encode_codes(Format format, const float* x, long k, const Activations& out, long row) {
    const long count = out.stride / 64;
    const bool four_bit = format == Format::int4;
    int8_t* codes = out.codes + row * 64;
    CodeGroup* groups = out.groups + row;
    const float all = largest_of_groups(x, k, count, groups, out.rows);
    const bool zero = !(all > 1e-30f);
    const float least = all * 0x1p-20f;
    float before = 0;
    for (long g = 0; g < count; g++, codes += out.rows * 64, groups += out.rows) {
        const float most = zero ? 127.0f : groups->scale > least ? groups->scale : least;
        const Float inverse = splat(zero ? 0.0f : 127.0f / most);
        const int32_t even = encode_block(x, g * 64, k, inverse, codes);
        const int32_t odd = encode_block(x, g * 64 + 32, k, inverse, codes + 32);
        const float scale = most / 127.0f;
        *groups = {scale,
                   before / scale,
                   {(float)even, (float)odd},
                   (int32_t)((uint32_t)odd << 16 | (uint32_t)(even & 0xffff)),
                   {four_bit ? -8 * even + 0x8000 : -128 * even, (four_bit ? -8 : -128) * odd},
                   0};
        before = scale;
    }
}

void encode(Format format, const float* x, long k, const Activations& out, long row) {
    if (format == Format::f32) {
        for (long i = 0; i < out.stride; i += 16) store(out.f32 + row * out.stride + i, take(x, i, k));
    } else if (format == Format::bf16) {
        for (long i = 0; i < out.stride; i += 16) store_bf16(out.bf16 + row * out.stride + i, take(x, i, k));
    } else {
        encode_codes(format, x, k, out, row);
    }
}

long argmax(const float* x, long n) {
    Float most = splat(-3e38f);
    for (long i = 0; i + 16 <= n; i += 16) most = max(most, load(x + i));
    float best = largest(most);
    for (long i = n / 16 * 16; i < n; i++) best = x[i] > best ? x[i] : best;
    for (long i = 0; i < n; i++)
        if (x[i] == best) return i;
    return 0;
}

void weights(const float* x, long n, float most, float inverse_temperature, float least, float* out,
             float* sums) {
    for (long block = 0; block < n; block += kSumBlock) {
        const long end = n - block < kSumBlock ? n : block + kSumBlock;
        Float total = splat(0);
        for (long i = block; i < end; i += 16) {
            Float y = exp(mul(sub(take(x, i, n), splat(most)), splat(inverse_temperature)));
            y = select(first(n - i), zero_below(y, splat(least)), splat(0));
            total = add(total, y);
            store(out + i, y, first(n - i));
        }
        sums[block / kSumBlock] = sum(total);
    }
}

}  // namespace TW_ISA
}  // namespace twinfer
