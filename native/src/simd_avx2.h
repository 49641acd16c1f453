// The vector vocabulary on AVX2 with FMA and F16C: each vector is two halves.
#pragma once

#include <immintrin.h>
#include <string.h>

namespace twinfer {
namespace TW_ISA {

struct Float {
    __m256 a, b;
};
struct Int {
    __m256i a, b;
};
using Bytes = Int;
using Mask = Int;

// Register blocking: rows and column tiles that a product keeps in registers at once.
constexpr int kIntRows = 4, kIntTiles = 1;
constexpr int kInt4FewRows = 1, kInt8FewRows = 1, kIntFewTiles = 2;
constexpr int kFloatRows = 4, kFloatTiles = 1, kFloatFewRows = 1, kFloatFewTiles = 2;
constexpr int kScoreRows = 6, kScoreSums = 6, kValueRows = 6, kFirstValueRows = 3, kValueSums = 6;
constexpr int kUnitWords = 2, kQuerySums = 1;  // of attention
// Pages of a block whose softmax is computed apart from that of longer ones.
constexpr int kShortBlock = 2;

TW_INLINE Float splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
TW_INLINE Float load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
TW_INLINE void store(float* p, Float x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
TW_INLINE Mask first(long n) {
    int count = n >= 16 ? 16 : n <= 0 ? 0 : (int)n;
    __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return {_mm256_cmpgt_epi32(_mm256_set1_epi32(count), lanes),
            _mm256_cmpgt_epi32(_mm256_set1_epi32(count - 8), lanes)};
}
TW_INLINE Float load(const float* p, Mask m) {
    return {_mm256_maskload_ps(p, m.a), _mm256_maskload_ps(p + 8, m.b)};
}
// A masked store takes many times as long as a plain one, on some machines.
TW_INLINE void store(float* p, Float x, Mask m) {
    if (_mm256_movemask_epi8(m.b) == -1) return store(p, x);
    _mm256_maskstore_ps(p, m.a, x.a);
    _mm256_maskstore_ps(p + 8, m.b, x.b);
}
TW_INLINE Float select(Mask m, Float yes, Float no) {
    return {_mm256_blendv_ps(no.a, yes.a, _mm256_castsi256_ps(m.a)),
            _mm256_blendv_ps(no.b, yes.b, _mm256_castsi256_ps(m.b))};
}

TW_INLINE Float add(Float x, Float y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
TW_INLINE Float sub(Float x, Float y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
TW_INLINE Float mul(Float x, Float y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
TW_INLINE Float div(Float x, Float y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
TW_INLINE Float fma(Float x, Float y, Float z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
TW_INLINE Float min(Float x, Float y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
TW_INLINE Float max(Float x, Float y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
TW_INLINE Float abs(Float x) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
TW_INLINE Float zero_below(Float x, Float bound) {
    return {_mm256_and_ps(_mm256_cmp_ps(x.a, bound.a, _CMP_GE_OQ), x.a),
            _mm256_and_ps(_mm256_cmp_ps(x.b, bound.b, _CMP_GE_OQ), x.b)};
}

// Each of the first 8 lanes twice.
TW_INLINE Float twice(Float x) {
    return {_mm256_permutevar8x32_ps(x.a, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3)),
            _mm256_permutevar8x32_ps(x.a, _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7))};
}
// Lane i gets lane i ^ S, for a power of two; and what has the bit S in its lane's number is negated.
template <int S>
TW_INLINE Float crossed(Float x) {
    constexpr int order = S == 1 ? 0xb1 : 0x4e;
    if constexpr (S == 8) return {x.b, x.a};
    if constexpr (S == 4) return {_mm256_permute2f128_ps(x.a, x.a, 1), _mm256_permute2f128_ps(x.b, x.b, 1)};
    return {_mm256_permute_ps(x.a, order), _mm256_permute_ps(x.b, order)};
}
template <int S>
TW_INLINE Float flipped(Float x) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), bit = _mm256_set1_epi32(S);
    const __m256 odd = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cmpeq_epi32(lanes & bit, bit), 31));
    if constexpr (S == 8) return {x.a, _mm256_xor_ps(x.b, _mm256_set1_ps(-0.0f))};
    return {_mm256_xor_ps(x.a, odd), _mm256_xor_ps(x.b, odd)};
}

TW_INLINE float sum(Float x) {
    __m256 b = _mm256_add_ps(x.a, x.b);
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
TW_INLINE float largest(Float x) {
    __m256 b = _mm256_max_ps(x.a, x.b);
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

TW_INLINE Int isplat(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
TW_INLINE Int iadd(Int x, Int y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
TW_INLINE int32_t isum(Int x) {
    __m256i b = _mm256_add_epi32(x.a, x.b);
    __m128i c = _mm_add_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
    c = _mm_add_epi32(c, _mm_shuffle_epi32(c, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(c, _mm_shuffle_epi32(c, 0xb1)));
}
TW_INLINE void isum_both(Int x, Int y, int32_t& of_x, int32_t& of_y) {
    of_x = isum(x);
    of_y = isum(y);
}
TW_INLINE Float to_float(Int x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
TW_INLINE Int round_to_int(Float x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
TW_INLINE Float round(Float x) {
    constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.a, mode), _mm256_round_ps(x.b, mode)};
}
TW_INLINE __m256 power_of_two(__m256 n) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
// x * 2^n for whole n from -127 (which gives 0) to 127.
TW_INLINE Float scale_by_power(Float x, Float n) {
    return {_mm256_mul_ps(x.a, power_of_two(n.a)), _mm256_mul_ps(x.b, power_of_two(n.b))};
}

// For x from -127 on; less counts as -127.
TW_INLINE Float floor(Float x) {
    const __m256 least = _mm256_set1_ps(-127.0f);
    return {_mm256_floor_ps(_mm256_max_ps(x.a, least)), _mm256_floor_ps(_mm256_max_ps(x.b, least))};
}
// x minus the whole number below it, and y * 2^(that number), 0 where it is below -126.
TW_INLINE Float fraction(Float x) { return sub(max(x, splat(-127.0f)), floor(x)); }
TW_INLINE Float scale_by_floor(Float y, Float x) { return scale_by_power(y, floor(x)); }

TW_INLINE Float load_f16(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)),
            _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(p + 8)))};
}
// Rounds to nearest, ties to even: the upper half of each lane's bits.
TW_INLINE __m256i rounded_bf16(__m256 x) {
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
}
TW_INLINE void store_bf16(uint16_t* p, Float x) {
    __m256i packed = _mm256_packus_epi32(_mm256_srli_epi32(rounded_bf16(x.a), 16),
                                         _mm256_srli_epi32(rounded_bf16(x.b), 16));
    _mm256_storeu_si256((__m256i*)p, _mm256_permute4x64_epi64(packed, 0xd8));
}
TW_INLINE void store_i8(int8_t* p, Int x) {
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i*)p, bytes);
}

TW_INLINE Bytes load_bytes(const void* p) {
    return {_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)p + 1)};
}
TW_INLINE void store_bytes(void* p, Bytes x) {
    _mm256_storeu_si256((__m256i*)p, x.a);
    _mm256_storeu_si256((__m256i*)p + 1, x.b);
}
TW_INLINE Bytes low_nibbles(Bytes x) {
    __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask)};
}
TW_INLINE Bytes high_nibbles(Bytes x) {
    __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(_mm256_srli_epi16(x.a, 4), mask),
            _mm256_and_si256(_mm256_srli_epi16(x.b, 4), mask)};
}

