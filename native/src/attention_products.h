// The two products of attention: scores of rows against keys, and values weighted by a row's softmax. Every
// load of a key or value serves several rows, and where a unit meets two words, all rows use the first before
// anything is made for the second: registers are few.
#pragma once

#include "attention_work.h"

namespace twinfer {
namespace TW_ISA {

// A sum of units that starts with a number, its end, and acc + a unit of keys times one of the query, or of
// values times one of the weights, of which this is word i. With kCrowded, sums need nearly all registers.
template <KvType kType, bool kCrowded>
struct Sum {
    Float x;
    TW_INLINE Sum from(int32_t) { return {splat(0)}; }
    TW_INLINE Float result(Sum s) { return s.x; }
    TW_INLINE Sum weigh(Sum acc, const uint32_t* vector, const uint32_t* word, int i) {
        return dot(acc, vector, word, i);
    }
    TW_INLINE Sum dot(Sum acc, const uint32_t* vector, const uint32_t* word, int i) {
        if constexpr (Kind<kType>::bf16) return {dot_bf16_word<kCrowded>(acc.x, load_bytes(vector), word, i)};
        return {fma(load((const float*)vector), splat(*(const float*)word), acc.x)};
    }
};
template <bool kCrowded>
struct Sum<KvType::int8, kCrowded> {
    Int x;
    TW_INLINE Sum from(int32_t offset) { return {isplat(offset)}; }
    TW_INLINE Float result(Sum s) { return to_float(s.x); }
    TW_INLINE Sum dot(Sum acc, const uint32_t* vector, const uint32_t* word, int i) {
        return {dot_bytes_word(acc.x, load_bytes(vector), word, i)};
    }
    TW_INLINE Sum weigh(Sum acc, const uint32_t* vector, const uint32_t* word, int i) {
        return {dot_signed_word(acc.x, load_bytes(vector), word, i)};
    }
};

// Pages or vectors at once: few rows take more, to have enough independent sums under way.
constexpr int side_by_side(int most) { return most < 2 ? 1 : most < 4 ? 2 : 4; }

// Whether R rows times P sums at once leave hardly a register: what was read is then read again.
template <int R, int P>
constexpr bool kCrowded = kUnitWords == 2 && R > 1 && P > 1;

// Scores of R rows against the 16 keys of each of P pages. With kFetch, each line that is read fetches one of
// what comes later: pages lie anywhere in memory, so nobody else foresees them.
template <KvType kType, int R, int P, bool kFetch>
TW_INLINE void score_block(const Work& w, long row, long units, long page) {
    using S = Sum<kType, kCrowded<R, P>>;
    constexpr int N = Kind<kType>::query_sums, words = N * Kind<kType>::words;
    const uint32_t *key_rows[P], *queries[R];
    TW_UNROLL for (int p = 0; p < P; p++) key_rows[p] = w.keys[page + p];
    TW_UNROLL for (int r = 0; r < R; r++) queries[r] = w.q + (row + r) * units * words;
    S acc[R][P], rest[R][P];  // of the queries' first and second codes
    TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int p = 0; p < P; p++) {
        acc[r][p] = S::from(Kind<kType>::int8 ? w.q_offset[row + r] : 0);
        if constexpr (N == 2) rest[r][p] = S::from(w.q_offset[kTileRows + row + r]);
    }
    for (long u = 0; u < units; u++) {
        if constexpr (kFetch) TW_UNROLL for (int p = 0; p < P; p++) prefetch(w.ahead[page + p] + u * 64);
        if constexpr (Kind<kType>::words == 2) {
            TW_UNROLL for (int p = 0; p < P; p++) TW_UNROLL for (int i = 0; i < 2; i++) {
                if constexpr (kCrowded<R, P>) read_again();
                TW_UNROLL for (int r = 0; r < R; r++) acc[r][p] =
                    S::dot(acc[r][p], key_rows[p] + u * 16, queries[r] + u * words + i, i);
            }
        } else {
            TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int p = 0; p < P; p++) {
                const uint32_t *keys = w.keys[page + p] + u * 16, *q = w.q + ((row + r) * units + u) * words;
                acc[r][p] = S::dot(acc[r][p], keys, q, 0);
                if constexpr (N == 2) rest[r][p] = S::dot(rest[r][p], keys, q + 1, 0);
            }
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
    constexpr int P = side_by_side(kScoreSums / R);
    long p = 0;
    for (; p + P <= pages; p += P) score_block<kType, R, P, kFetch>(w, row, units, p);
    for (; p < pages; p++) score_block<kType, R, 1, kFetch>(w, row, units, p);
}

// block [R][dims] = the pages' values weighted by p, over V vectors from dimension `dim` on. The last vector
// of an odd head size is cut by `mask`.
template <KvType kType, int R, int V, bool kCut, bool kFetch>
TW_INLINE void value_block(const Work& w, long row, long pages, long stride, long dim, Mask mask) {
    using S = Sum<kType, kCrowded<R, V>>;
    constexpr long units = Kind<kType>::page_units, words = Kind<kType>::words;
    constexpr long p_stride = Kind<kType>::weight_stride, p_page = units * words;
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
                if constexpr (words == 2 && kCrowded<R, V>) read_again();
                TW_UNROLL for (int r = 0; r < R; r++) acc[r][v] =
                    S::weigh(acc[r][v], vector, weights + r * p_stride + page * p_page + u * words, 0);
                if constexpr (words == 2) {
                    if constexpr (kCrowded<R, V>) read_again();
                    TW_UNROLL for (int r = 0; r < R; r++) acc[r][v] = S::weigh(
                        acc[r][v], vector, weights + r * p_stride + page * p_page + u * words + 1, 1);
                }
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
    constexpr int V = side_by_side(kValueSums / R);
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
