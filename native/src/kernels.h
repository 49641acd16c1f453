// What a kernel is given, as plain data, and the table of kernels that exists once per instruction set.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace twinfer {

// How a matrix is stored. Columns (N) come in tiles of 16, padded with zeros; K is padded to 64.
//   f32   [tile][K][16] float
//   bf16  [tile][K/2][16][2]
//   int8  [tile][K/32][8][16][4] unsigned bytes, value + 128; scales [tile][K/32][16], f16 or, if `wide`,
//   float int4  [tile][K/32][4][16][4] bytes: byte [j][column][r] holds k = 4j+r low and k = 16+4j+r high.
//         wide: scales [tile][K/32][2][16] float, w = scale * code + minimum
//         else: steps [tile][K/64][2][16][2] int16, a column's two blocks of 32 side by side, and after all
//         of them units [tile][16] float, powers of two: w = unit * (step[0] * (code - 8) + step[1]). No sum
//         of 64 such weights times 127 leaves 32 bits.
enum class Format : int { f32, bf16, int8, int4 };

struct Matrix {
    Format format;
    bool wide;
    long n, k;  // columns and rows of the product, unpadded
    const uint8_t* data;
    const uint8_t* scales;

    long tiles() const { return (n + 15) / 16; }
    long groups() const { return (k + 63) / 64; }
    long blocks() const { return 2 * groups(); }
    long padded_k() const { return 64 * groups(); }
    const float* units() const { return (const float*)(scales + 64 * tiles() * blocks()); }
};

// What a product needs to know of 64 codes of a row, x = code * scale, in two blocks of 32.
struct CodeGroup {
    float scale;
    float inverse;       // 1 / scale
    float block_sum[2];  // sums of the codes
    int32_t sums;        // the same as two int16
    int32_t offset[2];  // what a block's sum of products with unsigned weights begins with: -128 (int8) or -8
                        // (int4) times the sum of the codes, int4's even blocks plus 32768; where one pass
                        // sums both blocks of int4, the first is for both, as two int16
    int32_t unused;
};

// Rows of activations, encoded for a format of weights. `stride` is padded K. The codes of a group are side
// by side for all rows, so that rows lie a known distance apart.
struct Activations {
    long rows, stride;
    float* f32;         // [rows][stride], for f32
    uint16_t* bf16;     // [rows][stride], for bf16
    int8_t* codes;      // [stride / 64][rows][64], for int8 and int4, whose order is the instruction set's
    CodeGroup* groups;  // [stride / 64][rows]
};

// What happens to a product's result. `swiglu` takes tiles in pairs, gate then up, and writes half as many
// columns of silu(gate) * up.
enum class Epilogue : int { store, add, swiglu };

struct Product {
    const Matrix* w;
    const Activations* x;
    float* out;
    long out_stride;
    Epilogue epilogue;
};

// Keys and values of one layer in the pool. A block belongs to one page and one KV head, and a head's values
// follow its keys: memory is read fastest in long stretches. All element types
// have the same geometry in units of 4 bytes (a float, a pair of bf16, four 8-bit codes), a unit of values
// being that of successive tokens:
//   keys   [units of head_dim][16 tokens]
//   values [units of 16 tokens][head_dim]
// A block of int8 begins with the float scales of its 16 tokens; x = code * scale, keys' codes
// are stored plus 128, and head_dim is rounded up to 4.
enum class KvType : int { f32, bf16, int8 };
struct KvLayer {
    uint8_t* pool;
    size_t page_bytes;
    size_t at;  // offset of KV head 0's keys in a page
    size_t block_bytes;
    KvType type;

    uint8_t* keys(long page, long head) const {
        return pool + (size_t)page * page_bytes + at + 2 * (size_t)head * block_bytes;
    }
    uint8_t* values(long page, long head) const { return keys(page, head) + block_bytes; }
};
constexpr long kPageTokens = 16;
constexpr long kBlockPages = 8;  // pages per softmax block, which start at multiples of 128 tokens
constexpr long kBlockTokens = kPageTokens * kBlockPages;
constexpr long kSumBlock = 1024;
constexpr long kTileRows = 48;  // (query, head) rows that one call of attention handles

