// Attention of a few queries of one sequence over paged keys and values.
//
// Keys come in blocks of 128 positions that start at multiples of 128. Each block has a softmax of its own
// (largest score, sum, weighted values); blocks are merged in order. So a result depends on the query and its
// keys only, not on which queries share a call, nor on who computes which blocks. Masked positions contribute
// exact zeros, whatever their memory holds.
#include "attention_pages.h"
#include "attention_products.h"
#include "attention_query.h"
#include "attention_softmax.h"

namespace twinfer {
namespace TW_ISA {

// One block of all rows, into block, block_most and block_total.
template <KvType kType>
static void attend_block(Work& w, const KvLayer& kv, const Heads& h, const AttentionTile& t, long block,
                         Chunks& ahead) {
    const long rows = t.rows(), start = block * kBlockTokens;
    const long pages = find_pages<kType>(w, kv, t, block, ahead), units = Kind<kType>::units(h.head_dim);
    // The first rows bring to the cache what the others find there; where these are few, they take more of
    // what lies side by side in memory.
    const long first_scores = rows < kScoreRows ? rows : kScoreRows;
    some_scores<kType, kScoreRows, true>(first_scores, w, 0, units, pages);
    for (long r = first_scores; r < rows; r += kScoreRows)
        some_scores<kType, kScoreRows, false>(rows - r < kScoreRows ? rows - r : kScoreRows, w, r, units,
                                              pages);
    if (kShortBlock < kBlockPages && pages <= kShortBlock)
        soften<kType, kShortBlock>(w, t, start, pages);
    else
        soften<kType, kBlockPages>(w, t, start, pages);
    // A code of zero times anything is zero, but zero times what may be a NaN is not.
    const long filled = (t.first_position + t.queries - start) % kPageTokens;
    if (!Kind<kType>::int8 && pages * kPageTokens > t.first_position + t.queries - start)
        w.at_values[pages - 1] = without_rest<kType>(w, w.at_values[pages - 1], filled, h.head_dim);
    const long first_values = rows < kFirstValueRows ? rows : kFirstValueRows;
    some_values<kType, kFirstValueRows, true>(first_values, w, 0, pages, h.head_dim);
    for (long r = first_values; r < rows; r += kValueRows)
        some_values<kType, kValueRows, false>(rows - r < kValueRows ? rows - r : kValueRows, w, r, pages,
                                              h.head_dim);
}

static void write_out(const Work& w, const Heads& h, const AttentionTile& t) {
    for (long r = 0; r < t.rows(); r++) {
        float* to = t.out + r / t.count * t.out_stride + (t.first_head + r % t.count) * h.head_dim;
        Float scale = splat(1.0f / w.total[r]);
        for (long i = 0; i < h.head_dim; i += 16)
            store(to + i, mul(load(w.values + r * w.dims + i), scale), first(h.head_dim - i));
    }
}

template <KvType kType>
static void attend(const KvLayer& kv, const Heads& h, const AttentionTile* tiles, long count, void* scratch) {
    Work w = carve(scratch, h.head_dim);
    Chunks ahead = chunks_ahead(kv, tiles, tiles + count - 1, 0, tiles->blocks());
    for (const AttentionTile* t = tiles; t != tiles + count; t++) {
        load_queries<kType>(w, h, *t);
        for (long b = 0; b < t->blocks(); b++) {
            attend_block<kType>(w, kv, h, *t, b, ahead);
            merge(w, t->rows(), b == 0);
        }
        write_out(w, h, *t);
    }
}

// Where a block's part lies in `partials`: values, largest scores, sums.
static float* part_of(const Heads& h, const AttentionTile& t, long block, float* partials) {
    return partials + block * partial_floats(t.rows(), h.head_dim);
}

template <KvType kType>
static void attend_part(const KvLayer& kv, const Heads& h, const AttentionTile& t, long begin, long end,
                        float* partials, void* scratch) {
    Work w = carve(scratch, h.head_dim);
    load_queries<kType>(w, h, t);
    Chunks ahead = chunks_ahead(kv, &t, &t, begin, end);
    const long values = t.rows() * w.dims, padded_rows = padded(t.rows());
    for (long b = begin; b < end; b++) {
        attend_block<kType>(w, kv, h, t, b, ahead);
        float* to = part_of(h, t, b, partials);
        memcpy(to, w.block, 4 * values);
        memcpy(to + values, w.block_most, 4 * padded_rows);
        memcpy(to + values + padded_rows, w.block_total, 4 * padded_rows);
    }
}

void merge_parts(const Heads& h, const AttentionTile& t, float* partials, void* scratch) {
    Work w = carve(scratch, h.head_dim);
    for (long b = 0; b < t.blocks(); b++) {
        w.block = part_of(h, t, b, partials);
        w.block_most = w.block + t.rows() * w.dims;
        w.block_total = w.block_most + padded(t.rows());
        merge(w, t.rows(), b == 0);
    }
    write_out(w, h, t);
}

void attention(const KvLayer& kv, const Heads& h, const AttentionTile* tiles, long count, void* scratch) {
    constexpr decltype(&attend<KvType::f32>) by_type[] = {attend<KvType::f32>, attend<KvType::bf16>,
                                                          attend<KvType::int8>};
    by_type[(int)kv.type](kv, h, tiles, count, scratch);
}

void attention_part(const KvLayer& kv, const Heads& h, const AttentionTile& t, long begin, long end,
                    float* partials, void* scratch) {
    constexpr decltype(&attend_part<KvType::f32>) by_type[] = {
        attend_part<KvType::f32>, attend_part<KvType::bf16>, attend_part<KvType::int8>};
    by_type[(int)kv.type](kv, h, t, begin, end, partials, scratch);
}

}  // namespace TW_ISA
}  // namespace twinfer
