// Products with 8-bit and 4-bit weights and 8-bit activations: exact integer sums over blocks of 32, then
// float multiply-adds in block order.
#include "matmul.h"

namespace twinfer {
namespace TW_ISA {

struct NarrowScales {
    static constexpr long bytes = 32;
    TW_INLINE Float get(const uint8_t* p) { return load_f16((const uint16_t*)p); }
};
struct WideScales {
    static constexpr long bytes = 64;
    TW_INLINE Float get(const uint8_t* p) { return load((const float*)p); }
};

// 4-bit codes: 32 rows of k by 16 columns are 256 bytes, with a scale and a minimum per column.
template <class Scales>
struct Int4 {
    static constexpr long bytes = 256, scale_bytes = 2 * Scales::bytes;
    static constexpr bool minima = true;

    template <int R, int T>
    TW_INLINE void dots(Int (&acc)[R][T], const uint8_t* w, long tile_bytes, const int8_t* x, long stride) {
        TW_UNROLL for (int j = 0; j < 4; j++) {
            Bytes low[T], high[T];
            TW_UNROLL for (int t = 0; t < T; t++) {
                Bytes both = load_bytes(w + t * tile_bytes + j * 64);
                low[t] = low_nibbles(both);
                high[t] = high_nibbles(both);
            }
            TW_UNROLL for (int r = 0; r < R; r++) {
                const int8_t* at = x + r * stride + 4 * j;
                TW_UNROLL for (int t = 0; t < T; t++) acc[r][t] = dot_nibbles(acc[r][t], low[t], at);
                TW_UNROLL for (int t = 0; t < T; t++) acc[r][t] = dot_nibbles(acc[r][t], high[t], at + 16);
            }
        }
    }
};

// 8-bit codes, shifted by 128: 512 bytes, with a scale per column.
template <class Scales>
struct Int8 {
    static constexpr long bytes = 512, scale_bytes = Scales::bytes;
    static constexpr bool minima = false;

    template <int R, int T>
    TW_INLINE void dots(Int (&acc)[R][T], const uint8_t* w, long tile_bytes, const int8_t* x, long stride) {
        TW_UNROLL for (int j = 0; j < 8; j++) {
            Bytes codes[T];
            TW_UNROLL for (int t = 0; t < T; t++) codes[t] = load_bytes(w + t * tile_bytes + j * 64);
            TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int t = 0; t < T; t++) acc[r][t] =
                dot_bytes(acc[r][t], codes[t], x + r * stride + 4 * j);
        }
    }
};

template <class Codes, class Scales>
struct IntProduct {
    static constexpr int rows = kIntRows, tiles = kIntTiles, few_rows = kFewRows, few_tiles = kFewTiles;

    template <int R, int T>
    TW_INLINE void block(const Product& p, long row, long tile, float* out, long stride, Ahead ahead) {
        const Matrix& w = *p.w;
        const Activations& a = *p.x;
        const long blocks = w.blocks(), tile_bytes = blocks * Codes::bytes;
        const long scale_tile = blocks * Codes::scale_bytes;
        const uint8_t* codes = w.data + tile * tile_bytes;
        const uint8_t* scales = w.scales + tile * scale_tile;
        const int8_t* x = a.codes + row * a.stride;
        const long at = row * blocks;
        const Lines fetch = ahead.share(Codes::bytes / 64 + 1);
        Float total[R][T];
        TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int t = 0; t < T; t++) total[r][t] = splat(0);
        for (long b = 0; b < blocks; b++) {
            for (long line = fetch.begin; line < fetch.end; line++) {
                const bool scale = line == Codes::bytes / 64;
                const long step = scale ? scale_tile : tile_bytes;
                const uint8_t* next =
                    scale ? scales + b * Codes::scale_bytes : codes + b * Codes::bytes + line * 64;
                TW_UNROLL for (int t = T; t < 2 * T; t++) prefetch(next + t * step);
            }
            Int acc[R][T];
            TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int t = 0; t < T; t++) {
                acc[r][t] = isplat(Codes::minima ? 0 : a.offset[at + r * blocks + b]);
            }
            Codes::dots(acc, codes + b * Codes::bytes, tile_bytes, x + b * 32, a.stride);
            TW_UNROLL for (int t = 0; t < T; t++) {
                const uint8_t* s = scales + t * scale_tile + b * Codes::scale_bytes;
                Float scale = Scales::get(s);
                Float minimum = Codes::minima ? Scales::get(s + Scales::bytes) : scale;
                TW_UNROLL for (int r = 0; r < R; r++) {
                    Float sum = mul(to_float(acc[r][t]), splat(a.scale[at + r * blocks + b]));
                    total[r][t] = fma(scale, sum, total[r][t]);
                    if constexpr (Codes::minima)
                        total[r][t] = fma(minimum, splat(a.block_sum[at + r * blocks + b]), total[r][t]);
                }
            }
        }
        TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int t = 0; t < T; t++)
            store(out + r * stride + t * 16, total[r][t]);
    }
};

void matmul_int4(const Product& p, long r0, long r1, long t0, long t1) {
    if (p.w->wide)
        product<IntProduct<Int4<WideScales>, WideScales>>(p, r0, r1, t0, t1);
    else
        product<IntProduct<Int4<NarrowScales>, NarrowScales>>(p, r0, r1, t0, t1);
}

void matmul_int8(const Product& p, long r0, long r1, long t0, long t1) {
    if (p.w->wide)
        product<IntProduct<Int8<WideScales>, WideScales>>(p, r0, r1, t0, t1);
    else
        product<IntProduct<Int8<NarrowScales>, NarrowScales>>(p, r0, r1, t0, t1);
}

}  // namespace TW_ISA
}  // namespace twinfer
