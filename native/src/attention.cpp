// Attention of a few queries of one sequence over paged keys and values.
//
// Keys come in blocks of 128 positions that start at multiples of 128. Each block has a softmax of its own
// (largest score, sum, weighted values); blocks are merged in order. So a result depends on the query and its
// keys only, not on which queries share a call. Rows are (query, head) pairs that share one KV head, so every
// load of a key or value serves all of them. Masked positions contribute exact zeros, whatever their memory
// holds.
#include "kernels.h"
#include "simd.h"

namespace twinfer {
namespace TW_ISA {

constexpr float kMasked = -1e30f;

// Working memory of one call; rows are padded to whole vectors.
struct Work {
    long dims;                        // head_dim padded to 16
    uint32_t* q;                      // [rows][key units]
    float* scores;                    // [rows][128]
    uint32_t* p;                      // [rows][value units of 128 tokens]
    float* values;                    // [rows][dims], merged so far
    float* block;                     // [rows][dims], of the block at hand
    float *most, *total;              // [rows], merged so far
    float *block_most, *block_total;  // [rows], of the block at hand
    float *keep, *take;               // [rows], factors of a merge
    uint32_t* tail;                   // one value block, with what lies behind the end cleared
};

static Work carve(void* scratch, long head_dim) {
    Work w;
    w.dims = (head_dim + 15) / 16 * 16;
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
    w.most = next(kTileRows);
    w.total = next(kTileRows);
    w.block_most = next(kTileRows);
    w.block_total = next(kTileRows);
    w.keep = next(kTileRows);
    w.take = next(kTileRows);
    w.tail = (uint32_t*)next(kPageTokens * w.dims);
    return w;
}

// acc + one unit: a pair of bf16, or one float.
template <bool kBf16>
TW_INLINE Float dot(Float acc, const uint32_t* vector, const uint32_t* unit) {
    if constexpr (kBf16) return dot_bf16(acc, load_bytes(vector), unit);
    return fma(load((const float*)vector), splat(*(const float*)unit), acc);
}

// Scores of R rows against the 16 keys of each of P pages.
template <bool kBf16, int R, int P>
TW_INLINE void score_block(const uint32_t* q, long q_stride, long units, const uint32_t* const* keys,
                           float* scores) {
    Float acc[R][P];
    TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int p = 0; p < P; p++) acc[r][p] = splat(0);
    for (long u = 0; u < units; u++)
        TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int p = 0; p < P; p++) acc[r][p] =
            dot<kBf16>(acc[r][p], keys[p] + u * 16, q + r * q_stride + u);
    TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int p = 0; p < P; p++)
        store(scores + r * kBlockTokens + p * 16, acc[r][p]);
}

template <bool kBf16, int R>
TW_APART void score_rows(const uint32_t* q, long q_stride, long units, const uint32_t* const* keys,
                         long pages, float* scores) {
    // Few rows take more pages at once, to have enough independent sums under way.
    constexpr int P = R * kScorePages * 2 <= kScoreRows * kScorePages ? kScorePages * 2 : kScorePages;
    long p = 0;
    for (; p + P <= pages; p += P) score_block<kBf16, R, P>(q, q_stride, units, keys + p, scores + p * 16);
    for (; p < pages; p++) score_block<kBf16, R, 1>(q, q_stride, units, keys + p, scores + p * 16);
}

// out [R][dims] = the pages' values weighted by p, over V vectors from dimension `dim` on. A value block is
// [units][head_dim]; the last vector of an odd head size is cut by `mask`.
template <bool kBf16, int R, int V, bool kCut>
TW_INLINE void value_block(const Work& w, long row, const uint32_t* const* values, long pages, long head_dim,
                           long dim, Mask mask) {
    constexpr long units = kBf16 ? kPageTokens / 2 : kPageTokens;
    constexpr long p_stride = units * kBlockPages;
    const uint32_t* weights = w.p + row * p_stride;
    Float acc[R][V];
    TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int v = 0; v < V; v++) acc[r][v] = splat(0);
    for (long page = 0; page < pages; page++) {
        const uint32_t* at = values[page] + dim;
        for (long u = 0; u < units; u++) {
            TW_UNROLL for (int v = 0; v < V; v++) {
                alignas(64) uint32_t cut[16];
                const uint32_t* vector = at + u * head_dim + v * 16;
                if constexpr (kCut) {
                    store((float*)cut, load((const float*)vector, mask));
                    vector = cut;
                }
                TW_UNROLL for (int r = 0; r < R; r++) acc[r][v] =
                    dot<kBf16>(acc[r][v], vector, weights + r * p_stride + page * units + u);
            }
        }
    }
    TW_UNROLL for (int r = 0; r < R; r++) TW_UNROLL for (int v = 0; v < V; v++)
        store(w.block + (row + r) * w.dims + dim + v * 16, acc[r][v]);
}

