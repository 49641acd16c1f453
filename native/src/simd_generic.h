// The vector vocabulary in plain C++ with the compiler's vector types, for any little-endian machine.
#pragma once

#include <string.h>

namespace twinfer {
namespace TW_ISA {

typedef float Float __attribute__((vector_size(64)));
typedef int32_t Int __attribute__((vector_size(64)));
typedef uint32_t Unsigned __attribute__((vector_size(64)));
using Bytes = Unsigned;
using Mask = Int;

// Register blocking: rows and column tiles that a product keeps in registers at once.
constexpr int kIntRows = 1, kIntTiles = 1;
constexpr int kInt4FewRows = 1, kInt8FewRows = 1, kIntFewTiles = 1;
constexpr int kFloatRows = 2, kFloatTiles = 1, kFloatFewRows = 1, kFloatFewTiles = 1;
constexpr int kScoreRows = 2, kScoreSums = 2, kValueRows = 1, kFirstValueRows = 1, kValueSums = 1;
// Pages of a block whose softmax is computed apart from that of longer ones: none are.
constexpr int kShortBlock = 8;

TW_INLINE Float splat(float x) { return Float{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
TW_INLINE Int isplat(int32_t x) { return Int{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
TW_INLINE Float load(const float* p) {
    Float x;
    memcpy(&x, p, 64);
    return x;
}
TW_INLINE void store(float* p, Float x) { memcpy(p, &x, 64); }
TW_INLINE Mask first(long n) {
    int count = n >= 16 ? 16 : n <= 0 ? 0 : (int)n;
    return Int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} < isplat(count);
}
TW_INLINE int count(Mask m) {
    int n = 0;
    for (int i = 0; i < 16; i++) n -= m[i];
    return n;
}
TW_INLINE Float load(const float* p, Mask m) {
    Float x = splat(0);
    memcpy(&x, p, 4 * count(m));
    return x;
}
TW_INLINE void store(float* p, Float x, Mask m) { memcpy(p, &x, 4 * count(m)); }
TW_INLINE Float select(Mask m, Float yes, Float no) { return m ? yes : no; }

TW_INLINE Float add(Float a, Float b) { return a + b; }
TW_INLINE Float sub(Float a, Float b) { return a - b; }
TW_INLINE Float mul(Float a, Float b) { return a * b; }
TW_INLINE Float div(Float a, Float b) { return a / b; }
TW_INLINE Float fma(Float a, Float b, Float c) { return a * b + c; }
TW_INLINE Float min(Float a, Float b) { return a < b ? a : b; }
TW_INLINE Float max(Float a, Float b) { return a > b ? a : b; }
TW_INLINE Float abs(Float a) { return (Float)((Int)a & isplat(0x7fffffff)); }
TW_INLINE Float zero_below(Float x, Float bound) { return (Float)((Int)x & (x >= bound)); }

// Each of the first 8 lanes twice.
TW_INLINE Float twice(Float x) {
    return __builtin_shuffle(x, Int{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7});
}
// Lane i gets lane i ^ S, for a power of two; and what has the bit S in its lane's number is negated.
constexpr Int kLanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
template <int S>
TW_INLINE Float crossed(Float x) {
    return __builtin_shuffle(x, kLanes ^ S);
}
template <int S>
TW_INLINE Float flipped(Float x) {
    return (Float)((Unsigned)x ^ ((Unsigned)((kLanes & S) != 0) & 0x80000000u));
}

TW_INLINE float sum(Float a) {
    float s[16];
    memcpy(s, &a, 64);
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) s[i] += s[i + half];
    return s[0];
}
TW_INLINE float largest(Float a) {
    float m = a[0];
    for (int i = 1; i < 16; i++) m = a[i] > m ? a[i] : m;
    return m;
}

TW_INLINE Int iadd(Int a, Int b) { return a + b; }
TW_INLINE int32_t isum(Int a) {
    int32_t s = 0;
    for (int i = 0; i < 16; i++) s += a[i];
    return s;
}
TW_INLINE void isum_both(Int x, Int y, int32_t& of_x, int32_t& of_y) {
    of_x = isum(x);
    of_y = isum(y);
}
TW_INLINE Float to_float(Int a) { return __builtin_convertvector(a, Float); }
// Rounds to nearest, ties to even, for |a| below 2^22: adding the constant pushes the fraction out.
TW_INLINE Int round_to_int(Float a) {
    Float shifted = a + splat(12582912.0f);
    return (Int)shifted - isplat(0x4b400000);
}
TW_INLINE Float round(Float a) { return to_float(round_to_int(a)); }
// x * 2^n for whole n from -127 (which gives 0) to 127.
TW_INLINE Float scale_by_power(Float x, Float n) {
    return x * (Float)((round_to_int(n) + isplat(127)) << 23);
}

// For x from -127 to 2^22; less counts as -127.
TW_INLINE Float floor(Float x) {
    Float bounded = max(x, splat(-127.0f)), n = round(bounded);
    return n > bounded ? n - splat(1.0f) : n;
}
// x minus the whole number below it, and y * 2^(that number), 0 where it is below -126.
TW_INLINE Float fraction(Float x) { return max(x, splat(-127.0f)) - floor(x); }
TW_INLINE Float scale_by_floor(Float y, Float x) { return scale_by_power(y, floor(x)); }

TW_INLINE Float load_f16(const uint16_t* p) {
    Unsigned h;
    for (int i = 0; i < 16; i++) h[i] = p[i];
    // Scaling by 2^112 moves the exponent's bias, subnormal numbers included.
    Unsigned magnitude = (h & 0x7fff) << 13;
    Float x = (Float)magnitude * splat(5.192296858534828e33f);
    Unsigned special = (Unsigned)((h & 0x7c00) == 0x7c00) & 0x7f800000u;
    return (Float)((Unsigned)x | special | ((h & 0x8000) << 16));
}
// Rounds to nearest, ties to even.
TW_INLINE void store_bf16(uint16_t* p, Float x) {
    Unsigned bits = (Unsigned)x;
    bits = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    for (int i = 0; i < 16; i++) p[i] = (uint16_t)bits[i];
}
TW_INLINE void store_i8(int8_t* p, Int x) {
    for (int i = 0; i < 16; i++) p[i] = (int8_t)x[i];
}

// For x from 0 to 255.
TW_INLINE void store_u8(uint8_t* p, Int x) {
    for (int i = 0; i < 16; i++) p[i] = (uint8_t)x[i];
}

TW_INLINE Bytes load_bytes(const void* p) {
    Bytes x;
    memcpy(&x, p, 64);
    return x;
}
TW_INLINE void store_bytes(void* p, Bytes x) { memcpy(p, &x, 64); }
TW_INLINE Bytes low_nibbles(Bytes b) { return b & 0x0f0f0f0fu; }
TW_INLINE Bytes high_nibbles(Bytes b) { return (b >> 4) & 0x0f0f0f0fu; }

// acc + the dot product of each lane's four unsigned bytes with the same four signed bytes.
TW_INLINE Int dot_bytes(Int acc, Bytes unsigned4, const int8_t* signed4) {
    for (int i = 0; i < 4; i++) acc += (Int)((unsigned4 >> (8 * i)) & 255u) * (int32_t)signed4[i];
    return acc;
}
TW_INLINE Int dot_bytes_word(Int acc, Bytes unsigned4, const uint32_t* word, int) {
    return dot_bytes(acc, unsigned4, (const int8_t*)word);
}
// The same with signed bytes in the lanes and unsigned ones for all.
TW_INLINE Int dot_signed_word(Int acc, Bytes signed4, const uint32_t* word, int) {
    const uint8_t* unsigned4 = (const uint8_t*)word;
    for (int i = 0; i < 4; i++) acc += ((Int)(signed4 << (24 - 8 * i)) >> 24) * (int32_t)unsigned4[i];
    return acc;
}

// The lower halves of the lanes become the upper ones.
TW_INLINE Int raised(Int x) { return (Int)((Unsigned)x << 16); }
TW_INLINE Int ixor(Int a, Int b) { return a ^ b; }

// acc + the dot product of each lane's pair of signed 16-bit integers with the same pair, modulo 2^32.
TW_INLINE Int dot_words(Int acc, Int pairs, Int other) {
    Unsigned upper = (Unsigned)(pairs >> 16) * (Unsigned)(other >> 16);
    Unsigned lower =
        (Unsigned)((Int)((Unsigned)pairs << 16) >> 16) * (Unsigned)((Int)((Unsigned)other << 16) >> 16);
    return (Int)((Unsigned)acc + upper + lower);
}

// acc + the dot product of each lane's pair of bf16 with the same pair.
TW_INLINE Float dot_bf16(Float acc, Bytes pairs, const void* pair) {
    uint32_t two;
    memcpy(&two, pair, 4);
    Float first = (Float)((Unsigned)isplat((int32_t)(two << 16)));
    Float second = (Float)((Unsigned)isplat((int32_t)(two & 0xffff0000u)));
    acc = (Float)(pairs << 16) * first + acc;
    return (Float)(pairs & 0xffff0000u) * second + acc;
}

TW_INLINE void prefetch(const void* p) { __builtin_prefetch(p); }

}  // namespace TW_ISA
}  // namespace twinfer

#include "simd_exact_dots.h"
