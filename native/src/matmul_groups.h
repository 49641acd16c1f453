// Integer products as a loop over groups of 64 rows of k. What a group adds to the totals is for its type to
// say (`matmul_int.cpp`), which has
//
//   code_bytes, scale_bytes   of a group of a tile
//   has_units                 whether totals are in units of the weights' own, or of the activations' scale
//   few_rows                  see matmul.h
//   shares                    whether blocks of rows share unpacked codes
//   fetches                   how often `add_group` calls `Fetch::share`
//   add_group<kCodes, R, T>   adds what the codes come to with the activations
#pragma once

#include "matmul.h"

namespace twinfer {
namespace TW_ISA {

// Codes of 4 bits come packed; where rows share them, the first rows keep them unpacked for the others.
enum class Codes { packed, kept, unpacked };
constexpr long kUnpackedBytes = 1024;  // of a group of a tile

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

// All of k for a block of rows and tiles.
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

}  // namespace TW_ISA
}  // namespace twinfer