template <bool kBf16, int R>
TW_APART void value_rows(const Work& w, long row, const uint32_t* const* values, long pages, long head_dim) {
    constexpr int V = kValueVectors;
    long dim = 0;
    for (; dim + V * 16 <= head_dim; dim += V * 16)
        value_block<kBf16, R, V, false>(w, row, values, pages, head_dim, dim, first(16));
    for (; dim + 16 <= head_dim; dim += 16)
        value_block<kBf16, R, 1, false>(w, row, values, pages, head_dim, dim, first(16));
    if (dim < head_dim)
        value_block<kBf16, R, 1, true>(w, row, values, pages, head_dim, dim, first(head_dim - dim));
}

// Turns a row's scores, which are in powers of two, into weights; `visible` of the block's positions count,
// `pages` hold scores.
template <bool kBf16>
TW_APART void soften(const Work& w, long row, long visible, long pages) {
    const float* scores = w.scores + row * kBlockTokens;
    const long filled = visible > 0 ? visible / kPageTokens : 0, whole = filled < pages ? filled : pages;
    Float most = splat(kMasked), total = splat(0);
    for (long p = 0; p < whole; p++) most = max(most, load(scores + p * 16));
    for (long p = whole; p < pages; p++)
        most = max(most, select(first(visible - p * 16), load(scores + p * 16), splat(kMasked)));
    const Float shift = splat(largest(most));
    for (long p = 0; p < pages; p++) {
        Float x = exp2<kBf16>(sub(load(scores + p * 16), shift));
        if (p >= whole) x = select(first(visible - p * 16), x, splat(0));
        total = add(total, x);
        if constexpr (kBf16)
            store_bf16((uint16_t*)(w.p + row * (kBlockTokens / 2) + p * 8), x);
        else
            store((float*)(w.p + row * kBlockTokens + p * 16), x);
    }
    w.block_most[row] = largest(most);
    w.block_total[row] = sum(total);
}

// Merges the block at hand into what came before it.
TW_APART void merge(const Work& w, long rows, bool fresh) {
    for (long r = 0; r < rows; r += 16) {
        Float a = fresh ? splat(kMasked) : load(w.most + r), b = load(w.block_most + r), m = max(a, b);
        Float keep = exp2<false>(sub(a, m)), take = exp2<false>(sub(b, m));
        Float before = fresh ? splat(0) : mul(load(w.total + r), keep);
        store(w.total + r, fma(load(w.block_total + r), take, before));
        store(w.most + r, m);
        store(w.keep + r, keep);
        store(w.take + r, take);
    }
    for (long r = 0; r < rows; r++) {
        float* to = w.values + r * w.dims;
        const float* from = w.block + r * w.dims;
        Float keep = splat(w.keep[r]), take = splat(w.take[r]);
        for (long i = 0; i < w.dims; i += 16) {
            Float before = fresh ? splat(0) : mul(load(to + i), keep);
            store(to + i, fma(load(from + i), take, before));
        }
    }
}

template <bool kBf16>
static void load_queries(const Work& w, const Heads& h, const AttentionTile& t) {
    const long units = kBf16 ? h.head_dim / 2 : h.head_dim;
    // Scores come out in powers of two.
    const Float scale = splat(1.44269504f / __builtin_sqrtf((float)h.head_dim));
    for (long i = 0; i < t.queries; i++) {
        for (long j = 0; j < t.count; j++) {
            const float* from = t.q + i * t.stride + (t.first_head + j) * h.head_dim;
            uint32_t* to = w.q + (i * t.count + j) * units;
            for (long d = 0; d < h.head_dim; d += 16) {
                Mask m = first(h.head_dim - d);
                Float x = mul(load(from + d, m), scale);
                if constexpr (kBf16) {
                    uint16_t rounded[16];
                    store_bf16(rounded, x);
                    long count = h.head_dim - d < 16 ? h.head_dim - d : 16;
                    memcpy(to + d / 2, rounded, 2 * count);
                } else {
                    store((float*)to + d, x, m);
                }
            }
        }
    }
}

