#include "decoder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

#include "cut.h"
#include "embedding.h"
#include "grow.h"

namespace twinfer {
namespace {

// Rows whose tokens are picked at once.
constexpr size_t kOutputRows = 64;

}  // namespace

Decoder::Decoder(Config config, Weights weights, Pool pool, std::shared_ptr<Team> team,
                 const Kernels& kernels)
    : config_(std::move(config)),
      weights_(std::move(weights)),
      pool_(pool),
      team_(std::move(team)),
      kernels_(kernels) {
    scratch_.sampling.resize(static_cast<size_t>(team_->size()));
    scratch_.attention.resize(static_cast<size_t>(team_->size()));
    scratch_.results.assign(static_cast<size_t>(team_->size()), Lines<float>(kResultFloats));
    for (auto& bytes : scratch_.attention) bytes.resize(attention_scratch(config_.head_dim));
}

std::vector<Pass> Decoder::prepare(const Batch& batch) {
    check_batch(config_, batch, pool_.pages);
    long end = 0;
    for (size_t s = 0; s < batch.rows.size(); s++)
        end = std::max(end, static_cast<long>(batch.starts[s]) + batch.rows[s]);
    grow_rotations(end);
    return split_batch(config_, batch);
}

// Makes the cosines and sines of at least the first `count` positions.
void Decoder::grow_rotations(long count) {
    if (count <= scratch_.positions) return;
    const long half = config_.head_dim / 2, from = scratch_.positions;
    count = std::max(count, 2 * from);
    scratch_.cos.resize(static_cast<size_t>(count * half));
    scratch_.sin.resize(static_cast<size_t>(count * half));
    for (long p = from; p < count; p++) {
        for (long i = 0; i < half; i++) {
            const float angle = static_cast<float>(p) * config_.inv_freq[static_cast<size_t>(i)];
            scratch_.cos[static_cast<size_t>(p * half + i)] =
                static_cast<float>(std::cos(static_cast<double>(angle)));
            scratch_.sin[static_cast<size_t>(p * half + i)] =
                static_cast<float>(std::sin(static_cast<double>(angle)));
        }
    }
    scratch_.positions = count;
}

KvLayer Decoder::kv_layer(long layer) const {
    const size_t blocks = static_cast<size_t>(layer * 2 * config_.kv_heads);
    return {pool_.data, pool_.page_bytes, blocks * pool_.block_bytes, pool_.block_bytes, pool_.type};
}

void Decoder::plan(const Pass& pass) {
    const long width = config_.heads * config_.head_dim,
               stride = width + 2 * config_.kv_heads * config_.head_dim;
    AttentionPlan& plan = scratch_.plan;
    plan.tiles.clear();
    for (const AttentionItem& item : pass.attention)
        plan.tiles.push_back({scratch_.wide.data() + item.row * stride,
                              scratch_.attended.data() + item.row * width, stride, width, item.position,
                              item.queries, item.kv_head, item.first_head, item.count, item.pages});
    cut(plan, team_->present(), config_.head_dim);
    grow(scratch_.partials, plan.partial_floats);
}

void Decoder::run_attention(const KvLayer& kv) {
    const Heads heads{config_.heads, config_.kv_heads, config_.head_dim};
    const AttentionPlan& plan = scratch_.plan;
    const AttentionTile* tiles = plan.tiles.data();
    auto scratch_of = [&](int member) {
        return static_cast<void*>(scratch_.attention[static_cast<size_t>(member)].data());
    };
    team_->run(static_cast<long>(plan.runs.size()), [&](long i, int member) {
        const AttentionRun& run = plan.runs[static_cast<size_t>(i)];
        if (run.begin == run.end) return;
        kernels_.attention(kv, heads, tiles + run.begin, run.end - run.begin, scratch_of(member));
    });
    team_->run(static_cast<long>(plan.parts.size()), [&](long i, int member) {
        const AttentionPart& part = plan.parts[static_cast<size_t>(i)];
        if (part.partials < 0)
            kernels_.attention(kv, heads, tiles + part.tile, 1, scratch_of(member));
        else
            kernels_.attention_part(kv, heads, tiles[part.tile], part.begin, part.end,
                                    scratch_.partials.data() + part.partials, scratch_of(member));
    });
    team_->run(static_cast<long>(plan.split.size()), [&](long i, int member) {
        const AttentionPart& part = plan.parts[static_cast<size_t>(plan.split[static_cast<size_t>(i)])];
        kernels_.merge_parts(heads, tiles[part.tile], scratch_.partials.data() + part.partials,
                             scratch_of(member));
    });
}

// Leaves the residual stream after the last layer in scratch_.x, [rows][hidden].
void Decoder::run_layers(const Pass& pass) {
    const Config& c = config_;
    const long rows = static_cast<long>(pass.tokens.size()), half = c.head_dim / 2;
    const long q_width = c.heads * c.head_dim, kv_width = c.kv_heads * c.head_dim;
    const long wide_width = q_width + 2 * kv_width;
    float* x = grow(scratch_.x, rows * c.hidden);               // [rows][hidden]
    float* wide = grow(scratch_.wide, rows * wide_width);       // [rows][q, k, v]
    float* attended = grow(scratch_.attended, rows * q_width);  // [rows][heads * head_dim]
    const long item = row_item(rows, *team_), items = ceil_div(rows, item);

    team_->run(items, [&](long i, int) {
        for (long r = i * item; r < std::min(rows, (i + 1) * item); r++)
            unpack_row(weights_.embedding, pass.tokens[static_cast<size_t>(r)].id, x + r * c.hidden);
    });
    plan(pass);
    for (long l = 0; l < c.layers; l++) {
        const LayerWeights& layer = weights_.layers[static_cast<size_t>(l)];
        const KvLayer kv = kv_layer(l);

        Activations a{};
        const Matrix* before = nullptr;
        for (const Part& part : layer.qkv) {
            const Matrix& w = part.matrix;
            if (!before || w.format != before->format) a = encode_rows(w, x, c.hidden, rows, layer.attn_norm);
            multiply(w, a, wide + part.column, wide_width, Epilogue::store);
            before = &w;
        }
        team_->run(items, [&](long i, int) {
            for (long r = i * item; r < std::min(rows, (i + 1) * item); r++) {
                const Token& token = pass.tokens[static_cast<size_t>(r)];
                float *q = wide + r * wide_width, *k = q + q_width, *v = k + kv_width;
                // Query and key heads lie side by side, so one call rotates both.
                kernels_.rope(q, c.heads + c.kv_heads, c.head_dim,
                              scratch_.cos.data() + token.position * half,
                              scratch_.sin.data() + token.position * half);
                if (kv.type == KvType::int8) kernels_.spread(q, c.heads + c.kv_heads, c.head_dim);
                kernels_.write_kv(kv, {c.heads, c.kv_heads, c.head_dim}, token.page, token.slot, k, v);
            }
        });
        run_attention(kv);
        a = encode_rows(layer.out, attended, q_width, rows, nullptr);
        multiply(layer.out, a, x, c.hidden, Epilogue::add);

        a = encode_rows(layer.gate_up, x, c.hidden, rows, layer.ffn_norm);
        multiply(layer.down, swiglu(layer, a), x, c.hidden, Epilogue::add);
    }
}

std::vector<int32_t> Decoder::forward(const Batch& batch, std::span<const uint8_t> wants,
                                      std::span<const Sampling> sampling) {
    if (wants.size() != batch.rows.size() || sampling.size() != batch.rows.size())
        throw std::invalid_argument("sampling parameters must have one entry per sequence");
    std::vector<int32_t> result(batch.rows.size(), -1);
    std::vector<long> rows, owners;
    for (const Pass& pass : prepare(batch)) {
        run_layers(pass);
        rows.clear();
        owners.clear();
        for (size_t r = 0; r < pass.last_of.size(); r++) {
            if (pass.last_of[r] < 0 || !wants[static_cast<size_t>(pass.last_of[r])]) continue;
            rows.push_back(static_cast<long>(r));
            owners.push_back(pass.last_of[r]);
        }
        for (size_t done = 0; done < rows.size(); done += kOutputRows) {
            const size_t count = std::min(rows.size() - done, kOutputRows);
            pick_tokens(batch, sampling, std::span(rows).subspan(done, count),
                        std::span(owners).subspan(done, count), result);
        }
    }
    return result;
}

void Decoder::logits(const Batch& batch, float* out) {
    for (const Pass& pass : prepare(batch)) {
        run_layers(pass);
        std::vector<long> rows(pass.tokens.size());
        std::iota(rows.begin(), rows.end(), 0L);
        multiply(weights_.output, encode_output(rows), out + pass.first * config_.vocab, config_.vocab,
                 Epilogue::store);
    }
}

}  // namespace twinfer
