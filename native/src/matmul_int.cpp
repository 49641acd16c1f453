// Products with 8-bit and 4-bit weights and 8-bit activations: exact integer sums over blocks of 32 or groups
// of 64, then float multiply-adds in their order.
#include "matmul.h"

namespace twinfer {
namespace TW_ISA {

// Codes of 4 bits come packed; where rows share them, the first rows keep them unpacked for the others.
enum class Codes { packed, kept, unpacked };
constexpr long kUnpackedBytes = 1024;  // of a group of a tile

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

// Fetches the T tiles after these into cache, a share at each call: many requests at once would wait for each
// other. All shares are as many lines, so that loops over them end as predicted; the last may go beyond.
template <class Group, int T>
struct Fetch {
    const uint8_t *codes, *scales;
    long lines;
    bool with_scales;

    TW_METHOD Fetch(const uint8_t* next_codes, const uint8_t* next_scales, long groups, Ahead ahead) {
        const long calls = ahead.parts * Group::fetches;
        lines = (T * Group::code_bytes / 64 + calls - 1) / calls;
        codes = next_codes + ahead.part * Group::fetches * groups * lines * 64;
        scales = next_scales;
        with_scales = ahead.part == 0;
    }
    TW_METHOD void share() {
        for (long i = 0; i < lines; i++, codes += 64) prefetch(codes);
        if (!with_scales) return;
        constexpr int scale_lines = T * Group::scale_bytes / 64 / Group::fetches;
        TW_UNROLL for (int i = 0; i < scale_lines; i++) prefetch(scales + i * 64);
        scales += scale_lines * 64;
    }
};

template <class Group>
struct SharedProduct;

// A Group says how many bytes of codes and of scales a tile has for 64 rows of k, and adds what they come to
// with the activations to the totals: in units of the weights' own (`has_units`), or of the activations'
// scale. It also says whether blocks of rows share unpacked codes.
template <class Group>
struct IntProduct {
    static constexpr bool shares = Group::shares;
    static constexpr int rows = kIntRows, tiles = kIntTiles, few_rows = Group::few_rows,
                         few_tiles = kIntFewTiles;

    template <int R, int T>
    TW_INLINE void block(const Product& p, long row, long tile, float* out, long stride, Ahead ahead) {
        const Matrix& w = *p.w;
        const long groups = w.groups();
        const uint8_t* codes = w.data + tile * groups * Group::code_bytes;
        const uint8_t* scales = w.scales + tile * groups * Group::scale_bytes;
        const long code_tile = groups * Group::code_bytes, scale_tile = groups * Group::scale_bytes;
        Fetch<Group, T> fetch(codes + T * code_tile, scales + T * scale_tile, groups, ahead);
        if (Group::has_units && ahead.part == 0)
            TW_UNROLL for (int t = T; t < 2 * T; t++) prefetch(w.units() + (tile + t) * 16);
        const int8_t* x = p.x->codes + row * 64;
        const CodeGroup* of = p.x->groups + row;
        Float total[R][T];
        TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int t = 0; t < T; t++) total[r][t] = splat(0);
        const CodeGroup* before = of;  // totals are zero then, in any unit
        for (long g = 0; g < groups; g++) {
            Group::template add_group<Codes::packed, R, T>(total, x, of, before, codes, code_tile, nullptr,
                                                           scales, scale_tile, fetch);
            x += p.x->rows * 64;
            before = of;
            of += p.x->rows;
            codes += Group::code_bytes;
            scales += Group::scale_bytes;
        }
        finish(total, p, before, row, tile, out, stride);
    }

    // What totals come to, given the activations' last groups.
    template <int R, int T>
    TW_INLINE void finish(Float (&total)[R][T], const Product& p, const CodeGroup* last, long row, long tile,
                          float* out, long stride) {
        TW_UNROLL for (int t = 0; t < T; t++) {
            const Float unit = Group::has_units ? load(p.w->units() + (tile + t) * 16) : splat(0);
            TW_UNROLL for (int r = 0; r < R; r++) {
                const Float scale = splat(last[r].scale);
                total[r][t] = mul(total[r][t], Group::has_units ? unit : scale);
            }
        }
        put(p, total, row, tile, out, stride);
    }

