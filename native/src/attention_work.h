// How attention computes an element type, and the memory that one call works in.
//
// A row is a (query, head) pair; all rows of a call share one KV head. Units of 4 bytes are what kernels.h
// says: a float, a pair of bf16, or four 8-bit codes. With 8 bits, queries are codes of 15 bits with a scale
// per row, in one sum or in two: of codes of 8 bits, the first worth 128 of the second. Weights are unsigned
// 8 bits with a scale per row and block of 128 positions. Both products are exact integers.
#pragma once

#include "kernels.h"
#include "simd.h"

namespace twinfer {
namespace TW_ISA {

// What the first of a query's two 8-bit codes is worth in units of the second.
constexpr int kQueryStep = 128;

// How an element type is computed: elements of a unit, units of a page's 16 tokens, the words that a unit of
// a query or of weights takes (simd_*.h), and those of a block's weights.
template <KvType kType>
struct Kind {
    static constexpr bool f32 = kType == KvType::f32, bf16 = kType == KvType::bf16,
                          int8 = kType == KvType::int8;
    static constexpr long elements = f32 ? 1 : bf16 ? 2 : 4, page_units = kPageTokens / elements;
    static constexpr int words = f32 ? 1 : kUnitWords, query_sums = int8 ? kQuerySums : 1;
    static constexpr long weight_stride = page_units * kBlockPages * words;
    static constexpr long skip = int8 ? kScaleBytes : 0;  // bytes in front of a block's units
    static long units(long head_dim) { return (head_dim + elements - 1) / elements; }
    // Units from one row of values to the next.
    static long value_stride(long head_dim) { return int8 ? (head_dim + 3) / 4 * 4 : head_dim; }
};

// Working memory of one call; rows are padded to whole vectors.
struct Work {
    long dims;                          // head_dim padded to 16
    uint32_t* q;                        // [rows][key units][words][sums]
    float* q_scale;                     // [rows], of 8-bit queries
    int32_t* q_offset;                  // [sums][rows], -128 * sum of the codes
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

}  // namespace TW_ISA
}  // namespace twinfer