constexpr size_t kScaleBytes = 4 * kPageTokens;  // in front of a block of int8

inline size_t kv_block_bytes(KvType type, long head_dim) {
    if (type == KvType::int8) return kScaleBytes + (size_t)((head_dim + 3) / 4 * 4 * kPageTokens);
    return (size_t)(head_dim * kPageTokens * (type == KvType::f32 ? 4 : 2));
}

struct Heads {
    long heads, kv_heads, head_dim;
};

// Queries of one sequence, for heads [first_head, first_head + count) of one KV head; rows are its
// (query, head) pairs, queries * count <= kTileRows.
struct AttentionTile {
    const float* q;  // first query, its head 0; [queries][heads][head_dim], already rotated
    float* out;      // as q
    long stride;     // floats from one query to the next in q
    long out_stride;
    long first_position, queries;
    long kv_head, first_head, count;
    const int32_t* pages;

    long rows() const { return queries * count; }
    long blocks() const { return (first_position + queries + kBlockTokens - 1) / kBlockTokens; }
};

// What softmax blocks come to before they are merged, for one tile: per block [rows][dims] weighted values,
// and the rows' largest scores and sums. So blocks can be computed anywhere and merged in order.
inline long padded_dims(long head_dim) { return (head_dim + 15) / 16 * 16; }
inline long partial_floats(long rows, long head_dim) {
    return rows * padded_dims(head_dim) + 2 * ((rows + 15) / 16 * 16);
}

// Bytes of scratch that one call of attention needs.
inline size_t attention_scratch(long head_dim) {
    return sizeof(float) * (size_t)(kTileRows * (3 * padded_dims(head_dim) + 2 * kBlockTokens + 13) +
                                    16 * padded_dims(head_dim) + 256);
}

struct Kernels {
    const char* name;
    // Columns of tiles [tile_begin, tile_end) and rows [row_begin, row_end) of a product, by format.
    void (*matmul[4])(const Product&, long row_begin, long row_end, long tile_begin, long tile_end);
    // out = x / rms(x) * weight.
    void (*rms_norm)(const float* x, const float* weight, float eps, long n, float* out);
    // Encodes x [k] as the columns of row `row` from a group of 64 on, and zeros up to a multiple of 64. What
    // becomes of a group depends on it alone.
    void (*encode)(Format format, const float* x, long k, const Activations& out, long row, long group);
    // Rotates pairs (2i, 2i+1) of `heads` heads by the angles whose cosines and sines are given.
    void (*rope)(float* x, long heads, long head_dim, const float* cos, const float* sin);
    // Rotates `heads` heads, queries and keys alike, so that no element stands out: scores stay what they
    // are, and 8 bits with one scale suffice.
    void (*spread)(float* x, long heads, long head_dim);
    // Stores one token's keys and values [kv_heads][head_dim] at a position of a page.
    void (*write_kv)(const KvLayer&, const Heads&, long page, long slot, const float* k, const float* v);
    // Tiles one after the other.
    void (*attention)(const KvLayer&, const Heads&, const AttentionTile* tiles, long count, void* scratch);
    // One of them in parts: some blocks into their places in `partials` [blocks][partial_floats], then all of
    // them merged. Bit-identical to `attention`.
    void (*attention_part)(const KvLayer&, const Heads&, const AttentionTile&, long first_block,
                           long end_block, float* partials, void* scratch);
    void (*merge_parts)(const Heads&, const AttentionTile&, float* partials, void* scratch);
    // The largest of x [n], the lowest index among equals.
    long (*argmax)(const float* x, long n);
    // out = exp((x - largest) / temperature), 0 where that is below `least`; sums [n / kSumBlock, rounded up]
    // are those of runs of kSumBlock.
    void (*weights)(const float* x, long n, float largest, float inverse_temperature, float least, float* out,
                    float* sums);
};

const Kernels& generic_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();

}  // namespace twinfer
