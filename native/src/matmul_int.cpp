// Products with 8-bit and 4-bit weights and 8-bit activations: exact integer sums over blocks of 32 or groups
// of 64, then float multiply-adds in their order.
#include "matmul.h"

namespace twinfer {
namespace TW_ISA {

// acc += 32 rows of k of T tiles with 4-bit codes. Half of the rows are done before the others, so that what
// follows for their sums need not wait for all.
template <int R, int T>
TW_INLINE void dot_block4(Int (&acc)[R][T], const uint8_t* w, long tile_bytes, const int8_t* x, long stride) {
    constexpr int kTurns = R % 2 ? 1 : 2, kTurn = R / kTurns;
    TW_UNROLL for (int j = 0; j < 4; j++) {
        Bytes codes[2][T];
        TW_UNROLL for (int t = 0; t < T; t++) {
            const Bytes both = load_bytes(w + t * tile_bytes + j * 64);
            codes[0][t] = low_nibbles(both);
            codes[1][t] = high_nibbles(both);
        }
        TW_UNROLL for (int i = 0; i < kTurns * 2 * kTurn; i++) {
            const int half = i / kTurn % 2, r = i / (2 * kTurn) * kTurn + i % kTurn;
            TW_UNROLL for (int t = 0; t < T; t++) acc[r][t] =
                dot_nibbles(acc[r][t], codes[half][t], x + r * stride + 16 * half + 4 * j);
        }
    }
}

// The same with 8-bit codes, shifted by 128.
template <int R, int T>
TW_INLINE void dot_block8(Int (&acc)[R][T], const uint8_t* w, long tile_bytes, const int8_t* x, long stride) {
    TW_UNROLL for (int j = 0; j < 8; j++) {
        Bytes codes[T];
        TW_UNROLL for (int t = 0; t < T; t++) codes[t] = load_bytes(w + t * tile_bytes + j * 64);
        TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int t = 0; t < T; t++) acc[r][t] =
            dot_bytes(acc[r][t], codes[t], x + r * stride + 4 * j);
    }
}

// Fetches a share of the same group of the T tiles after these into cache, in parts where there is
// much of it: many requests at once would wait for each other.
template <class Group, int T>
struct Fetch {
    const uint8_t *codes, *scales;
    long groups;
    Lines lines;

    inline __attribute__((always_inline)) void part(int which, int of) const {
        constexpr long code_lines = Group::code_bytes / 64;
        const long count = lines.end - lines.begin;
        for (long i = count * which / of; i < count * (which + 1) / of; i++) {
            const long line = lines.begin + i;
            const bool scale = line >= code_lines;
            const long step = groups * (scale ? Group::scale_bytes : Group::code_bytes);
            const uint8_t* next = scale ? scales + (line - code_lines) * 64 : codes + line * 64;
            TW_UNROLL for (int t = T; t < 2 * T; t++) prefetch(next + t * step);
        }
    }
};

// A Group says how many bytes of codes and of scales a tile has for 64 rows of k, and adds what they come to
// with the activations to the totals: in units of the weights' own (`has_units`), or of the activations'
// scale.
template <class Group>
struct IntProduct {
    static constexpr int rows = kIntRows, tiles = kIntTiles, few_rows = Group::few_rows,
                         few_tiles = kIntFewTiles;

    template <int R, int T>
    TW_INLINE void block(const Product& p, long row, long tile, float* out, long stride, Ahead ahead) {
        const Matrix& w = *p.w;
        const long groups = w.groups();
        const uint8_t* codes = w.data + tile * groups * Group::code_bytes;
        const uint8_t* scales = w.scales + tile * groups * Group::scale_bytes;
        const Lines lines = ahead.share((Group::code_bytes + Group::scale_bytes) / 64);
        if (Group::has_units && ahead.part == 0)
            TW_UNROLL for (int t = T; t < 2 * T; t++) prefetch(w.units() + (tile + t) * 16);
        Float total[R][T];
        TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int t = 0; t < T; t++) total[r][t] = splat(0);
        for (long g = 0; g < groups; g++) {
            const uint8_t *c = codes + g * Group::code_bytes, *s = scales + g * Group::scale_bytes;
            Group::template add_group<R, T>(total, *p.x, row, g, groups, c, s,
                                            Fetch<Group, T>{c, s, groups, lines});
        }
        TW_UNROLL for (int t = 0; t < T; t++) {
            const Float unit = Group::has_units ? load(w.units() + (tile + t) * 16) : splat(0);
            TW_UNROLL for (int r = 0; r < R; r++) {
                const Float last = splat(p.x->scale[(row + r) * groups + groups - 1]);
                total[r][t] = mul(total[r][t], Group::has_units ? unit : last);
            }
        }
        put(p, total, row, tile, out, stride);
    }
};

