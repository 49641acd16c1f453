// Rotations of queries and keys: by their position, and one that spreads outliers over a head.
#include "kernels.h"
#include "simd.h"

namespace twinfer {
namespace TW_ISA {

// The 16 elements of all heads from d on: a cosine and a sine serve both elements of a pair and every head.
// Whole vectors are stored without a mask, after which a load would have to wait.
template <bool kWhole>
TW_INLINE void rope_vectors(float* x, long heads, long head_dim, long d, const float* cos, const float* sin) {
    const Mask used = first(head_dim - d), pairs = first(kWhole ? 8 : (head_dim - d) / 2);
    const Float c = twice(load(cos + d / 2, pairs)), s = flipped<1>(twice(load(sin + d / 2, pairs)));
    for (long h = 0; h < heads; h++) {
        float* at = x + h * head_dim + d;
        const Float y = kWhole ? load(at) : load(at, used);
        const Float rotated = sub(mul(y, c), mul(crossed<1>(y), s));
        kWhole ? store(at, rotated) : store(at, rotated, used);
    }
}

void rope(float* x, long heads, long head_dim, const float* cos, const float* sin) {
    long d = 0;
    for (; d + 16 <= head_dim; d += 16) rope_vectors<true>(x, heads, head_dim, d, cos, sin);
    if (d < head_dim) rope_vectors<false>(x, heads, head_dim, d, cos, sin);
}

// The sums and differences of lanes that are S apart.
template <int S>
TW_INLINE Float butterfly(Float x) {
    return add(crossed<S>(x), flipped<S>(x));
}

// Hadamard's transform of each run of `size` lanes, times `scale`.
TW_INLINE Float transform(Float x, long size, Float scale) {
    if (size > 1) x = butterfly<1>(x);
    if (size > 2) x = butterfly<2>(x);
    if (size > 4) x = butterfly<4>(x);
    if (size > 8) x = butterfly<8>(x);
    return mul(x, scale);
}

// The same of 16 * V elements.
template <int V>
TW_INLINE void transform_vectors(float* x, Float scale) {
    Float v[V];
    TW_UNROLL for (int i = 0; i < V; i++) v[i] = load(x + i * 16);
    TW_UNROLL for (int apart = 1; apart < V; apart *= 2) TW_UNROLL for (int i = 0; i < V; i++) {
        if (i & apart) continue;
        const Float a = v[i], b = v[i + apart];
        v[i] = add(a, b);
        v[i + apart] = sub(a, b);
    }
    TW_UNROLL for (int i = 0; i < V; i++) store(x + i * 16, transform(v[i], 16, scale));
}

// Each head by Hadamard's matrix of the largest power of two that divides its size, 64 at most.
void spread(float* x, long heads, long head_dim) {
    const long even = head_dim & -head_dim, size = even < 64 ? even : 64, n = heads * head_dim;
    const Float scale = splat(1.0f / __builtin_sqrtf((float)size));
    for (long i = 0; i < n; i += size < 16 ? 16 : size) {
        if (size == 64)
            transform_vectors<4>(x + i, scale);
        else if (size == 32)
            transform_vectors<2>(x + i, scale);
        else
            store(x + i, transform(take(x, i, n), size, scale), first(n - i));
    }
}

}  // namespace TW_ISA
}  // namespace twinfer
