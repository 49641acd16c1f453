// Queries as attention's scores need them: scaled, and in the element type of the keys or in 8-bit codes.
#pragma once

#include "attention_work.h"

namespace twinfer {
namespace TW_ISA {

constexpr float kMostCode = 127 * kQueryStep;  // of a query

// Scores come out in powers of two.
static float score_scale(long head_dim) { return 1.44269504f / __builtin_sqrtf((float)head_dim); }

// One row's query in codes, x = scale * code; in two, code = 128 * upper + lower, lower from -64 to 63.
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
        if constexpr (kQuerySums == 1) {
            const Int code = round_to_int(x);
            store_codes((uint32_t*)(to + 2 * d), code);
            upper_sum = iadd(upper_sum, code);
        } else {
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
    }
    w.q_offset[row] = -128 * isum(upper_sum);
    w.q_offset[kTileRows + row] = -128 * isum(lower_sum);
}

// One row's query as the scores need it. Where it is stored whole vectors at a time, the last one may reach
// into the next row, which comes later.
template <KvType kType>
static void load_query(const Work& w, const float* from, long row, long head_dim) {
    if constexpr (Kind<kType>::int8) return encode_query(w, from, row, head_dim);
    const Float scale = splat(score_scale(head_dim));
    uint32_t* to = w.q + row * Kind<kType>::units(head_dim) * Kind<kType>::words;
    for (long d = 0; d < head_dim; d += 16) {
        const long left = head_dim - d < 16 ? head_dim - d : 16;
        Float x = mul(take(from, d, head_dim), scale);
        if constexpr (Kind<kType>::f32) {
            store((float*)to + d, x, first(left));
        } else if constexpr (kUnitWords == 2) {
            store_pairs(to + d, x);
        } else {
            uint32_t pairs[8];
            store_pairs(pairs, x);
            memcpy(to + d / 2, pairs, 2 * left);
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

}  // namespace TW_ISA
}  // namespace twinfer
