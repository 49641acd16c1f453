// What a step is asked to compute, and how it is cut into passes and attention calls.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace twinfer {

struct Config {
    long layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
    float rms_eps;
    std::vector<float> inv_freq;  // [head_dim / 2]
};

// What one step computes: sequence s has rows[s] new tokens at positions starts[s] and up.
struct Batch {
    std::span<const int32_t> tokens;       // [sum of rows]
    std::span<const int32_t> rows;         // [S]
    std::span<const int32_t> starts;       // [S]
    std::span<const int32_t> page_tables;  // [S][page_columns]
    long page_columns;
};

struct Token {
    int32_t id;
    int32_t position;
    int32_t page, slot;
};

struct AttentionItem {
    long row, position, queries;  // first row of the pass, its position, and how many
    long kv_head, first_head, count;
    const int32_t* pages;
};

// A stretch of the batch that goes through all layers together.
struct Pass {
    std::vector<Token> tokens;
    std::vector<AttentionItem> attention;
    std::vector<long> last_of;  // per row: the sequence that ends here, or -1
    long first = 0;             // of the batch's tokens
};

// Throws std::invalid_argument when shapes disagree, or a token, position or page is out of range.
void check_batch(const Config& config, const Batch& batch, long pool_pages);

// Cuts a checked batch into passes. Where it cuts never changes a result.
std::vector<Pass> split_batch(const Config& config, const Batch& batch);

}  // namespace twinfer
