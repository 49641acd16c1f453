// The vector vocabulary that every kernel is written in: 16 lanes of 32 bits, or 64 bytes.
//
// Each kernel file is compiled once per instruction set. The build defines TW_ISA (the namespace) and one of
// TW_AVX512, TW_AVX2 or nothing for plain C++; this header brings the matching vocabulary into twinfer::TW_ISA.
// Kernel files must not use the standard library's templates: their instances would be merged by the linker
// across instruction sets, and code for one machine would run on another.
#pragma once

#include <stdint.h>

#define TW_INLINE static inline __attribute__((always_inline))

#if defined(TW_AVX512)
#include "simd_avx512.h"
#elif defined(TW_AVX2)
#include "simd_avx2.h"
#else
#include "simd_generic.h"
#endif

namespace twinfer {
namespace TW_ISA {

// The largest whole number of lanes that n elements need.
TW_INLINE long padded(long n) { return (n + 15) & ~15L; }

// e^x to about one unit in the last place; 0 below -87.
TW_INLINE Float exp(Float x) {
    Float clamped = min(max(x, splat(-87.0f)), splat(88.0f));
    Int n = round_to_int(mul(clamped, splat(1.44269504088896341f)));
    Float whole = to_float(n);
    Float r = fma(whole, splat(-0.693359375f), clamped);
    r = fma(whole, splat(2.12194440e-4f), r);
    Float p = splat(1.0f / 720);
    p = fma(p, r, splat(1.0f / 120));
    p = fma(p, r, splat(1.0f / 24));
    p = fma(p, r, splat(1.0f / 6));
    p = fma(p, r, splat(0.5f));
    p = fma(p, r, splat(1.0f));
    p = fma(p, r, splat(1.0f));
    return zero_where_less(x, splat(-87.0f), mul(p, power_of_two(n)));
}

// x * sigmoid(x).
TW_INLINE Float silu(Float x) { return div(x, add(splat(1.0f), exp(sub(splat(0.0f), x)))); }

}  // namespace TW_ISA
}  // namespace twinfer
