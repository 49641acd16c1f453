// Kernels over one row: norm, encoding of activations, rotation, and the softmax's weights.
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

// 8-bit codes with a scale per block of 32: outliers spoil their own block only.
static void encode_codes(const float* x, long k, const Activations& out, long row) {
    const long blocks = out.stride / 32;
    int8_t* codes = out.codes + row * out.stride;
    float* sums = out.block_sum + row * blocks;
    int32_t* offsets = out.offset + row * blocks;
    float* scales = out.scale + row * blocks;
    for (long b = 0; b < blocks; b++) {
        Float x0 = take(x, b * 32, k), x1 = take(x, b * 32 + 16, k);
        float most = largest(max(abs(x0), abs(x1)));
        Float inverse = splat(most > 1e-30f ? 127.0f / most : 0.0f);
        Int code0 = round_to_int(mul(x0, inverse)), code1 = round_to_int(mul(x1, inverse));
        store_i8(codes + b * 32, code0);
        store_i8(codes + b * 32 + 16, code1);
        int32_t total = isum(iadd(code0, code1));
        scales[b] = most / 127.0f;
        sums[b] = (float)total * scales[b];
        offsets[b] = -128 * total;
    }
}

void encode(Format format, const float* x, long k, const Activations& out, long row) {
    if (format == Format::f32) {
        for (long i = 0; i < out.stride; i += 16) store(out.f32 + row * out.stride + i, take(x, i, k));
    } else if (format == Format::bf16) {
        for (long i = 0; i < out.stride; i += 16) store_bf16(out.bf16 + row * out.stride + i, take(x, i, k));
    } else {
        encode_codes(x, k, out, row);
    }
}

void rope(float* x, long heads, long head_dim, const float* cos, const float* sin) {
    for (long h = 0; h < heads; h++) {
        float* at = x + h * head_dim;
        for (long i = 0; i < head_dim / 2; i++) {
            float a = at[2 * i], b = at[2 * i + 1];
            at[2 * i] = a * cos[i] - b * sin[i];
            at[2 * i + 1] = a * sin[i] + b * cos[i];
        }
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
