// The vector vocabulary on AVX-512 (F, BW, VL, DQ, VNNI, BF16).
#pragma once

#include <immintrin.h>
#include <string.h>

namespace twinfer {
namespace TW_ISA {

using Float = __m512;
using Int = __m512i;
using Bytes = __m512i;
using Mask = __mmask16;

// Register blocking: rows and column tiles that a product keeps in registers at once.
constexpr int kIntRows = 6, kIntTiles = 2;
constexpr int kInt4FewRows = 1, kInt8FewRows = 4, kIntFewTiles = 1;
constexpr int kFloatRows = 8, kFloatTiles = 2, kFloatFewRows = 8, kFloatFewTiles = 1;
constexpr int kScoreRows = 6, kScoreSums = 12, kValueRows = 6, kFirstValueRows = 6, kValueSums = 24;
// Pages of a block whose softmax is computed apart from that of longer ones: none are.
constexpr int kShortBlock = 8;

TW_INLINE Float splat(float x) { return _mm512_set1_ps(x); }
TW_INLINE Float load(const float* p) { return _mm512_loadu_ps(p); }
TW_INLINE void store(float* p, Float x) { _mm512_storeu_ps(p, x); }
TW_INLINE Mask first(long n) { return n >= 16 ? 0xffff : n <= 0 ? 0 : (Mask)((1u << n) - 1); }
TW_INLINE Float load(const float* p, Mask m) { return _mm512_maskz_loadu_ps(m, p); }
TW_INLINE void store(float* p, Float x, Mask m) { _mm512_mask_storeu_ps(p, m, x); }
TW_INLINE Float select(Mask m, Float yes, Float no) { return _mm512_mask_blend_ps(m, no, yes); }

TW_INLINE Float add(Float a, Float b) { return _mm512_add_ps(a, b); }
TW_INLINE Float sub(Float a, Float b) { return _mm512_sub_ps(a, b); }
TW_INLINE Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
TW_INLINE Float div(Float a, Float b) { return _mm512_div_ps(a, b); }
TW_INLINE Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
TW_INLINE Float min(Float a, Float b) { return _mm512_min_ps(a, b); }
TW_INLINE Float max(Float a, Float b) { return _mm512_max_ps(a, b); }
TW_INLINE Float abs(Float a) { return _mm512_abs_ps(a); }
TW_INLINE Float round(Float a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// x * 2^n for whole n.
TW_INLINE Float scale_by_power(Float x, Float n) { return _mm512_scalef_ps(x, n); }
// x minus the whole number below it, and y * 2^(that number), 0 where it is below -126.
TW_INLINE Float fraction(Float x) { return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
TW_INLINE Float scale_by_floor(Float y, Float x) { return _mm512_scalef_ps(y, x); }

TW_INLINE Float zero_below(Float x, Float bound) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, bound, _CMP_GE_OQ), x);
}

// Each of the first 8 lanes twice.
TW_INLINE Float twice(Float x) {
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7), x);
}
// Lane i gets lane i ^ S, for a power of two; and what has the bit S in its lane's number is negated.
template <int S>
TW_INLINE Float crossed(Float x) {
    if constexpr (S < 4) return _mm512_permute_ps(x, S == 1 ? 0xb1 : 0x4e);
    return _mm512_shuffle_f32x4(x, x, S == 4 ? 0xb1 : 0x4e);
}
template <int S>
TW_INLINE Float flipped(Float x) {
    constexpr Mask odd = S == 1 ? 0xaaaa : S == 2 ? 0xcccc : S == 4 ? 0xf0f0 : 0xff00;
    return _mm512_mask_xor_ps(x, odd, x, _mm512_set1_ps(-0.0f));
}