    static void shared(const Product& p, long row_begin, long row_end, long tile_begin, long tile_end) {
        SharedProduct<Group>::run(p, row_begin, row_end, tile_begin, tile_end);
    }
};

// Many rows by 4-bit weights, where it takes long to unpack these: all rows of a block of kRows share the
// codes of kGroups groups of a tile, and their totals wait in memory for the next groups.
template <class Group>
struct SharedProduct {
    static constexpr long kRows = 104, kGroups = 12, kWidth = 32;

    const Product& p;
    const long row_begin, row_end;
    alignas(64) float totals[kRows * kWidth];  // of two tiles
    alignas(64) uint8_t codes[kGroups * kUnpackedBytes];

    TW_METHOD SharedProduct(const Product& product, long first, long end)
        : p(product), row_begin(first), row_end(end) {}

    // Adds groups [first, end) to the totals at `at`; the last ones end the product.
    template <Codes kCodes, int R>
    TW_METHOD void block(long rows, long row, long tile, long first, long end, float* at, Ahead ahead) {
        if constexpr (R > 1)
            if (rows < R) return block<kCodes, R - 1>(rows, row, tile, first, end, at, ahead);
        const Matrix& w = *p.w;
        const long groups = w.groups(), at_group = tile * groups + first, rows_apart = p.x->rows;
        const uint8_t* packed = w.data + at_group * Group::code_bytes;
        const uint8_t* scales = w.scales + at_group * Group::scale_bytes;
        const long code_tile = groups * Group::code_bytes, scale_tile = groups * Group::scale_bytes;
        Fetch<Group, 1> fetch(packed + code_tile, scales + scale_tile, end - first, ahead);
        const int8_t* x = p.x->codes + (first * rows_apart + row) * 64;
        const CodeGroup* of = p.x->groups + first * rows_apart + row;
        const CodeGroup* before = first ? of - rows_apart : of;
        uint8_t* unpacked = codes;
        Float total[R][1];
        TW_UNROLL for (int r = 0; r < R; r++) total[r][0] = first ? load(at + r * kWidth) : splat(0);
        for (long g = first; g < end; g++) {
            Group::template add_group<kCodes, R, 1>(total, x, of, before, packed, code_tile, unpacked, scales,
                                                    scale_tile, fetch);
            x += rows_apart * 64;
            before = of;
            of += rows_apart;
            packed += Group::code_bytes;
            unpacked += kUnpackedBytes;
            scales += Group::scale_bytes;
        }
        if (end == groups)
            IntProduct<Group>::finish(total, p, before, row, tile, at, kWidth);
        else
            TW_UNROLL for (int r = 0; r < R; r++) store(at + r * kWidth, total[r][0]);
    }

    TW_METHOD void add_tile(long tile, float* to) {
        const long count = row_end - row_begin, parts = (count + kIntRows - 1) / kIntRows;
        const long groups = p.w->groups(), turns = (groups + kGroups - 1) / kGroups;
        for (long turn = 0; turn < turns; turn++) {
            const long first = groups * turn / turns, end = groups * (turn + 1) / turns;
            for (long part = 0; part < parts; part++) {
                const long from = count * part / parts, rows = count * (part + 1) / parts - from;
                float* at = to + from * kWidth;
                const Ahead ahead = {part, parts};
                if (part == 0)
                    block<Codes::kept, kIntRows>(rows, row_begin, tile, first, end, at, ahead);
                else
                    block<Codes::unpacked, kIntRows>(rows, row_begin + from, tile, first, end, at, ahead);
            }
        }
    }

    static void run(const Product& p, long row_begin, long row_end, long tile_begin, long tile_end) {
        for (long row = row_begin; row < row_end; row += kRows) {
            const long end = row_end - row < kRows ? row_end : row + kRows;
            SharedProduct shared(p, row, end);
            for (long tile = tile_begin; tile < tile_end; tile += 2) {
                const long tiles = tile_end - tile < 2 ? 1 : 2;
                for (long t = 0; t < tiles; t++) shared.add_tile(tile + t, shared.totals + t * 16);
                if (p.epilogue == Epilogue::swiglu)
                    swiglu(p, shared.totals, kWidth, row, end - row, tile, tiles);
            }
        }
    }
};

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
