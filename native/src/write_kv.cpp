// Storing a token's keys and values in a page.
#include "kernels.h"
#include "simd.h"

namespace twinfer {
namespace TW_ISA {

static void write_f32(uint8_t* keys, uint8_t* values, long slot, const float* k, const float* v, long dim) {
    for (long i = 0; i < dim; i++) ((float*)keys)[i * kPageTokens + slot] = k[i];
    memcpy((float*)values + slot * dim, v, 4 * dim);
}

static void write_bf16(uint8_t* keys, uint8_t* values, long slot, const float* k, const float* v, long dim) {
    uint16_t* key = (uint16_t*)keys + slot * 2;
    uint16_t* value = (uint16_t*)values + slot / 2 * dim * 2 + slot % 2;
    for (long i = 0; i < dim; i += 16) {
        uint16_t rounded[32];
        long count = dim - i < 16 ? dim - i : 16;
        store_bf16(rounded, take(k, i, dim));
        store_bf16(rounded + 16, take(v, i, dim));
        for (long j = 0; j < count; j += 2) memcpy(key + (i + j) / 2 * 32, rounded + j, 4);
        for (long j = 0; j < count; j++) value[(i + j) * 2] = rounded[16 + j];
    }
}

// The scale of x [dim] for 8 bits; `inverse` is its inverse, or 0 where all of x is.
static float scale_of(const float* x, long dim, float* inverse) {
    Float most = splat(0);
    for (long i = 0; i < dim; i += 16) most = max(most, abs(take(x, i, dim)));
    const float all = largest(most);
    *inverse = all > 1e-30f ? 127.0f / all : 0.0f;
    return all / 127.0f;
}

static void write_int8(uint8_t* keys, uint8_t* values, long slot, const float* k, const float* v, long dim) {
    float k_inverse, v_inverse;
    ((float*)keys)[slot] = scale_of(k, dim, &k_inverse);
    ((float*)values)[slot] = scale_of(v, dim, &v_inverse);
    const long wide = (dim + 3) / 4 * 4;
    uint8_t* key = keys + kScaleBytes + slot * 4;
    uint8_t* value = values + kScaleBytes + slot / 4 * wide * 4 + slot % 4;
    for (long i = 0; i < wide; i += 16) {
        int8_t codes[32];
        long count = wide - i < 16 ? wide - i : 16;
        store_i8(codes, round_to_int(mul(take(k, i, dim), splat(k_inverse))));
        store_i8(codes + 16, round_to_int(mul(take(v, i, dim), splat(v_inverse))));
        for (long j = 0; j < 16; j++) codes[j] = (int8_t)(codes[j] ^ -128);
        for (long j = 0; j < count; j += 4) memcpy(key + (i + j) / 4 * 64, codes + j, 4);
        for (long j = 0; j < count; j++) value[(i + j) * 4] = (uint8_t)codes[16 + j];
    }
}

void write_kv(const KvLayer& kv, const Heads& h, long page, long slot, const float* k, const float* v) {
    constexpr decltype(&write_f32) write[] = {write_f32, write_bf16, write_int8};
    for (long head = 0; head < h.kv_heads; head++) {
        write[(int)kv.type](kv.keys(page, head), kv.values(page, head), slot, k + head * h.head_dim,
                            v + head * h.head_dim, h.head_dim);
    }
}

}  // namespace TW_ISA
}  // namespace twinfer