TW_INLINE float sum(Float a) {
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
TW_INLINE float largest(Float a) {
    __m256 b = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

TW_INLINE Int isplat(int32_t x) { return _mm512_set1_epi32(x); }
TW_INLINE Int iadd(Int a, Int b) { return _mm512_add_epi32(a, b); }
TW_INLINE int32_t isum(Int a) { return _mm512_reduce_add_epi32(a); }
// The sums of two vectors, which become the halves of one on the way.
TW_INLINE void isum_both(Int x, Int y, int32_t& of_x, int32_t& of_y) {
    Int both = iadd(_mm512_shuffle_i32x4(x, y, 0x44), _mm512_shuffle_i32x4(x, y, 0xee));
    both = iadd(both, _mm512_shuffle_i32x4(both, both, 0xb1));
    both = iadd(both, _mm512_shuffle_epi32(both, _MM_PERM_BADC));
    both = iadd(both, _mm512_shuffle_epi32(both, _MM_PERM_CDAB));
    of_x = _mm512_cvtsi512_si32(both);
    of_y = _mm_cvtsi128_si32(_mm512_extracti32x4_epi32(both, 2));
}
TW_INLINE Float to_float(Int a) { return _mm512_cvtepi32_ps(a); }
TW_INLINE Int round_to_int(Float a) { return _mm512_cvtps_epi32(a); }

TW_INLINE Float load_f16(const uint16_t* p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p)); }
TW_INLINE void store_bf16(uint16_t* p, Float x) {
    __m256bh b = _mm512_cvtneps_pbh(x);
    memcpy(p, &b, 32);
}
TW_INLINE void store_i8(int8_t* p, Int x) { _mm_storeu_si128((__m128i*)p, _mm512_cvtsepi32_epi8(x)); }

// For x from 0 to 255.
TW_INLINE void store_u8(uint8_t* p, Int x) { _mm_storeu_si128((__m128i*)p, _mm512_cvtepi32_epi8(x)); }

TW_INLINE Bytes load_bytes(const void* p) { return _mm512_loadu_si512(p); }
TW_INLINE void store_bytes(void* p, Bytes x) { _mm512_storeu_si512(p, x); }
TW_INLINE Bytes low_nibbles(Bytes b) { return _mm512_and_si512(b, _mm512_set1_epi8(15)); }
TW_INLINE Bytes high_nibbles(Bytes b) {
    return _mm512_and_si512(_mm512_srli_epi16(b, 4), _mm512_set1_epi8(15));
}

// acc + the dot product of each lane's four unsigned bytes with the same four signed bytes.
TW_INLINE Int dot_bytes(Int acc, Bytes unsigned4, const int8_t* signed4) {
    int32_t four;
    memcpy(&four, signed4, 4);
    return _mm512_dpbusd_epi32(acc, unsigned4, _mm512_set1_epi32(four));
}
// The same for loops over many sums, where GCC 12 would copy each sum before and after the instruction.
TW_INLINE Int dot_bytes_word(Int acc, Bytes unsigned4, const uint32_t* word, int) {
    struct Four {
        int8_t at[4];
    };
    asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(unsigned4), "m"(*(const Four*)word));
    return acc;
}
// The same with signed bytes in the lanes and unsigned ones for all.
TW_INLINE Int dot_signed_word(Int acc, Bytes signed4, const uint32_t* word, int) {
    int32_t four;
    memcpy(&four, word, 4);
    asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(_mm512_set1_epi32(four)), "v"(signed4));
    return acc;
}

// The lower halves of the lanes become the upper ones.
TW_INLINE Int raised(Int x) { return _mm512_slli_epi32(x, 16); }
TW_INLINE Int ixor(Int a, Int b) { return _mm512_xor_si512(a, b); }

// acc + the dot product of each lane's pair of signed 16-bit integers with the same pair, modulo 2^32.
TW_INLINE Int dot_words(Int acc, Int pairs, Int other) { return _mm512_dpwssd_epi32(acc, pairs, other); }

// acc + the dot product of each lane's pair of bf16 with the same pair.
TW_INLINE Float dot_bf16(Float acc, Bytes pairs, const void* pair) {
    int32_t two;
    memcpy(&two, pair, 4);
    return _mm512_dpbf16_ps(acc, (__m512bh)pairs, (__m512bh)_mm512_set1_epi32(two));
}

TW_INLINE void prefetch(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T0); }

}  // namespace TW_ISA
}  // namespace twinfer

#include "simd_exact_dots.h"
