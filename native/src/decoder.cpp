#include "decoder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

#include "embedding.h"

namespace twinfer {
namespace {

// Rows that go through all layers together: enough to reuse weights, few enough to stay in cache.
constexpr long kPassRows = 512;
// Rows of an item of row-wise work, and of a block of a product.
constexpr long kRowItem = 16;
constexpr long kProductRows = 96;
// Rows whose logits are held at once.
constexpr size_t kOutputRows = 64;
// Queries that share one attention call at most.
constexpr long kQueries = 16;

template <class T>
T* grow(std::vector<T>& v, long n) {
    if (v.size() < static_cast<size_t>(n)) v.resize(static_cast<size_t>(n));
    return v.data();
}

long ceil_div(long a, long b) { return (a + b - 1) / b; }
long pad16(long n) { return ceil_div(n, 16) * 16; }

[[noreturn]] void refuse(const std::string& message) { throw std::invalid_argument(message); }

}  // namespace

struct Decoder::Token {
    int32_t id;
    int32_t position;
    int32_t page, slot;
};

struct Decoder::AttentionItem {
    long row, position, queries;  // first row of the pass, its position, and how many
    long kv_head, first_head, count;
    const int32_t* pages;
};

// A stretch of the batch that goes through all layers together.
struct Decoder::Pass {
    std::vector<Token> tokens;
    std::vector<AttentionItem> attention;
    std::vector<long> last_of;  // per row: the sequence that ends here, or -1
    long first = 0;             // of the batch's tokens
};

Decoder::Decoder(Config config, Weights weights, Pool pool, std::shared_ptr<Team> team, const Kernels& kernels)
    : config_(std::move(config)), weights_(std::move(weights)), pool_(pool), team_(std::move(team)),
      kernels_(kernels) {
    scratch_.sampling.resize(static_cast<size_t>(team_->size()));
    scratch_.attention.resize(static_cast<size_t>(team_->size()));
    for (auto& bytes : scratch_.attention) bytes.resize(attention_scratch(config_.head_dim));
}

void Decoder::check(const Batch& b) const {
    const size_t sequences = b.rows.size();
    if (b.starts.size() != sequences || b.page_tables.size() != sequences * static_cast<size_t>(b.page_columns))
        refuse("rows, starts and page_tables must have the same number of sequences");
    long total = 0;
    for (size_t s = 0; s < sequences; s++) {
        if (b.rows[s] < 1) refuse("sequence " + std::to_string(s) + " has no tokens");
        if (b.starts[s] < 0) refuse("sequence " + std::to_string(s) + " starts before position 0");
        total += b.rows[s];
        const long end = static_cast<long>(b.starts[s]) + b.rows[s], pages = ceil_div(end, kPageTokens);
        if (pages > b.page_columns)
            refuse("sequence " + std::to_string(s) + " needs " + std::to_string(pages) + " pages, but its table has " +
                   std::to_string(b.page_columns));
        for (long i = 0; i < pages; i++) {
            const int32_t page = b.page_tables[s * static_cast<size_t>(b.page_columns) + static_cast<size_t>(i)];
            if (page < 0 || page >= pool_.pages)
                refuse("page " + std::to_string(page) + " is not one of the pool's " + std::to_string(pool_.pages));
        }
    }
    if (total != static_cast<long>(b.tokens.size()))
        refuse("rows add up to " + std::to_string(total) + ", but there are " + std::to_string(b.tokens.size()) +
               " tokens");
    for (int32_t token : b.tokens)
        if (token < 0 || token >= config_.vocab) refuse("token " + std::to_string(token) + " is not in the vocabulary");
}

std::vector<Decoder::Pass> Decoder::split(const Batch& b) const {
    std::vector<Pass> passes;
    const long group = config_.heads / config_.kv_heads, heads_at_once = std::min(group, kTileRows);
    const long queries_at_once = std::clamp(kTileRows / group, 1L, kQueries);
    long token = 0;
    for (size_t s = 0; s < b.rows.size(); s++) {
        const int32_t* pages = b.page_tables.data() + s * static_cast<size_t>(b.page_columns);
        for (long done = 0; done < b.rows[s];) {
            if (passes.empty() || static_cast<long>(passes.back().tokens.size()) == kPassRows) {
                passes.emplace_back();
                passes.back().first = token;
            }
            Pass& pass = passes.back();
            const long row = static_cast<long>(pass.tokens.size());
            const long count = std::min(b.rows[s] - done, kPassRows - row);
            for (long i = 0; i < count; i++, token++) {
                const long position = b.starts[s] + done + i;
                pass.tokens.push_back({b.tokens[static_cast<size_t>(token)], static_cast<int32_t>(position),
                                       pages[position / kPageTokens], static_cast<int32_t>(position % kPageTokens)});
                pass.last_of.push_back(done + i + 1 == b.rows[s] ? static_cast<long>(s) : -1);
            }
            for (long q = 0; q < count; q += queries_at_once)
                for (long kv = 0; kv < config_.kv_heads; kv++)
                    for (long h = 0; h < group; h += heads_at_once)
                        pass.attention.push_back({row + q, b.starts[s] + done + q, std::min(queries_at_once, count - q),
                                                  kv, kv * group + h, std::min(heads_at_once, group - h), pages});
            done += count;
        }
    }
    // The longest first, so that no member is left with one when the others are done.
    for (Pass& pass : passes)
        std::stable_sort(pass.attention.begin(), pass.attention.end(),
                         [](const AttentionItem& a, const AttentionItem& b) {
                             return a.position * a.queries > b.position * b.queries;
                         });
    return passes;
}

void Decoder::prepare_positions(long count) {
    if (count <= scratch_.positions) return;
    const long half = config_.head_dim / 2, from = scratch_.positions;
    count = std::max(count, 2 * from);
    scratch_.cos.resize(static_cast<size_t>(count * half));
    scratch_.sin.resize(static_cast<size_t>(count * half));
    for (long p = from; p < count; p++) {
        for (long i = 0; i < half; i++) {
            const float angle = static_cast<float>(p) * config_.inv_freq[static_cast<size_t>(i)];
            scratch_.cos[static_cast<size_t>(p * half + i)] = static_cast<float>(std::cos(static_cast<double>(angle)));
            scratch_.sin[static_cast<size_t>(p * half + i)] = static_cast<float>(std::sin(static_cast<double>(angle)));
        }
    }
    scratch_.positions = count;
}

KvLayer Decoder::kv_layer(long layer) const {
    const size_t heads = static_cast<size_t>(config_.kv_heads), at = static_cast<size_t>(layer) * 2 * heads;
    return {pool_.data, pool_.page_bytes, at * pool_.block_bytes, (at + heads) * pool_.block_bytes,
            pool_.block_bytes, pool_.bf16};
}

Activations Decoder::activations(const Matrix& w, long rows) {
    Activations a{};
    a.stride = w.padded_k();
    if (w.format == Format::f32) {
        a.f32 = grow(scratch_.f32, rows * a.stride);
    } else if (w.format == Format::bf16) {
        a.bf16 = grow(scratch_.bf16, rows * a.stride);
    } else {
        a.codes = grow(scratch_.codes, rows * a.stride);
        a.row_scale = grow(scratch_.row_scale, rows);
        a.block_scale = grow(scratch_.block_scale, rows * w.blocks());
        a.block_sum = grow(scratch_.block_sum, rows * w.blocks());
        a.offset = grow(scratch_.offset, rows * w.blocks());
        a.by_block = w.by_block;
    }
    return a;
}

// Encodes rows of x for a product with w, after a norm where there is one.
void Decoder::encode_rows(const Matrix& w, const float* x, long stride, long rows, const float* norm) {
    const Activations a = activations(w, rows);
    const long item = rows <= 4 ? rows : std::min(kRowItem, ceil_div(rows, team_->active()));
    const long width = pad16(w.k);
    float* normed = grow(scratch_.norm, width * team_->size());
    team_->run(ceil_div(rows, item), [&](long i, int member) {
        for (long r = i * item; r < std::min(rows, (i + 1) * item); r++) {
            const float* row = x + r * stride;
            if (norm) {
                float* to = normed + width * member;
                kernels_.rms_norm(row, norm, config_.rms_eps, w.k, to);
                row = to;
            }
            kernels_.encode(w.format, row, w.k, a, r);
        }
    });
}

// out (=, += or SwiGLU of) the rows encoded last times w.
void Decoder::multiply(const Matrix& w, long rows, float* out, long out_stride, Epilogue epilogue) {
    const Activations a = activations(w, rows);
    const Product product{&w, &a, out, out_stride, epilogue};
    // Few rows are bound by memory: split columns finely. Many are bound by arithmetic: split into blocks
    // whose activations stay in cache.
    const long row_blocks = ceil_div(rows, kProductRows), row_item = ceil_div(rows, row_blocks);
    const long wanted = team_->active() == 1 ? 1 : 6 * team_->active();
    const long panels = std::clamp(ceil_div(wanted, row_blocks), 1L, ceil_div(w.tiles(), 4));
    const long tile_item = ceil_div(ceil_div(w.tiles(), panels), 4) * 4, tile_items = ceil_div(w.tiles(), tile_item);
    team_->run(row_blocks * tile_items, [&](long i, int) {
        const long row = i % row_blocks * row_item, tile = i / row_blocks * tile_item;
        kernels_.matmul[static_cast<int>(w.format)](product, row, std::min(rows, row + row_item), tile,
                                                    std::min(w.tiles(), tile + tile_item));
    });
}

void Decoder::run_attention(const Pass& pass, const KvLayer& kv) {
    const Heads heads{config_.heads, config_.kv_heads, config_.head_dim};
    const long width = config_.heads * config_.head_dim, stride = width + 2 * config_.kv_heads * config_.head_dim;
    team_->run(static_cast<long>(pass.attention.size()), [&](long i, int member) {
        const AttentionItem& item = pass.attention[static_cast<size_t>(i)];
        const AttentionTile tile{scratch_.wide.data() + item.row * stride,
                                 scratch_.attended.data() + item.row * width,
                                 stride,
                                 width,
                                 item.position,
                                 item.queries,
                                 item.kv_head,
                                 item.first_head,
                                 item.count,
                                 item.pages};
        kernels_.attention(kv, heads, tile, scratch_.attention[static_cast<size_t>(member)].data());
    });
}

// Leaves the residual stream after the last layer in scratch_.x, [rows][hidden].
void Decoder::run_layers(const Pass& pass) {
    const Config& c = config_;
    const long rows = static_cast<long>(pass.tokens.size()), half = c.head_dim / 2;
    const long q_width = c.heads * c.head_dim, kv_width = c.kv_heads * c.head_dim;
    const long wide_width = q_width + 2 * kv_width, ffn_width = pad16(c.ffn);
    float* x = grow(scratch_.x, rows * c.hidden);             // [rows][hidden]
    float* wide = grow(scratch_.wide, rows * wide_width);     // [rows][q, k, v]
    float* attended = grow(scratch_.attended, rows * q_width);  // [rows][heads * head_dim]
    float* hidden = grow(scratch_.hidden, rows * ffn_width);  // [rows][ffn, padded]
    const long item = rows <= 4 ? rows : std::min(kRowItem, ceil_div(rows, team_->active()));
    const long items = ceil_div(rows, item);

    team_->run(items, [&](long i, int) {
        for (long r = i * item; r < std::min(rows, (i + 1) * item); r++)
            unpack_row(weights_.embedding, pass.tokens[static_cast<size_t>(r)].id, x + r * c.hidden);
    });
    for (long l = 0; l < c.layers; l++) {
        const LayerWeights& layer = weights_.layers[static_cast<size_t>(l)];
        const KvLayer kv = kv_layer(l);

        encode_rows(layer.qkv[0].matrix, x, c.hidden, rows, layer.attn_norm);
        for (const Part& part : layer.qkv) {
            if (part.column && part.matrix.format != layer.qkv[0].matrix.format)
                encode_rows(part.matrix, x, c.hidden, rows, layer.attn_norm);
            multiply(part.matrix, rows, wide + part.column, wide_width, Epilogue::store);
        }
        team_->run(items, [&](long i, int) {
            for (long r = i * item; r < std::min(rows, (i + 1) * item); r++) {
                const Token& token = pass.tokens[static_cast<size_t>(r)];
                float *q = wide + r * wide_width, *k = q + q_width, *v = k + kv_width;
                // Query and key heads lie side by side, so one call rotates both.
                kernels_.rope(q, c.heads + c.kv_heads, c.head_dim, scratch_.cos.data() + token.position * half,
                              scratch_.sin.data() + token.position * half);
                kernels_.write_kv(kv, {c.heads, c.kv_heads, c.head_dim}, token.page, token.slot, k, v);
            }
        });
        run_attention(pass, kv);
        encode_rows(layer.out, attended, q_width, rows, nullptr);
        multiply(layer.out, rows, x, c.hidden, Epilogue::add);

        encode_rows(layer.gate_up, x, c.hidden, rows, layer.ffn_norm);
        multiply(layer.gate_up, rows, hidden, ffn_width, Epilogue::swiglu);
        encode_rows(layer.down, hidden, ffn_width, rows, nullptr);
        multiply(layer.down, rows, x, c.hidden, Epilogue::add);
    }
}

// Logits of some rows of the residual stream, [rows.size()][out_stride].
void Decoder::run_output(const float* x, std::span<const long> rows, float* out, long out_stride) {
    const long count = static_cast<long>(rows.size());
    // Earlier rows move up in place: they are never needed again.
    float* gathered = scratch_.x.data();
    for (long i = 0; i < count; i++)
        std::copy_n(x + rows[static_cast<size_t>(i)] * config_.hidden, config_.hidden, gathered + i * config_.hidden);
    encode_rows(weights_.output, gathered, config_.hidden, count, weights_.norm);
    multiply(weights_.output, count, out, out_stride, Epilogue::store);
}

std::vector<int32_t> Decoder::forward(const Batch& batch, std::span<const uint8_t> wants,
                                      std::span<const Sampling> sampling) {
    check(batch);
    if (wants.size() != batch.rows.size() || sampling.size() != batch.rows.size())
        refuse("sampling parameters must have one entry per sequence");
    std::vector<int32_t> result(batch.rows.size(), -1);
    std::vector<long> rows, owners;
    long end = 0;
    for (size_t s = 0; s < batch.rows.size(); s++) end = std::max(end, static_cast<long>(batch.starts[s]) + batch.rows[s]);
    prepare_positions(end);
    for (const Pass& pass : split(batch)) {
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
            const long width = pad16(config_.vocab);
            float* logits = grow(scratch_.logits, static_cast<long>(count) * width);
            run_output(scratch_.x.data(), std::span(rows).subspan(done, count), logits, width);
            team_->run(static_cast<long>(count), [&](long i, int member) {
                const size_t s = static_cast<size_t>(owners[done + static_cast<size_t>(i)]);
                const long position = static_cast<long>(batch.starts[s]) + batch.rows[s];
                result[s] = twinfer::sample(kernels_, logits + i * width, config_.vocab, sampling[s],
                                            static_cast<uint64_t>(position),
                                            scratch_.sampling[static_cast<size_t>(member)]);
            });
        }
    }
    return result;
}

void Decoder::logits(const Batch& batch, float* out) {
    check(batch);
    long end = 0;
    for (size_t s = 0; s < batch.rows.size(); s++) end = std::max(end, static_cast<long>(batch.starts[s]) + batch.rows[s]);
    prepare_positions(end);
    for (const Pass& pass : split(batch)) {
        run_layers(pass);
        std::vector<long> rows(pass.tokens.size());
        std::iota(rows.begin(), rows.end(), 0L);
        run_output(scratch_.x.data(), rows, out + pass.first * config_.vocab, config_.vocab);
    }
}

}  // namespace twinfer
