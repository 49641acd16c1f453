// Where a tile's keys and values lie, and in what order memory is wanted.
#pragma once

#include "attention_work.h"

namespace twinfer {
namespace TW_ISA {

// Memory is fetched so many chunks ahead, a whole block's: it is used in another order than it lies.
constexpr long kAhead = 16;

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

}  // namespace TW_ISA
}  // namespace twinfer
