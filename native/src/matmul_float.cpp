// Products with float32 and bf16 weights: one chain of multiply-adds along k per element.
#include "matmul.h"

namespace twinfer {
namespace TW_ISA {

template <bool kBf16>
struct FloatProduct {
    static constexpr bool shares = false;
    static constexpr int rows = kFloatRows, tiles = kFloatTiles;
    static constexpr int few_rows = kFloatFewRows, few_tiles = kFloatFewTiles;

    template <int R, int T>
    TW_INLINE void block(const Product& p, long row, long tile, float* out, long stride, Ahead ahead) {
        const Activations& a = *p.x;
        // A step is one float or one pair of bf16: 4 bytes of x, 64 bytes of a tile.
        const long steps = p.w->padded_k() / (kBf16 ? 2 : 1), tile_bytes = steps * 64;
        const uint8_t* w = p.w->data + tile * tile_bytes;
        const uint8_t* x =
            kBf16 ? (const uint8_t*)(a.bf16 + row * a.stride) : (const uint8_t*)(a.f32 + row * a.stride);
        const long x_stride = steps * 4;
        Float total[R][T];
        TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int t = 0; t < T; t++) total[r][t] = splat(0);
        for (long s = 0; s < steps; s++) {
            TW_UNROLL for (int t = 0; t < T; t++) {
                const uint8_t* at = w + t * tile_bytes + s * 64;
                if (ahead.part == 0) prefetch(at + T * tile_bytes);
                if constexpr (kBf16) {
                    Bytes pairs = load_bytes(at);
                    TW_UNROLL for (int r = 0; r < R; r++) total[r][t] =
                        dot_bf16(total[r][t], pairs, x + r * x_stride + s * 4);
                } else {
                    Float values = load((const float*)at);
                    TW_UNROLL for (int r = 0; r < R; r++) total[r][t] =
                        fma(values, splat(*(const float*)(x + r * x_stride + s * 4)), total[r][t]);
                }
            }
        }
        put(p, total, row, tile, out, stride);
    }
};

void matmul_f32(const Product& p, long r0, long r1, long t0, long t1) {
    product<FloatProduct<false>>(p, r0, r1, t0, t1);
}

void matmul_bf16(const Product& p, long r0, long r1, long t0, long t1) {
    product<FloatProduct<true>>(p, r0, r1, t0, t1);
}

}  // namespace TW_ISA
}  // namespace twinfer
