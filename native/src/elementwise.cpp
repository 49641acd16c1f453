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

// The codes of a block of 32; returns what adds up to their sum.
TW_INLINE Int encode_block(const float* x, Float inverse, int8_t* codes) {
    const Int first = round_to_int(mul(load(x), inverse)), second = round_to_int(mul(load(x + 16), inverse));
    store_i8(codes, first);
    store_i8(codes + 16, second);
    return iadd(first, second);
}

// 8-bit codes with a scale per group of 64: outliers spoil their own group only. The least scale keeps the
// ratio of any two that occur finite, and is small enough for what is below it not to matter.
TW_INLINE void encode_codes(bool four_bit, const float* x, int8_t* codes, CodeGroup* group) {
    const Float a = max(abs(load(x)), abs(load(x + 16))), b = max(abs(load(x + 32)), abs(load(x + 48)));
    const float largest_here = largest(max(a, b)), most = largest_here > 1e-20f ? largest_here : 1e-20f;
    const float inverse = 127.0f / most;
    const Int first = encode_block(x, splat(inverse), codes),
              second = encode_block(x + 32, splat(inverse), codes + 32);
    int32_t even, odd;
    isum_both(first, second, even, odd);
    *group = {most / 127.0f,
              inverse,
              {(float)even, (float)odd},
              (int32_t)((uint32_t)odd << 16 | (uint32_t)(even & 0xffff)),
              {four_bit ? offset4(even, odd) : -128 * even, (four_bit ? -8 : -128) * odd},
              0};
    if (four_bit) order_codes4(codes);
}

// 64 floats as group g of a row.
TW_INLINE void encode_group(Format format, const float* x, const Activations& out, long row, long g) {
    const long at = row * out.stride + g * 64;
    if (format == Format::f32) {
        for (long i = 0; i < 64; i += 16) store(out.f32 + at + i, load(x + i));
    } else if (format == Format::bf16) {
        for (long i = 0; i < 64; i += 16) store_bf16(out.bf16 + at + i, load(x + i));
    } else {
        const long code_group = g * out.rows + row;
        encode_codes(format == Format::int4, x, out.codes + code_group * 64, out.groups + code_group);
    }
}

void encode(Format format, const float* x, long k, const Activations& out, long row, long group) {
    for (; k >= 64; x += 64, k -= 64) encode_group(format, x, out, row, group++);
    if (k <= 0) return;
    alignas(64) float padded[64];
    for (long i = 0; i < 64; i += 16) store(padded + i, take(x, i, k));
    encode_group(format, padded, out, row, group);
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
