// What the matrix products share: splitting rows and tiles over register blocks, and what becomes of results.
//
// A product file defines a struct with `rows`, `tiles` (register block), `few_rows`, `few_tiles` (a wider
// block for few rows) and `block<R, T>(product, row, tile, out, stride, ahead)`, which computes R rows of T
// tiles, gives them to `put`, and fetches its share of the tiles after them into cache on the way. An
// element's arithmetic never depends on R or T, so results do not depend on the split. Where it `shares`,
// more than `rows` rows are its own to split, in `shared`.
#pragma once

#include "kernels.h"
#include "simd.h"

namespace twinfer {
namespace TW_ISA {

constexpr int kMaxRows = 8, kMaxTiles = 4;

// Columns of one tile that exist.
TW_INLINE Mask columns(const Matrix& w, long tile) { return first(w.n - tile * 16); }

// Stores R rows of T whole tiles, or adds them.
template <int R, int T>
TW_INLINE void put_rows(const Float (&results)[R][T], float* at, long stride, bool add_to) {
    if (add_to) {
        TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int t = 0; t < T; t++)
            store(at + r * stride + t * 16, add(load(at + r * stride + t * 16), results[r][t]));
    } else {
        TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int t = 0; t < T; t++)
            store(at + r * stride + t * 16, results[r][t]);
    }
}

// Does with R rows of T tiles of results what the product says. Those of SwiGLU meet in pairs of tiles; where
// tiles come one by one, they go to `apart` [R][stride] until all of a row's are there.
template <int R, int T>
TW_INLINE void put(const Product& p, const Float (&results)[R][T], long row, long tile, float* apart,
                   long stride) {
    static_assert(T <= 2);
    if (p.epilogue == Epilogue::swiglu) {
        float* to = T % 2 ? apart : p.out + row * p.out_stride + tile / 2 * 16;
        TW_UNROLL for (int t = 0; t < T; t += 2) TW_UNROLL for (int r = 0; r < R; r++) {
            if constexpr (T % 2)
                store(to + r * stride, results[r][t]);
            else
                store(to + r * p.out_stride + t / 2 * 16, mul(silu(results[r][t]), results[r][t + 1]));
        }
        return;
    }
    const long rows_apart = p.out_stride;
    float* at = p.out + row * rows_apart + tile * 16;
    const bool add_to = p.epilogue == Epilogue::add;
    if (p.w->n >= (tile + T) * 16) {
        put_rows(results, at, rows_apart, add_to);
        return;
    }
    TW_UNROLL for (int t = 0; t < T; t++) {
        const Mask m = columns(*p.w, tile + t);
        TW_UNROLL for (int r = 0; r < R; r++) {
            float* to = at + r * rows_apart + t * 16;
            store(to, add_to ? add(load(to, m), results[r][t]) : results[r][t], m);
        }
    }
}

// SwiGLU of R rows of pairs of tiles in results [R][stride].
TW_APART void swiglu(const Product& p, const float* results, long stride, long row, long rows, long tile,
                     long tiles) {
    for (long r = 0; r < rows; r++) {
        const float* from = results + r * stride;
        float* to = p.out + (row + r) * p.out_stride + tile / 2 * 16;
        for (long t = 0; t < tiles; t += 2)
            store(to + t / 2 * 16, mul(silu(load(from + t * 16)), load(from + t * 16 + 16)));
    }
}

// Blocks of rows that meet the same weights share the fetching of the next ones: this is one part of `parts`.
struct Ahead {
    long part, parts;
};

// Calls block<R, T> for a number of rows known at run time only.
template <class P, int R, int T>
TW_INLINE void block_of_rows(const Product& p, long rows, long row, long tile, float* out, long stride,
                             Ahead ahead) {
    if (rows == R)
        P::template block<R, T>(p, row, tile, out, stride, ahead);
    else if constexpr (R > 1)
        block_of_rows<P, R - 1, T>(p, rows, row, tile, out, stride, ahead);
}

// All rows of `tiles` tiles, T at a time; `tiles` is at most kMaxTiles.
template <class P, int R, int T>
static void group(const Product& p, long row_begin, long row_end, long tile, long tiles) {
    alignas(64) float out[kMaxRows * kMaxTiles * 16];
    const long stride = kMaxTiles * 16;
    const long count = row_end - row_begin, parts = (count + R - 1) / R;
    for (long part = 0; part < parts; part++) {
        const long row = row_begin + count * part / parts;
        const long rows = row_begin + count * (part + 1) / parts - row;
        const Ahead ahead = {part, parts};
        long t = 0;
        for (; t + T <= tiles; t += T)
            block_of_rows<P, R, T>(p, rows, row, tile + t, out + t * 16, stride, ahead);
        for (; t < tiles; t++) block_of_rows<P, R, 1>(p, rows, row, tile + t, out + t * 16, stride, ahead);
        if (T % 2 && p.epilogue == Epilogue::swiglu) swiglu(p, out, stride, row, rows, tile, tiles);
    }
}

template <class P>
static void product(const Product& p, long row_begin, long row_end, long tile_begin, long tile_end) {
    if constexpr (P::shares)
        if (row_end - row_begin > P::rows) return P::shared(p, row_begin, row_end, tile_begin, tile_end);
    bool few = row_end - row_begin <= P::few_rows;
    // SwiGLU needs gate and up of a pair together, so groups hold at least two tiles.
    long step = few ? P::few_tiles : P::tiles;
    if (step < 2) step = 2;
    for (long tile = tile_begin; tile < tile_end; tile += step) {
        long tiles = tile_end - tile < step ? tile_end - tile : step;
        if (few)
            group<P, P::few_rows, P::few_tiles>(p, row_begin, row_end, tile, tiles);
        else
            group<P, P::rows, P::tiles>(p, row_begin, row_end, tile, tiles);
    }
}

}  // namespace TW_ISA
}  // namespace twinfer
