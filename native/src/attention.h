// The two products of attention: scores of rows against keys, and values weighted by a row's softmax.
//
// A row is a (query, head) pair; all rows of a call share one KV head, so every load of a key or value serves
// all of them. Units of 4 bytes are what kernels.h says: a float, a pair of bf16, or four 8-bit codes. With
// 8 bits, queries are two codes, the first worth 128 of the second, with a scale per row, and weights are
// unsigned 8 bits with a scale per row and block of 128 positions; both products are exact integers.
#pragma once

#include "kernels.h"
#include "simd.h"

namespace twinfer {
namespace TW_ISA {

// What the first of a query's two 8-bit codes is worth in units of the second.
constexpr int kQueryStep = 128;

// How an element type is computed: elements of a unit, units of a page's 16 tokens and of a block's weights.
template <KvType kType>
struct Kind {
    static constexpr bool f32 = kType == KvType::f32, bf16 = kType == KvType::bf16,
                          int8 = kType == KvType::int8;
    static constexpr long elements = f32 ? 1 : bf16 ? 2 : 4, page_units = kPageTokens / elements;
    static constexpr int query_parts = int8 ? 2 : 1;
    static constexpr long weight_stride = page_units * kBlockPages;
    static constexpr long skip = int8 ? kScaleBytes : 0;  // bytes in front of a block's units
    static long units(long head_dim) { return (head_dim + elements - 1) / elements; }
    // Units from one row of values to the next.
    static long value_stride(long head_dim) { return int8 ? (head_dim + 3) / 4 * 4 : head_dim; }
};

// Working memory of one call; rows are padded to whole vectors.
struct Work {
    long dims;                          // head_dim padded to 16
    uint32_t* q;                        // [rows][key units][parts]
    float* q_scale;                     // [rows], of 8-bit queries
    int32_t* q_offset;                  // [parts][rows], -128 * sum of the codes
    float* scores;                      // [rows][128]
    uint32_t* p;                        // [rows][weight_stride]
    float* p_scale;                     // [rows], of 8-bit weights
    float* values;                      // [rows][dims], merged so far
    float* block;                       // [rows][dims], of the block at hand
    float *most, *total;                // [rows], merged so far
    float *block_most, *block_total;    // [rows], of the block at hand
    float *keep, *take;                 // [rows], factors of a merge
    uint32_t* tail;                     // one value block, with what lies behind the end cleared
    const uint32_t* keys[kBlockPages];  // of the block at hand
    const uint32_t* at_values[kBlockPages];
    const uint8_t* ahead[2 * kBlockPages];  // what to fetch while a page's keys, then its values are used
};

TW_INLINE Work carve(void* scratch, long head_dim) {
    Work w;
    w.dims = padded_dims(head_dim);
    float* at = (float*)(((uintptr_t)scratch + 63) / 64 * 64);
    auto next = [&at](long n) {
        float* p = at;
        at += n;
        return p;
    };
    w.q = (uint32_t*)next(kTileRows * w.dims);
    w.scores = next(kTileRows * kBlockTokens);
    w.p = (uint32_t*)next(kTileRows * kBlockTokens);
    w.values = next(kTileRows * w.dims);
    w.block = next(kTileRows * w.dims);
    float** const per_row[] = {&w.q_scale,    &w.p_scale,     &w.most, &w.total,
                               &w.block_most, &w.block_total, &w.keep, &w.take};
    for (float** p : per_row) *p = next(kTileRows);
    w.q_offset = (int32_t*)next(2 * kTileRows);
    w.tail = (uint32_t*)next(kPageTokens * w.dims);
    return w;
}

// A sum of units that starts with a number, its end, and acc + a unit of keys times one of the query, or of
// values times one of the weights.
template <KvType kType>
struct Sum {
    Float x;
    TW_INLINE Sum from(int32_t) { return {splat(0)}; }
    TW_INLINE Float result(Sum s) { return s.x; }
    TW_INLINE Sum weigh(Sum acc, const uint32_t* vector, const uint32_t* unit) {
        return dot(acc, vector, unit);
    }
    TW_INLINE Sum dot(Sum acc, const uint32_t* vector, const uint32_t* unit) {
        if constexpr (Kind<kType>::bf16) return {dot_bf16(acc.x, load_bytes(vector), unit)};
        return {fma(load((const float*)vector), splat(*(const float*)unit), acc.x)};
    }
};
template <>
struct Sum<KvType::int8> {
    Int x;
    TW_INLINE Sum from(int32_t offset) { return {isplat(offset)}; }
    TW_INLINE Float result(Sum s) { return to_float(s.x); }
    TW_INLINE Sum dot(Sum acc, const uint32_t* vector, const uint32_t* unit) {
        return {dot_bytes_often(acc.x, load_bytes(vector), (const int8_t*)unit)};
    }
    TW_INLINE Sum weigh(Sum acc, const uint32_t* vector, const uint32_t* unit) {
        return {dot_signed_often(acc.x, load_bytes(vector), (const uint8_t*)unit)};
    }
};

// Scores of R rows against the 16 keys of each of P pages. With kFetch, each line that is read fetches one of
// what comes later: pages lie anywhere in memory, so nobody else foresees them.
template <KvType kType, int R, int P, bool kFetch>
TW_INLINE void score_block(const Work& w, long row, long units, long page) {
    using S = Sum<kType>;
    constexpr int N = Kind<kType>::query_parts;
    S acc[R][P], rest[R][P];  // of the queries' first and second codes
    TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int p = 0; p < P; p++) {
        acc[r][p] = S::from(N == 2 ? w.q_offset[row + r] : 0);
        if constexpr (N == 2) rest[r][p] = S::from(w.q_offset[kTileRows + row + r]);
    }
    for (long u = 0; u < units; u++) {
        if constexpr (kFetch) TW_UNROLL for (int p = 0; p < P; p++) prefetch(w.ahead[page + p] + u * 64);
        TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int p = 0; p < P; p++) {
            const uint32_t *keys = w.keys[page + p] + u * 16, *q = w.q + ((row + r) * units + u) * N;
            acc[r][p] = S::dot(acc[r][p], keys, q);
            if constexpr (N == 2) rest[r][p] = S::dot(rest[r][p], keys, q + 1);
        }
    }
    TW_UNROLL for (int p = 0; p < P; p++) {
        // The scales in front make it one line more.
        if constexpr (kFetch && Kind<kType>::skip) prefetch(w.ahead[page + p] + units * 64);
        Float scale = splat(1);
        if constexpr (Kind<kType>::int8) scale = load((const float*)w.keys[page + p] - kPageTokens);
        TW_UNROLL for (int r = 0; r < R; r++) {
            Float score = S::result(acc[r][p]);
            if constexpr (N == 2) score = fma(score, splat(kQueryStep), S::result(rest[r][p]));
            if constexpr (Kind<kType>::int8) score = mul(mul(score, splat(w.q_scale[row + r])), scale);
            store(w.scores + (row + r) * kBlockTokens + (page + p) * 16, score);
        }
    }
}

