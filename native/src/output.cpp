// The end of a step: from the residual stream to tokens.
#include <algorithm>

#include "decoder.h"
#include "grow.h"

namespace twinfer {
namespace {

// Floats of rows' logits that stay in a core's cache.
constexpr long kPanelFloats = 1 << 16;
// Panels of the output matrix for each member, at least.
constexpr long kPanelsPerMember = 16;

}  // namespace

// Norms and encodes some rows of the residual stream for the output matrix.
Activations Decoder::encode_output(std::span<const long> rows) {
    const long count = static_cast<long>(rows.size());
    // Earlier rows move up in place: they are never needed again.
    float* x = scratch_.x.data();
    for (long i = 0; i < count; i++)
        std::copy_n(x + rows[static_cast<size_t>(i)] * config_.hidden, config_.hidden,
                    x + i * config_.hidden);
    return encode_rows(weights_.output, x, config_.hidden, count, weights_.norm);
}

// Encoded rows times the output matrix, a panel of columns at a time. Of a greedy row the largest is
// found while the panel is in the cache, so that its logits are never written to memory; those of others go
// to `logits`, one row after the other. Returns the greedy rows' tokens.
std::vector<int32_t> Decoder::run_output(const Activations& a, std::span<const uint8_t> greedy, float* logits,
                                         long width) {
    const Matrix& w = weights_.output;
    const long rows = a.rows;
    const long share = ceil_div(w.tiles(), team_->present() == 1 ? 1 : kPanelsPerMember * team_->present());
    const long tiles = std::max(1L, std::min(ceil_div(share, 4), kPanelFloats / (64 * rows))) * 4;
    const long panels = ceil_div(w.tiles(), tiles), panel_width = tiles * 16;
    float* buffers = grow(scratch_.panels, team_->size() * rows * panel_width);
    Largest* largest = grow(scratch_.largest, panels * rows);
    team_->run(panels, [&](long i, int member) {
        const long first = i * panel_width, count = std::min(panel_width, w.n - first);
        float* panel = buffers + member * rows * panel_width;
        const Product product{&w, &a, panel - first, panel_width, Epilogue::store};
        kernels_.matmul[static_cast<int>(w.format)](product, 0, rows, i * tiles,
                                                    std::min(w.tiles(), (i + 1) * tiles));
        float* to = logits + first;
        for (long r = 0; r < rows; r++) {
            const float* row = panel + r * panel_width;
            if (greedy[static_cast<size_t>(r)]) {
                const long at = kernels_.argmax(row, count);
                largest[i * rows + r] = {row[at], static_cast<int32_t>(first + at)};
            } else {
                std::copy_n(row, count, to);
                to += width;
            }
        }
    });
    std::vector<Largest> best(largest, largest + rows);
    for (long i = rows; i < panels * rows; i++)
        if (Largest& so_far = best[static_cast<size_t>(i % rows)]; largest[i].value > so_far.value)
            so_far = largest[i];
    std::vector<int32_t> ids;
    for (const Largest& one : best) ids.push_back(one.id);
    return ids;
}

// Samples for some rows of the residual stream.
void Decoder::pick_tokens(const Batch& batch, std::span<const Sampling> sampling, std::span<const long> rows,
                          std::span<const long> owners, std::span<int32_t> result) {
    std::vector<uint8_t> greedy;
    std::vector<size_t> sampled;
    for (long s : owners) {
        greedy.push_back(is_greedy(sampling[static_cast<size_t>(s)]));
        if (!greedy.back()) sampled.push_back(static_cast<size_t>(s));
    }
    const long width = pad16(config_.vocab);
    float* logits = grow(scratch_.logits, static_cast<long>(sampled.size()) * width);
    const Activations a = encode_output(rows);
    const std::vector<int32_t> ids = run_output(a, greedy, logits, width);
    for (size_t i = 0; i < owners.size(); i++) result[static_cast<size_t>(owners[i])] = ids[i];
    team_->run(static_cast<long>(sampled.size()), [&](long i, int member) {
        const size_t s = sampled[static_cast<size_t>(i)];
        const long position = static_cast<long>(batch.starts[s]) + batch.rows[s];
        result[s] =
            twinfer::sample(kernels_, logits + i * width, config_.vocab, sampling[s],
                            static_cast<uint64_t>(position), scratch_.sampling[static_cast<size_t>(member)]);
    });
}

}  // namespace twinfer
