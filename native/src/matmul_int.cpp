// Products with 8-bit and 4-bit weights and 8-bit activations: exact integer sums over blocks of 32 or groups
// of 64, then float multiply-adds in their order.
#include "matmul_groups.h"

namespace twinfer {
namespace TW_ISA {

// Step j of a pass over a group: the codes in low nibbles and those in high ones.
template <Codes kCodes>
TW_INLINE void load_codes4(Bytes& low, Bytes& high, const uint8_t* packed, uint8_t* unpacked, int pass,
                           int j) {
    if constexpr (kCodes == Codes::unpacked) {
        low = load_bytes(unpacked + j * 128);
        high = load_bytes(unpacked + j * 128 + 64);
    } else {
        const Bytes both = load_nibbles(packed, pass, j);
        low = low_nibbles(both);
        high = high_nibbles(both);
    }
    if constexpr (kCodes == Codes::kept) {
        store_bytes(unpacked + j * 128, low);
        store_bytes(unpacked + j * 128 + 64, high);
    }
}

// acc += a pass over a group of T tiles with 4-bit codes. Some rows are done before the others where each
// pass has sums of its own, so that what follows for them need not wait for all.
template <Codes kCodes, int R, int T>
TW_INLINE void dot_pass4(Int (&acc)[R][T], const uint8_t* w, long tile_bytes, uint8_t* unpacked, int pass,
                         const int8_t* x) {
    constexpr int kSteps = 8 / kPasses4, kTurns = kPasses4 == 1 || R % 3 ? 1 : 3, kTurn = R / kTurns;
    TW_UNROLL for (int j = 0; j < kSteps; j++) {
        Bytes codes[2][T];
        TW_UNROLL for (int t = 0; t < T; t++)
            load_codes4<kCodes>(codes[0][t], codes[1][t], w + t * tile_bytes, unpacked, pass, j);
        TW_UNROLL for (int i = 0; i < 2 * R; i++) {
            const int half = i / kTurn % 2, r = i / (2 * kTurn) * kTurn + i % kTurn;
            TW_UNROLL for (int t = 0; t < T; t++) acc[r][t] =
                dot_nibbles(acc[r][t], codes[half][t], x + r * 64 + 4 * ((2 * pass + half) * kSteps + j));
        }
    }
}

// acc += 32 rows of k of T tiles with 8-bit codes.
template <int R, int T>
TW_INLINE void dot_block8(Int (&acc)[R][T], const uint8_t* w, long tile_bytes, const int8_t* x) {
    TW_UNROLL for (int j = 0; j < 8; j++) {
        Weights8 codes[T];
        TW_UNROLL for (int t = 0; t < T; t++) codes[t] = load_weights8(w + t * tile_bytes + j * 64);
        TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int t = 0; t < T; t++) acc[r][t] =
            dot_weights8(acc[r][t], codes[t], x + r * 64 + 4 * j);
    }
}

// 4-bit codes with whole steps: a group's sum is an integer. A block's sum of x * (code - 8) has 16 bits, so
// both blocks' sums become the halves of a lane: the odd block's is raised before the even block's is added,
// which is shifted by 2^15 meanwhile lest it borrows from the other, unless one pass sums both.
struct Steps4 {
    static constexpr int few_rows = kInt4FewRows;
    static constexpr long code_bytes = 512, scale_bytes = 128;
    static constexpr bool has_units = true, shares = kPasses4 == 1;
    static constexpr int fetches = 1;

    template <Codes kCodes, int R, int T>
    TW_INLINE void add_group(Float (&total)[R][T], const int8_t* x, const CodeGroup* of, const CodeGroup*,
                             const uint8_t* codes, long code_tile, uint8_t* unpacked, const uint8_t* steps,
                             long scale_tile, Fetch<Steps4, T>& fetch) {
        Int acc[R][T];
        TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int t = 0; t < T; t++) acc[r][t] =
            isplat(of[r].offset[kPasses4 - 1]);
        fetch.share();
        if constexpr (kPasses4 == 2) {
            dot_pass4<kCodes>(acc, codes, code_tile, unpacked, 1, x);
            TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int t = 0; t < T; t++) acc[r][t] =
                iadd(raised(acc[r][t]), isplat(of[r].offset[0]));
        }
        dot_pass4<kCodes>(acc, codes, code_tile, unpacked, 0, x);
        TW_UNROLL for (int t = 0; t < T; t++) {
            const Bytes step = load_bytes(steps + t * scale_tile),
                        minimum = load_bytes(steps + t * scale_tile + 64);
            TW_UNROLL for (int r = 0; r < R; r++) {
                Int sum = dot_words(isplat(0), (Int)minimum, isplat(of[r].sums));
                sum = dot_words(sum, (Int)step, shifted_back(acc[r][t]));
                total[r][t] = fma(to_float(sum), splat(of[r].scale), total[r][t]);
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
    static constexpr bool has_units = false, shares = kFourBit && kPasses4 == 1;
    static constexpr int fetches = 2;
    static constexpr bool kOnePass = kFourBit && kPasses4 == 1;

    template <Codes kCodes, int R, int T>
    TW_INLINE void add_group(Float (&total)[R][T], const int8_t* x, const CodeGroup* of,
                             const CodeGroup* before, const uint8_t* codes, long code_tile, uint8_t* unpacked,
                             const uint8_t* scales, long scale_tile, Fetch<Scaled, T>& fetch) {
        TW_UNROLL for (int r = 0; r < R; r++) {
            const Float ratio = splat(before[r].scale * of[r].inverse);
            TW_UNROLL for (int t = 0; t < T; t++) total[r][t] = mul(total[r][t], ratio);
        }
        Int both[R][T];
        if constexpr (kOnePass) {
            TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int t = 0; t < T; t++) both[r][t] =
                isplat(of[r].offset[0]);
            dot_pass4<kCodes>(both, codes, code_tile, unpacked, 0, x);
        }
        TW_UNROLL for (int b = 0; b < 2; b++) {
            fetch.share();
            Int acc[R][T];
            TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int t = 0; t < T; t++) acc[r][t] =
                kFourBit ? isplat(0) : begin8(of[r].offset[b]);
            if constexpr (!kFourBit)
                dot_block8(acc, codes + b * 512, code_tile, x + 32 * b);
            else if constexpr (kPasses4 == 2)
                dot_pass4<kCodes>(acc, codes, code_tile, unpacked, b, x);
            TW_UNROLL for (int t = 0; t < T; t++) {
                const uint8_t* s = scales + t * scale_tile + b * block_scales;
                const Float scale = Scales::get(s);
                TW_UNROLL for (int r = 0; r < R; r++) {
                    Float sum;
                    if constexpr (kOnePass)
                        sum = fma(splat(8), splat(of[r].block_sum[b]), to_float(half(both[r][t], b)));
                    else
                        sum = to_float(acc[r][t]);
                    total[r][t] = fma(scale, sum, total[r][t]);
                    if constexpr (kFourBit)
                        total[r][t] =
                            fma(Scales::get(s + Scales::bytes), splat(of[r].block_sum[b]), total[r][t]);
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