// Keeps a sum as it stands: GCC would take long ones apart, and run out of registers.
TW_INLINE __m256i in_order(__m256i sum) {
    asm("" : "+x"(sum));
    return sum;
}

// The two blocks of a group of nibbles are summed at once, in the halves of lanes: a product of two pairs of
// bytes never saturates, and sums need to be right modulo 2^16 only. So the even block's pairs of bytes come
// with those of the odd block, codes of weights and of activations alike.
constexpr int kPasses4 = 1;
TW_INLINE __m256i paired(__m256i even, __m256i odd, int second) {
    return second ? _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xaa)
                  : _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xaa);
}
TW_INLINE Bytes load_nibbles(const uint8_t* codes, int, int j) {
    const Bytes even = load_bytes(codes + j / 2 * 64), odd = load_bytes(codes + j / 2 * 64 + 256);
    return {paired(even.a, odd.a, j % 2), paired(even.b, odd.b, j % 2)};
}
TW_INLINE void order_codes4(int8_t* codes) {
    __m128i* at = (__m128i*)codes;
    const __m128i even[2] = {_mm_loadu_si128(at), _mm_loadu_si128(at + 1)};
    const __m128i odd[2] = {_mm_loadu_si128(at + 2), _mm_loadu_si128(at + 3)};
    for (int i = 0; i < 2; i++) {
        _mm_storeu_si128(at + 2 * i, _mm_unpacklo_epi16(even[i], odd[i]));
        _mm_storeu_si128(at + 2 * i + 1, _mm_unpackhi_epi16(even[i], odd[i]));
    }
}
TW_INLINE int32_t offset4(int32_t even, int32_t odd) {
    return (int32_t)((uint32_t)(-8 * odd) << 16 | (uint32_t)(-8 * even & 0xffff));
}
TW_INLINE Int dot_nibbles(Int acc, Bytes nibbles, const int8_t* signed4) {
    int32_t four;
    memcpy(&four, signed4, 4);
    __m256i x = _mm256_set1_epi32(four);
    return {in_order(_mm256_add_epi16(acc.a, _mm256_maddubs_epi16(nibbles.a, x))),
            in_order(_mm256_add_epi16(acc.b, _mm256_maddubs_epi16(nibbles.b, x)))};
}
TW_INLINE Int shifted_back(Int both) { return both; }
// The lower or the upper halves of the lanes.
TW_INLINE Int half(Int x, int upper) {
    const __m256i lower = _mm256_set1_epi32(1);
    if (upper) return {_mm256_srai_epi32(x.a, 16), _mm256_srai_epi32(x.b, 16)};
    return {_mm256_madd_epi16(x.a, lower), _mm256_madd_epi16(x.b, lower)};
}

