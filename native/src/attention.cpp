// Attention of a few queries of one sequence over paged keys and values.
//
// Keys come in blocks of 128 positions that start at multiples of 128. Each block has a softmax of its own
// (largest score, sum, weighted values); blocks are merged in order. So a result depends on the query and its
// keys only, not on which queries share a call, nor on who computes which blocks. Masked positions contribute
// exact zeros, whatever their memory holds.
#include "attention.h"

namespace twinfer {
namespace TW_ISA {

constexpr float kMasked = -1e30f;
constexpr int kMostWeight = 255;
constexpr float kMostCode = 127 * kQueryStep;  // of a query
// Memory is fetched so many chunks ahead, a whole block's: it is used in another order than it lies.
constexpr long kAhead = 16;

// Scores come out in powers of two.
static float score_scale(long head_dim) { return 1.44269504f / __builtin_sqrtf((float)head_dim); }

// One row's query in 8-bit codes: x = scale * (128 * upper + lower), lower from -64 to 63.
static void encode_query(const Work& w, const float* from, long row, long head_dim) {
    const long units = Kind<KvType::int8>::units(head_dim);
    const Float scale = splat(score_scale(head_dim));
    int8_t* to = (int8_t*)(w.q + 2 * row * units);
    Float most = splat(0);
    for (long d = 0; d < head_dim; d += 16) most = max(most, abs(mul(take(from, d, head_dim), scale)));
    const float all = largest(most);
    const Float inverse = splat(all > 1e-30f ? kMostCode / all : 0.0f);
    w.q_scale[row] = all / kMostCode;
    Int upper_sum = isplat(0), lower_sum = isplat(0);
    for (long d = 0; d < head_dim; d += 16) {
        const long left = head_dim - d < 16 ? head_dim - d : 16;
        const Float x = mul(mul(take(from, d, head_dim), scale), inverse);
        const Int upper = round_to_int(mul(x, splat(1.0f / kQueryStep)));
        const Int lower = round_to_int(sub(x, mul(to_float(upper), splat(kQueryStep))));
        int8_t codes[32];
        store_i8(codes, upper);
        store_i8(codes + 16, lower);
        for (long i = 0; i < left; i += 4) {
            memcpy(to + 2 * (d + i), codes + i, 4);
            memcpy(to + 2 * (d + i) + 4, codes + 16 + i, 4);
        }
        upper_sum = iadd(upper_sum, upper);
        lower_sum = iadd(lower_sum, lower);
    }
    w.q_offset[row] = -128 * isum(upper_sum);
    w.q_offset[kTileRows + row] = -128 * isum(lower_sum);
}

// One row's query as the scores need it.
template <KvType kType>
static void load_query(const Work& w, const float* from, long row, long head_dim) {
    if constexpr (Kind<kType>::int8) return encode_query(w, from, row, head_dim);
    const Float scale = splat(score_scale(head_dim));
    uint32_t* to = w.q + row * Kind<kType>::units(head_dim);
    for (long d = 0; d < head_dim; d += 16) {
        const long left = head_dim - d < 16 ? head_dim - d : 16;
        Float x = mul(take(from, d, head_dim), scale);
        if constexpr (Kind<kType>::f32) {
            store((float*)to + d, x, first(left));
        } else {
            uint16_t rounded[16];
            store_bf16(rounded, x);
            memcpy(to + d / 2, rounded, 2 * left);
        }
    }
}

template <KvType kType>
static void load_queries(const Work& w, const Heads& h, const AttentionTile& t) {
    for (long i = 0; i < t.queries; i++)
        for (long j = 0; j < t.count; j++)
            load_query<kType>(w, t.q + i * t.stride + (t.first_head + j) * h.head_dim, i * t.count + j,
                              h.head_dim);
}

// f(f(x0, x1), f(x2, x3)) and so on.
template <class F>
TW_INLINE Float fold(const Float (&x)[kBlockPages], F f) {
    static_assert(kBlockPages == 8);
    return f(f(f(x[0], x[1]), f(x[2], x[3])), f(f(x[4], x[5]), f(x[6], x[7])));
}

// Turns a block's weights, of which 8-bit values' scales become part, into codes.
TW_INLINE void encode_weights(const Work& w, long row, long visible, long pages, Float (&x)[kBlockPages]) {
    TW_UNROLL for (int p = 0; p < kBlockPages; p++) {
        if (p >= pages) break;
        x[p] = mul(x[p], load((const float*)w.at_values[p] - kPageTokens));
        x[p] = select(first(visible - p * 16), x[p], splat(0));
    }
    const float most = largest(fold(x, [](Float a, Float b) { return max(a, b); }));
    const Float inverse = splat(most > 1e-30f ? kMostWeight / most : 0.0f);
    uint8_t* codes = (uint8_t*)(w.p + row * Kind<KvType::int8>::weight_stride);
    TW_UNROLL for (int p = 0; p < kBlockPages; p++)
        store_u8(codes + p * 16, round_to_int(mul(x[p], inverse)));
    w.p_scale[row] = most / kMostWeight;
}

// A row's scores of which `visible` count.
template <bool kWhole>
TW_INLINE void load_scores(const Work& w, long row, long visible, Float (&x)[kBlockPages]) {
    TW_UNROLL for (int p = 0; p < kBlockPages; p++) {
        x[p] = load(w.scores + row * kBlockTokens + p * 16);
        if (!kWhole) x[p] = select(first(visible - p * 16), x[p], splat(kMasked));
    }
}

template <bool kWhole>
TW_INLINE void find_most(const Work& w, long row, long visible) {
    Float x[kBlockPages];
    load_scores<kWhole>(w, row, visible, x);
    w.block_most[row] = largest(fold(x, [](Float a, Float b) { return max(a, b); }));
}

// Turns a row's scores, which are in powers of two, into weights.
template <KvType kType, bool kWhole>
TW_INLINE void soften_row(const Work& w, long row, long visible, long pages) {
    Float x[kBlockPages];
    load_scores<kWhole>(w, row, visible, x);
    const Float shift = splat(w.block_most[row]);
    TW_UNROLL for (int p = 0; p < kBlockPages; p++) {
        x[p] = sub(x[p], shift);
        x[p] = Kind<kType>::f32 ? exp2(x[p]) : rough_exp2(x[p]);
        if (!kWhole) x[p] = select(first(visible - p * 16), x[p], splat(0));
    }
    w.block_total[row] = sum(fold(x, [](Float a, Float b) { return add(a, b); }));
    if constexpr (Kind<kType>::int8) return encode_weights(w, row, visible, pages, x);
    TW_UNROLL for (int p = 0; p < kBlockPages; p++) {
        if constexpr (Kind<kType>::bf16)
            store_bf16((uint16_t*)(w.p + row * (kBlockTokens / 2) + p * 8), x[p]);
        else
            store((float*)(w.p + row * kBlockTokens + p * 16), x[p]);
    }
}

// The largest scores of all rows come first: a row's chain of steps is long, and rows overlap only where
// nothing waits for the end of such a chain.
template <KvType kType>
TW_APART void soften(const Work& w, const AttentionTile& t, long start, long pages) {
    auto visible = [&](long row) { return t.first_position + row / t.count + 1 - start; };
    for (long r = 0; r < t.rows(); r++)
        visible(r) >= kBlockTokens ? find_most<true>(w, r, visible(r)) : find_most<false>(w, r, visible(r));
    for (long r = 0; r < t.rows(); r++)
        visible(r) >= kBlockTokens ? soften_row<kType, true>(w, r, visible(r), pages)
                                   : soften_row<kType, false>(w, r, visible(r), pages);
}

// Merges the block at hand into what came before it.
TW_APART void merge(const Work& w, long rows, bool fresh) {
    for (long r = 0; r < rows; r += 16) {
        Float a = fresh ? splat(kMasked) : load(w.most + r), b = load(w.block_most + r), m = max(a, b);
        Float keep = exp2(sub(a, m)), take = exp2(sub(b, m));
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

// A copy of a page's values with the positions from `filled` on cleared: they may hold anything.
template <KvType kType>
static const uint32_t* without_rest(const Work& w, const uint32_t* values, long filled, long head_dim) {
    constexpr long elements = Kind<kType>::elements;
    const long whole = filled / elements;
    memset(w.tail, 0, 4 * Kind<kType>::page_units * head_dim);
    memcpy(w.tail, values, 4 * whole * head_dim);
    if (filled % elements)
        for (long i = 0; i < head_dim; i++)
            w.tail[whole * head_dim + i] = values[whole * head_dim + i] & 0xffffu;
    return w.tail;
}

static long pages_of_block(const AttentionTile& t, long block) {
    const long left = t.first_position + t.queries - block * kBlockTokens;
    return ((left < kBlockTokens ? left : kBlockTokens) + kPageTokens - 1) / kPageTokens;
}

// A page's keys of a tile's KV head.
static const uint8_t* keys_of_page(const KvLayer& kv, const AttentionTile& t, long page) {
    return kv.keys(t.pages[page], t.kv_head);
}

// The chunks of memory that tiles use, as they lie in memory: of each page the keys, then the values.
struct Chunks {
    const AttentionTile *tile, *last;
    long block, end;  // of the tile
    long chunk = 0;   // of the block

    // Where the next one begins; somewhere in the pool once there are no more.
    const uint8_t* next(const KvLayer& kv) {
        if (block == end) return kv.pool;
        const uint8_t* at =
            keys_of_page(kv, *tile, block * kBlockPages + chunk / 2) + (size_t)(chunk % 2) * kv.block_bytes;
        if (++chunk == 2 * pages_of_block(*tile, block)) {
            chunk = 0;
            if (++block == end && tile != last) {
                tile++;
                block = 0;
                end = tile->blocks();
            }
        }
        return at;
    }
};

static Chunks chunks_ahead(const KvLayer& kv, const AttentionTile* tile, const AttentionTile* last,
                           long begin, long end) {
    Chunks chunks{tile, last, begin, end};
    for (long i = 0; i < kAhead; i++) chunks.next(kv);
    return chunks;
}

// Finds the pages of a block, and what to fetch while they are used; returns their number.
template <KvType kType>
static long find_pages(Work& w, const KvLayer& kv, const AttentionTile& t, long block, Chunks& ahead) {
    const long pages = pages_of_block(t, block);
    for (long p = 0; p < pages; p++) {
        const uint8_t* keys = keys_of_page(kv, t, block * kBlockPages + p) + Kind<kType>::skip;
        w.keys[p] = (const uint32_t*)keys;
        w.at_values[p] = (const uint32_t*)(keys + kv.block_bytes);
    }
    for (long i = 0; i < 2 * pages; i++) w.ahead[i] = ahead.next(kv);
    return pages;
}

// One block of all rows, into block, block_most and block_total.
template <KvType kType>
static void attend_block(Work& w, const KvLayer& kv, const Heads& h, const AttentionTile& t, long block,
                         Chunks& ahead) {
    const long rows = t.rows(), start = block * kBlockTokens;
    const long pages = find_pages<kType>(w, kv, t, block, ahead), units = Kind<kType>::units(h.head_dim);
    // The first rows bring to the cache what the others find there.
    const long first_scores = rows < kScoreRows ? rows : kScoreRows;
    some_scores<kType, kScoreRows, true>(first_scores, w, 0, units, pages);
    for (long r = first_scores; r < rows; r += kScoreRows)
        some_scores<kType, kScoreRows, false>(rows - r < kScoreRows ? rows - r : kScoreRows, w, r, units,
                                              pages);
    soften<kType>(w, t, start, pages);
    // A code of zero times anything is zero, but zero times what may be a NaN is not.
    const long filled = (t.first_position + t.queries - start) % kPageTokens;
    if (!Kind<kType>::int8 && pages * kPageTokens > t.first_position + t.queries - start)
        w.at_values[pages - 1] = without_rest<kType>(w, w.at_values[pages - 1], filled, h.head_dim);
    const long first_values = rows < kValueRows ? rows : kValueRows;
    some_values<kType, kValueRows, true>(first_values, w, 0, pages, h.head_dim);
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
