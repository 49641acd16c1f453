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

// A row of floats by groups of 64, with zeros after its end.
struct Groups {
    const float* x;
    long whole;
    alignas(64) float rest[64];

    TW_METHOD Groups(const float* row, long k) : x(row), whole(k / 64) {
        if (k % 64)
            for (long i = 0; i < 64; i += 16) store(rest + i, take(row, whole * 64 + i, k));
    }
    TW_METHOD const float* at(long g) const { return g < whole ? x + g * 64 : rest; }
};

// The largest magnitudes of a row's groups into their `scale`; returns the row's.
TW_INLINE float largest_of_groups(const Groups& x, long count, CodeGroup* groups, long apart) {
    float all = 0;
    for (long g = 0; g < count; g++) {
        const float* at = x.at(g);
        const Float a = max(abs(load(at)), abs(load(at + 16))),
                    b = max(abs(load(at + 32)), abs(load(at + 48)));
        const float most = largest(max(a, b));
        groups[g * apart].scale = most;
        all = most > all ? most : all;
    }
    return all;
}

// The codes of a block of 32; returns what adds up to their sum.
TW_INLINE Int encode_block(const float* x, Float inverse, int8_t* codes) {
    const Int first = round_to_int(mul(load(x), inverse)), second = round_to_int(mul(load(x + 16), inverse));
    store_i8(codes, first);
    store_i8(codes + 16, second);
    return iadd(first, second);
}

// 8-bit codes with a scale per group of 64: outliers spoil their own group only. No group's scale is less
// than 2^-20 of the largest, so that their ratios stay finite.
static void encode_codes(Format format, const float* x, long k, const Activations& out, long row) {
    const Groups from(x, k);
    const long count = out.stride / 64;
    const bool four_bit = format == Format::int4;
    int8_t* codes = out.codes + row * 64;
    CodeGroup* groups = out.groups + row;
    const float all = largest_of_groups(from, count, groups, out.rows);
    const bool zero = !(all > 1e-30f);
    const float least = all * 0x1p-20f;
    float before = 0;
    for (long g = 0; g < count; g++, codes += out.rows * 64, groups += out.rows) {
        const float most = zero ? 127.0f : groups->scale > least ? groups->scale : least;
        const Float inverse = splat(zero ? 0.0f : 127.0f / most);
        const Int first = encode_block(from.at(g), inverse, codes),
                  second = encode_block(from.at(g) + 32, inverse, codes + 32);
        int32_t even, odd;
        isum_both(first, second, even, odd);
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
