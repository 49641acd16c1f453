// The vector vocabulary that every kernel is written in: 16 lanes of 32 bits, or 64 bytes.
//
// Each kernel file is compiled once per instruction set. The build defines TW_ISA (the namespace) and one of
// TW_AVX512, TW_AVX2 or nothing for plain C++; this header brings the matching vocabulary into
// twinfer::TW_ISA. Kernel files must not use the standard library's templates: their instances would be
// merged by the linker across instruction sets, and code for one machine would run on another.
#pragma once

#include <stdint.h>

#define TW_INLINE static inline __attribute__((always_inline))

#define TW_METHOD inline __attribute__((always_inline))

#define TW_UNROLL _Pragma("GCC unroll 16")

// A function worth a name of its own in a profile.
#define TW_APART static __attribute__((noinline))

#if defined(TW_AVX512)
#include "simd_avx512.h"
#elif defined(TW_AVX2)
#include "simd_avx2.h"
#else
#include "simd_generic.h"
#endif

namespace twinfer {
namespace TW_ISA {

// What has been read is read again rather than kept in a register.
TW_INLINE void read_again() { asm volatile("" ::: "memory"); }

// The largest whole number of lanes that n elements need.
TW_INLINE long padded(long n) { return (n + 15) & ~15L; }

// 16 values of x [n] from i on, zeros after the end.
TW_INLINE Float take(const float* x, long i, long n) {
    return i + 16 <= n ? load(x + i) : load(x + (i < n ? i : 0), first(n - i));
}

// The polynomial c[0] + c[1] x + ... of degree N, by Horner's rule.
template <int N>
TW_INLINE Float polynomial(Float x, const float (&c)[N + 1]) {
    Float p = splat(c[N]);
    TW_UNROLL for (int i = N - 1; i >= 0; i--) p = fma(p, x, splat(c[i]));
    return p;
}

// e^x to about one unit in the last place, for x up to 88; 0 far below -87.
TW_INLINE Float exp(Float x) {
    constexpr float c[] = {1, 1, 1.0f / 2, 1.0f / 6, 1.0f / 24, 1.0f / 120, 1.0f / 720};
    Float bounded = min(max(x, splat(-88.0f)), splat(88.0f));
    Float n = round(mul(bounded, splat(1.44269504088896341f)));
    Float r = fma(n, splat(-0.693359375f), bounded);  // ln 2 in two parts
    r = fma(n, splat(2.12194440e-4f), r);
    return scale_by_power(polynomial<6>(r, c), n);
}

// 2^x for x up to 127; 0 far below -126. To about one unit in the last place.
TW_INLINE Float exp2(Float x) {
    Float bounded = max(x, splat(-127.0f));
    Float n = round(bounded);
    Float r = sub(bounded, n);
    constexpr float c[] = {1, 0.69314718f, 0.24022651f, 0.05550411f, 0.00961813f, 0.00133336f, 0.00015403f};
    return scale_by_power(polynomial<6>(r, c), n);
}

// 2^x to 13 bits, for x up to 127; 0 far below -126.
TW_INLINE Float rough_exp2(Float x) {
    constexpr float c[] = {0.99992520f, 0.69583356f, 0.22606716f, 0.07802452f};
    return scale_by_floor(polynomial<3>(fraction(x), c), x);
}

// x * sigmoid(x).
TW_INLINE Float silu(Float x) { return div(x, add(splat(1.0f), exp(sub(splat(0.0f), x)))); }

}  // namespace TW_ISA
}  // namespace twinfer