template <KvType kType, int R, bool kFetch>
TW_APART void score_rows(const Work& w, long row, long units, long pages) {
    // Few rows take more pages at once, to have enough independent sums under way.
    constexpr int P = R * kScorePages * 2 <= kScoreRows * kScorePages ? kScorePages * 2 : kScorePages;
    long p = 0;
    for (; p + P <= pages; p += P) score_block<kType, R, P, kFetch>(w, row, units, p);
    for (; p < pages; p++) score_block<kType, R, 1, kFetch>(w, row, units, p);
}

// block [R][dims] = the pages' values weighted by p, over V vectors from dimension `dim` on. The last vector
// of an odd head size is cut by `mask`.
template <KvType kType, int R, int V, bool kCut, bool kFetch>
TW_INLINE void value_block(const Work& w, long row, long pages, long stride, long dim, Mask mask) {
    using S = Sum<kType>;
    constexpr long units = Kind<kType>::page_units, p_stride = Kind<kType>::weight_stride;
    const uint32_t* weights = w.p + row * p_stride;
    S acc[R][V];
    TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int v = 0; v < V; v++) acc[r][v] = S::from(0);
    for (long page = 0; page < pages; page++) {
        const uint32_t* at = w.at_values[page] + dim;
        for (long u = 0; u < units; u++) {
            TW_UNROLL for (int v = 0; v < V; v++) {
                alignas(64) uint32_t cut[16];
                const uint32_t* vector = at + u * stride + v * 16;
                if constexpr (kFetch) prefetch(w.ahead[pages + page] + 4 * (u * stride + dim + v * 16));
                if constexpr (kCut) {
                    store((float*)cut, load((const float*)vector, mask));
                    vector = cut;
                }
                TW_UNROLL for (int r = 0; r < R; r++) acc[r][v] =
                    S::weigh(acc[r][v], vector, weights + r * p_stride + page * units + u);
            }
        }
    }
    TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int v = 0; v < V; v++) {
        Float sum = S::result(acc[r][v]);
        if constexpr (Kind<kType>::int8) sum = mul(sum, splat(w.p_scale[row + r]));
        store(w.block + (row + r) * w.dims + dim + v * 16, sum);
    }
}

template <KvType kType, int R, bool kFetch>
TW_APART void value_rows(const Work& w, long row, long pages, long head_dim) {
    constexpr int V = kValueVectors;
    const long stride = Kind<kType>::value_stride(head_dim);
    long dim = 0;
    for (; dim + V * 16 <= head_dim; dim += V * 16)
        value_block<kType, R, V, false, kFetch>(w, row, pages, stride, dim, first(16));
    for (; dim + 16 <= head_dim; dim += 16)
        value_block<kType, R, 1, false, kFetch>(w, row, pages, stride, dim, first(16));
    if (dim < head_dim)
        value_block<kType, R, 1, true, kFetch>(w, row, pages, stride, dim, first(head_dim - dim));
}

template <KvType kType, int R, bool kFetch>
TW_INLINE void some_scores(long rows, const Work& w, long row, long units, long pages) {
    if (rows == R)
        score_rows<kType, R, kFetch>(w, row, units, pages);
    else if constexpr (R > 1)
        some_scores<kType, R - 1, kFetch>(rows, w, row, units, pages);
}

template <KvType kType, int R, bool kFetch>
TW_INLINE void some_values(long rows, const Work& w, long row, long pages, long head_dim) {
    if (rows == R)
        value_rows<kType, R, kFetch>(w, row, pages, head_dim);
    else if constexpr (R > 1)
        some_values<kType, R - 1, kFetch>(rows, w, row, pages, head_dim);
}

}  // namespace TW_ISA
}  // namespace twinfer