// Weights of 8 bits, stored with 128 added. The byte multiply-add of AVX2 saturates with those, but never
// where their signs go over to the other factor.
struct Weights8 {
    Bytes values, sizes;
};
TW_INLINE Weights8 load_weights8(const uint8_t* shifted) {
    const __m256i shift = _mm256_set1_epi8((char)128);
    const Bytes x = load_bytes(shifted);
    const Bytes values = {_mm256_xor_si256(x.a, shift), _mm256_xor_si256(x.b, shift)};
    return {values, {_mm256_abs_epi8(values.a), _mm256_abs_epi8(values.b)}};
}
TW_INLINE __m256i dot_sizes(__m256i acc, __m256i sizes, __m256i x) {
    const __m256i ones = _mm256_set1_epi16(1);
    return in_order(_mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(sizes, x), ones)));
}
// What sums with them begin with, given -128 times the sum of the other factors.
TW_INLINE Int begin8(int32_t) { return isplat(0); }
TW_INLINE Int dot_weights8(Int acc, const Weights8& w, const int8_t* signed4) {
    int32_t four;
    memcpy(&four, signed4, 4);
    __m256i x = _mm256_set1_epi32(four);
    return {dot_sizes(acc.a, w.sizes.a, _mm256_sign_epi8(x, w.values.a)),
            dot_sizes(acc.b, w.sizes.b, _mm256_sign_epi8(x, w.values.b))};
}

// acc + the dot product of each lane's pair of signed 16-bit integers with the same pair, modulo 2^32.
TW_INLINE Int dot_words(Int acc, Int pairs, Int other) {
    return {_mm256_add_epi32(acc.a, _mm256_madd_epi16(pairs.a, other.a)),
            _mm256_add_epi32(acc.b, _mm256_madd_epi16(pairs.b, other.b))};
}

