// A Llama-family decoder over packed weights and a paged KV pool.
//
// The decoder keeps weights and scratch, nothing of any request. Results for a sequence depend on its own
// tokens, positions and pages only, bit for bit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "batch.h"
#include "grow.h"
#include "kernels.h"
#include "plan.h"
#include "sampling.h"
#include "team.h"

namespace twinfer {

// A product whose result starts at a column of a wider row.
struct Part {
    long column;
    Matrix matrix;
};

struct LayerWeights {
    const float* attn_norm;  // [hidden]
    std::vector<Part> qkv;   // hidden -> (heads + 2 * kv_heads) * head_dim
    Matrix out;              // heads * head_dim -> hidden
    const float* ffn_norm;   // [hidden]
    Matrix gate_up;          // hidden -> tiles of gate and up in turns, each of ffn padded to 16
    Matrix down;             // ffn -> hidden
};

struct Weights {
    Matrix embedding;  // [vocab, hidden]
    std::vector<LayerWeights> layers;
    const float* norm;  // [hidden]
    Matrix output;      // hidden -> vocab; may be the embedding
};

// Where keys and values live: pages of `page_bytes`, each [layer][kv_head][keys, values][block].
struct Pool {
    uint8_t* data;
    long pages;
    size_t page_bytes, block_bytes;
    KvType type;
};

// The largest logit of a row's panel.
struct Largest {
    float value;
    int32_t id;
};

// Where rows lie that are encoded for a product.
struct EncodedRows {
    Lines<float> f32;
    Lines<uint16_t> bf16;
    Lines<int8_t> codes;
    Lines<CodeGroup> groups;
};

// Grows when a step needs more and is kept; nothing is allocated per step otherwise.
struct Scratch {
    Lines<float> x, wide, attended, norm, panels, logits, cos, sin;
    std::vector<Largest> largest;           // [panels][rows]
    EncodedRows encoded, hidden;            // `hidden` is what SwiGLU comes to
    std::vector<Lines<float>> results;      // per member, of one group of columns
    std::vector<Lines<uint8_t>> attention;  // per member
    AttentionPlan plan;
    Lines<float> partials;                  // of all split items
    std::vector<SamplingScratch> sampling;  // per member
    long positions = 0;                     // rows of cos and sin
};

class Decoder {
  public:
    Decoder(Config config, Weights weights, Pool pool, std::shared_ptr<Team> team, const Kernels& kernels);

    // Runs a batch and samples. sample[s] says whether s gets a token for position starts[s] + rows[s];
    // result [S], -1 for sequences that do not. Throws std::invalid_argument.
    std::vector<int32_t> forward(const Batch& batch, std::span<const uint8_t> sample,
                                 std::span<const Sampling> sampling);

    // Runs a batch and writes the logits of every token, [sum of rows][vocab].
    void logits(const Batch& batch, float* out);

    const Config& config() const { return config_; }
    const Kernels& kernels() const { return kernels_; }

  private:
    std::vector<Pass> prepare(const Batch& batch);
    void run_layers(const Pass& pass);
    void run_attention(const KvLayer& kv);
    void plan(const Pass& pass);
    Activations encode_rows(const Matrix& for_matrix, const float* x, long stride, long rows,
                            const float* norm);
    void multiply(const Matrix& w, const Activations& a, float* out, long out_stride, Epilogue epilogue);
    Activations swiglu(const LayerWeights& layer, const Activations& a);
    Activations encode_output(std::span<const long> rows);
    std::vector<int32_t> run_output(const Activations& a, std::span<const uint8_t> greedy, float* logits,
                                    long width);
    void pick_tokens(const Batch& batch, std::span<const Sampling> sampling, std::span<const long> rows,
                     std::span<const long> owners, std::span<int32_t> result);
    void grow_rotations(long positions);
    KvLayer kv_layer(long layer) const;

    Config config_;
    Weights weights_;
    Pool pool_;
    std::shared_ptr<Team> team_;
    const Kernels& kernels_;
    Scratch scratch_;
};

}  // namespace twinfer