// A copy of a page's values with the positions from `filled` on cleared: they may hold anything.
template <bool kBf16>
static const uint32_t* without_rest(const Work& w, const uint32_t* values, long filled, long head_dim) {
    const long units = kBf16 ? kPageTokens / 2 : kPageTokens;
    const long whole = kBf16 ? filled / 2 : filled;
    memset(w.tail, 0, 4 * units * head_dim);
    memcpy(w.tail, values, 4 * whole * head_dim);
    if (kBf16 && filled % 2)
        for (long i = 0; i < head_dim; i++)
            w.tail[whole * head_dim + i] = values[whole * head_dim + i] & 0xffffu;
    return w.tail;
}

template <bool kBf16, int R>
TW_INLINE void rows_of_scores(long rows, const Work& w, long row, long units, const uint32_t* const* keys,
                              long pages) {
    if (rows == R)
        score_rows<kBf16, R>(w.q + row * units, units, units, keys, pages, w.scores + row * kBlockTokens);
    else if constexpr (R > 1)
        rows_of_scores<kBf16, R - 1>(rows, w, row, units, keys, pages);
}

template <bool kBf16, int R>
TW_INLINE void rows_of_values(long rows, const Work& w, long row, const uint32_t* const* values, long pages,
                              long head_dim) {
    if (rows == R)
        value_rows<kBf16, R>(w, row, values, pages, head_dim);
    else if constexpr (R > 1)
        rows_of_values<kBf16, R - 1>(rows, w, row, values, pages, head_dim);
}

template <bool kBf16>
static void attend(const KvLayer& kv, const Heads& h, const AttentionTile& t, void* scratch) {
    const Work w = carve(scratch, h.head_dim);
    const long rows = t.queries * t.count, end = t.first_position + t.queries;
    const long units = kBf16 ? h.head_dim / 2 : h.head_dim;
    load_queries<kBf16>(w, h, t);
    for (long start = 0; start < end; start += kBlockTokens) {
        const long tokens = end - start < kBlockTokens ? end - start : kBlockTokens;
        const long pages = (tokens + kPageTokens - 1) / kPageTokens;
        const uint32_t *keys[kBlockPages], *values[kBlockPages];
        for (long p = 0; p < pages; p++) {
            const uint8_t* page = kv.pool + (size_t)t.pages[start / kPageTokens + p] * kv.page_bytes +
                                  (size_t)t.kv_head * kv.block_bytes;
            keys[p] = (const uint32_t*)(page + kv.keys);
            values[p] = (const uint32_t*)(page + kv.values);
        }
        if (tokens % kPageTokens)
            values[pages - 1] = without_rest<kBf16>(w, values[pages - 1], tokens % kPageTokens, h.head_dim);
        long step;
        for (long r = 0; r < rows; r += step) {
            step = rows - r < kScoreRows ? rows - r : kScoreRows;
            rows_of_scores<kBf16, kScoreRows>(step, w, r, units, keys, pages);
        }
        for (long r = 0; r < rows; r++)
            soften<kBf16>(w, r, t.first_position + r / t.count + 1 - start, pages);
        for (long r = 0; r < rows; r += step) {
            step = rows - r < kValueRows ? rows - r : kValueRows;
            rows_of_values<kBf16, kValueRows>(step, w, r, values, pages, h.head_dim);
        }
        merge(w, rows, start == 0);
    }
    for (long r = 0; r < rows; r++) {
        float* to = t.out + r / t.count * t.out_stride + (t.first_head + r % t.count) * h.head_dim;
        Float scale = splat(1.0f / w.total[r]);
        for (long i = 0; i < h.head_dim; i += 16)
            store(to + i, mul(load(w.values + r * w.dims + i), scale), first(h.head_dim - i));
    }
}

void attention(const KvLayer& kv, const Heads& h, const AttentionTile& t, void* scratch) {
    if (kv.bf16)
        attend<true>(kv, h, t, scratch);
    else
        attend<false>(kv, h, t, scratch);
}

}  // namespace TW_ISA
}  // namespace twinfer