// 4-bit codes with whole steps: a group's sum is an integer. A block's sum of x * (code - 8) has 16 bits, so
// both blocks' sums become the halves of a lane: the odd block's is raised before the even block's is added,
// which is shifted by 2^15 meanwhile lest it borrows from the other.
struct Steps4 {
    static constexpr int few_rows = kInt4FewRows;
    static constexpr long code_bytes = 512, scale_bytes = 128;
    static constexpr bool has_units = true;

    template <int R, int T>
    TW_INLINE void add_group(Float (&total)[R][T], const Activations& a, long row, long g, long groups,
                             const uint8_t* codes, const uint8_t* steps, const Fetch<Steps4, T>& fetch) {
        const long code_tile = groups * code_bytes, step_tile = groups * scale_bytes;
        const int8_t* x = a.codes + row * a.stride + g * 64;
        const int32_t* offset = a.offset + (row * groups + g) * 2;
        const int32_t* sums = a.sums + row * groups + g;
        const float* scale = a.scale + row * groups + g;
        Int acc[R][T];
        TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int t = 0; t < T; t++) acc[r][t] =
            isplat(offset[r * groups * 2 + 1]);
        fetch.part(0, 1);
        dot_block4(acc, codes + 256, code_tile, x + 32, a.stride);
        TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int t = 0; t < T; t++) acc[r][t] =
            iadd(raised(acc[r][t]), isplat(offset[r * groups * 2]));
        dot_block4(acc, codes, code_tile, x, a.stride);
        TW_UNROLL for (int t = 0; t < T; t++) {
            const Bytes step = load_bytes(steps + t * step_tile),
                        minimum = load_bytes(steps + t * step_tile + 64);
            TW_UNROLL for (int r = 0; r < R; r++) {
                Int sum = dot_words(isplat(0), (Int)minimum, isplat(sums[r * groups]));
                sum = dot_words(sum, (Int)step, ixor(acc[r][t], isplat(0x8000)));
                total[r][t] = fma(to_float(sum), splat(scale[r * groups]), total[r][t]);
            }
        }
    }
};

struct NarrowScales {
    static constexpr long bytes = 32;
    TW_INLINE Float get(const uint8_t* p) { return load_f16((const uint16_t*)p); }
};
struct WideScales {
    static constexpr long bytes = 64;
    TW_INLINE Float get(const uint8_t* p) { return load((const float*)p); }
};

// Codes with float scales. Totals are in units of the activations' scale of the group at hand.
template <bool kFourBit, class Scales>
struct Scaled {
    static constexpr int few_rows = kFourBit ? kInt4FewRows : kInt8FewRows;
    static constexpr long block_scales = (kFourBit ? 2 : 1) * Scales::bytes;
    static constexpr long code_bytes = kFourBit ? 512 : 1024, scale_bytes = 2 * block_scales;
    static constexpr bool has_units = false;

    template <int R, int T>
    TW_INLINE void add_group(Float (&total)[R][T], const Activations& a, long row, long g, long groups,
                             const uint8_t* codes, const uint8_t* scales, const Fetch<Scaled, T>& fetch) {
        const long code_tile = groups * code_bytes, scale_tile = groups * scale_bytes;
        const float* ratio = a.ratio + row * groups + g;
        TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int t = 0; t < T; t++) total[r][t] =
            mul(total[r][t], splat(ratio[r * groups]));
        TW_UNROLL for (int b = 0; b < 2; b++) {
            const int8_t* x = a.codes + row * a.stride + g * 64 + b * 32;
            const long at = (row * groups + g) * 2 + b;
            fetch.part(b, 2);
            Int acc[R][T];
            TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int t = 0; t < T; t++) acc[r][t] =
                isplat(kFourBit ? 0 : a.offset[at + r * groups * 2]);
            if constexpr (kFourBit)
                dot_block4(acc, codes + b * 256, code_tile, x, a.stride);
            else
                dot_block8(acc, codes + b * 512, code_tile, x, a.stride);
            TW_UNROLL for (int t = 0; t < T; t++) {
                const uint8_t* s = scales + t * scale_tile + b * block_scales;
                const Float scale = Scales::get(s);
                TW_UNROLL for (int r = 0; r < R; r++) {
                    total[r][t] = fma(scale, to_float(acc[r][t]), total[r][t]);
                    if constexpr (kFourBit)
                        total[r][t] = fma(Scales::get(s + Scales::bytes),
                                          splat(a.block_sum[at + r * groups * 2]), total[r][t]);
                }
            }
        }
    }
};

void matmul_int4(const Product& p, long r0, long r1, long t0, long t1) {
    if (p.w->wide)
        product<IntProduct<Scaled<true, WideScales>>>(p, r0, r1, t0, t1);
    else
        product<IntProduct<Steps4>>(p, r0, r1, t0, t1);
}

void matmul_int8(const Product& p, long r0, long r1, long t0, long t1) {
    if (p.w->wide)
        product<IntProduct<Scaled<false, WideScales>>>(p, r0, r1, t0, t1);
    else
        product<IntProduct<Scaled<false, NarrowScales>>>(p, r0, r1, t0, t1);
}

}  // namespace TW_ISA
}  // namespace twinfer