TW_INLINE __m256 dot_pairs(__m256 acc, __m256i pairs, __m256 first, __m256 second) {
    __m256i upper = _mm256_set1_epi32((int)0xffff0000);
    acc = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)), first, acc);
    return _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_and_si256(pairs, upper)), second, acc);
}
// acc + the dot product of each lane's pair of bf16 with the same pair.
TW_INLINE Float dot_bf16(Float acc, Bytes pairs, const void* pair) {
    uint32_t two;
    memcpy(&two, pair, 4);
    __m256 first = _mm256_castsi256_ps(_mm256_set1_epi32((int)(two << 16)));
    __m256 second = _mm256_castsi256_ps(_mm256_set1_epi32((int)(two & 0xffff0000u)));
    return {dot_pairs(acc.a, pairs.a, first, second), dot_pairs(acc.b, pairs.b, first, second)};
}

// What attention multiplies keys and values with, in kUnitWords words for each of their units: word 0 for the
// even elements, word 1 for the odd ones. A pair of bf16 is two floats; of four codes, each word has two in
// 16 bits.
alignas(32) constexpr uint32_t kUpperHalves[8] = {0xffff0000, 0xffff0000, 0xffff0000, 0xffff0000,
                                                  0xffff0000, 0xffff0000, 0xffff0000, 0xffff0000};
template <bool kCrowded>
TW_INLINE __m256i element(__m256i pairs, int i) {
    if (!i) return _mm256_slli_epi32(pairs, 16);
    if (!kCrowded) return _mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000));
    asm("vpand %1, %0, %0" : "+x"(pairs) : "m"(*(const __m256i*)kUpperHalves));
    return pairs;
}
// Twelve sums leave four registers: then the mask stays in memory, and the instructions are given, as GCC
// would let a sum take the register of a factor and run out of them.
template <bool kCrowded>
TW_INLINE Float dot_bf16_word(Float acc, Bytes pairs, const uint32_t* word, int i) {
    const __m256i a = element<kCrowded>(pairs.a, i), b = element<kCrowded>(pairs.b, i);
    if (!kCrowded)
        return fma({_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)}, splat(*(const float*)word), acc);
    __m256 x;
    asm("vbroadcastss %5, %2\n\t"
        "vfmadd231ps %2, %3, %0\n\t"
        "vfmadd231ps %2, %4, %1"
        : "+x"(acc.a), "+x"(acc.b), "=&x"(x)
        : "x"(a), "x"(b), "m"(*word));
    return acc;
}
TW_INLINE Int dot_words_apart(Int acc, Int pairs, const uint32_t* word) {
    const Int sum = dot_words(acc, pairs, isplat((int32_t)*word));
    return {in_order(sum.a), in_order(sum.b)};
}
TW_INLINE Int dot_bytes_word(Int acc, Bytes unsigned4, const uint32_t* word, int i) {
    const __m256i low = _mm256_set1_epi16(255);
    const __m256i a = i ? _mm256_srli_epi16(unsigned4.a, 8) : _mm256_and_si256(unsigned4.a, low);
    const __m256i b = i ? _mm256_srli_epi16(unsigned4.b, 8) : _mm256_and_si256(unsigned4.b, low);
    return dot_words_apart(acc, {a, b}, word);
}
TW_INLINE Int dot_signed_word(Int acc, Bytes signed4, const uint32_t* word, int i) {
    const __m256i a = _mm256_srai_epi16(i ? signed4.a : _mm256_slli_epi16(signed4.a, 8), 8);
    const __m256i b = _mm256_srai_epi16(i ? signed4.b : _mm256_slli_epi16(signed4.b, 8), 8);
    return dot_words_apart(acc, {a, b}, word);
}
TW_INLINE void store_pairs(uint32_t* to, Float x) {
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000);
    _mm256_storeu_si256((__m256i*)to, _mm256_and_si256(rounded_bf16(x.a), upper));
    _mm256_storeu_si256((__m256i*)to + 1, _mm256_and_si256(rounded_bf16(x.b), upper));
}
TW_INLINE void store_codes(uint32_t* to, Int x) {
    __m256i codes = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
    codes = _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(codes, 0xd8), 0xd8);
    _mm256_storeu_si256((__m256i*)to, codes);
}

TW_INLINE void prefetch(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T0); }

}  // namespace TW_ISA
}  // namespace twinfer
