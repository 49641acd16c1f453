// From a block's scores to weights, and from blocks to a softmax over all keys.
#pragma once

#include "attention_work.h"

namespace twinfer {
namespace TW_ISA {

constexpr float kMasked = -1e30f;
constexpr int kMostWeight = 255;

// f(f(x0, x1), f(x2, x3)) and so on. What a short block lacks would not change it.
template <int P, class F>
TW_INLINE Float fold(const Float (&x)[P], F f) {
    static_assert(P == kBlockPages || P == 2);
    if constexpr (P == 2)
        return f(x[0], x[1]);
    else
        return f(f(f(x[0], x[1]), f(x[2], x[3])), f(f(x[4], x[5]), f(x[6], x[7])));
}

// Turns a block's weights, of which 8-bit values' scales become part, into codes.
template <int P>
TW_INLINE void encode_weights(const Work& w, long row, long visible, long pages, Float (&x)[P]) {
    TW_UNROLL for (int p = 0; p < P; p++) {
        if (p >= pages) break;
        x[p] = mul(x[p], load((const float*)w.at_values[p] - kPageTokens));
        x[p] = select(first(visible - p * 16), x[p], splat(0));
    }
    const float most = largest(fold(x, [](Float a, Float b) { return max(a, b); }));
    const Float inverse = splat(most > 1e-30f ? kMostWeight / most : 0.0f);
    uint32_t* codes = w.p + row * Kind<KvType::int8>::weight_stride;
    TW_UNROLL for (int p = 0; p < P; p++)
        store_codes(codes + p * 4 * kUnitWords, round_to_int(mul(x[p], inverse)));
    w.p_scale[row] = most / kMostWeight;
}

// A row's scores of which `visible` count.
template <bool kWhole, int P>
TW_INLINE void load_scores(const Work& w, long row, long visible, Float (&x)[P]) {
    TW_UNROLL for (int p = 0; p < P; p++) {
        x[p] = load(w.scores + row * kBlockTokens + p * 16);
        if (!kWhole) x[p] = select(first(visible - p * 16), x[p], splat(kMasked));
    }
}

template <bool kWhole, int P>
TW_INLINE void find_most(const Work& w, long row, long visible) {
    Float x[P];
    load_scores<kWhole>(w, row, visible, x);
    w.block_most[row] = largest(fold(x, [](Float a, Float b) { return max(a, b); }));
}

// Turns a row's scores, which are in powers of two, into weights.
template <KvType kType, bool kWhole, int P>
TW_INLINE void soften_row(const Work& w, long row, long visible, long pages) {
    Float x[P];
    load_scores<kWhole>(w, row, visible, x);
    const Float shift = splat(w.block_most[row]);
    TW_UNROLL for (int p = 0; p < P; p++) {
        x[p] = sub(x[p], shift);
        x[p] = Kind<kType>::f32 ? exp2(x[p]) : rough_exp2(x[p]);
        if (!kWhole) x[p] = select(first(visible - p * 16), x[p], splat(0));
    }
    w.block_total[row] = sum(fold(x, [](Float a, Float b) { return add(a, b); }));
    if constexpr (Kind<kType>::int8) return encode_weights(w, row, visible, pages, x);
    TW_UNROLL for (int p = 0; p < P; p++) {
        if constexpr (Kind<kType>::bf16)
            store_pairs(w.p + row * Kind<kType>::weight_stride + p * 8 * kUnitWords, x[p]);
        else
            store((float*)(w.p + row * kBlockTokens + p * 16), x[p]);
    }
}

// The largest scores of all rows come first: a row's chain of steps is long, and rows overlap only where
// nothing waits for the end of such a chain.
template <KvType kType, int P>
TW_APART void soften(const Work& w, const AttentionTile& t, long start, long pages) {
    auto visible = [&](long row) { return t.first_position + row / t.count + 1 - start; };
    for (long r = 0; r < t.rows(); r++)
        (P == kBlockPages) && visible(r) >= kBlockTokens ? find_most<true, P>(w, r, visible(r))
                                                         : find_most<false, P>(w, r, visible(r));
    for (long r = 0; r < t.rows(); r++)
        (P == kBlockPages) && visible(r) >= kBlockTokens
            ? soften_row<kType, true, P>(w, r, visible(r), pages)
            : soften_row<kType, false, P>(w, r, visible(r), pages);
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

}  // namespace TW_ISA
}  // namespace twinfer
