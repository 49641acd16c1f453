// The products of a layer: what the team's members do with rows, before, in and after them.
#include <algorithm>

#include "cut.h"
#include "decoder.h"

namespace twinfer {
namespace {

// Multiplications and additions that an item of a large product has at most, some 0.1 ms.
constexpr long kItemAdds = 16'000'000;

// Rows for a product with w.
Activations activations(EncodedRows& to, const Matrix& w, long rows) {
    Activations a{};
    a.rows = rows;
    a.stride = w.padded_k();
    if (w.format == Format::f32) {
        a.f32 = grow(to.f32, rows * a.stride);
    } else if (w.format == Format::bf16) {
        a.bf16 = grow(to.bf16, rows * a.stride);
    } else {
        a.codes = grow(to.codes, rows * a.stride);
        a.groups = grow(to.groups, rows * w.groups());
    }
    return a;
}

}  // namespace

// Few rows are bound by memory: split columns finely. Many are bound by arithmetic: split into blocks whose
// activations stay in cache, and so short that a core may be lent or taken back at any time.
ProductCut cut_product(const Matrix& w, long rows, long unit, const Team& team) {
    const long row_blocks = ceil_div(rows, kProductRows), members = team.present();
    const long adds = ceil_div(rows, row_blocks) * w.tiles() * 16 * w.k;
    long panels = 1;
    if (team.size() > 1 && row_blocks > 1)
        panels = std::max(ceil_div(16 * std::max(2L, members), row_blocks), ceil_div(adds, kItemAdds));
    else if (members > 1)
        panels = 6 * members;
    return {rows, row_blocks, w.tiles(), unit, std::clamp(panels, 1L, ceil_div(w.tiles(), unit))};
}

// Encodes rows of x for a product with w, after a norm where there is one. They are kept until the next are.
Activations Decoder::encode_rows(const Matrix& w, const float* x, long stride, long rows, const float* norm) {
    const Activations a = activations(scratch_.encoded, w, rows);
    const long item = row_item(rows, *team_), width = pad16(w.k);
    float* normed = grow(scratch_.norm, width * team_->size());
    team_->run(ceil_div(rows, item), [&](long i, int member) {
        for (long r = i * item; r < std::min(rows, (i + 1) * item); r++) {
            const float* row = x + r * stride;
            if (norm) {
                float* to = normed + width * member;
                kernels_.rms_norm(row, norm, config_.rms_eps, w.k, to);
                row = to;
            }
            kernels_.encode(w.format, row, w.k, a, r, 0);
        }
    });
    return a;
}

// out (= or +=) rows times w.
void Decoder::multiply(const Matrix& w, const Activations& a, float* out, long out_stride,
                       Epilogue epilogue) {
    const Product product{&w, &a, out, out_stride, epilogue};
    const ProductCut cut = cut_product(w, a.rows, 2, *team_);
    team_->run(cut.items(), [&](long i, int) {
        const long block = i / cut.panels, panel = i % cut.panels;
        kernels_.matmul[static_cast<int>(w.format)](product, cut.row(block), cut.row(block + 1),
                                                    cut.tile(panel), cut.tile(panel + 1));
    });
}

// SwiGLU of rows times gate_up, encoded for `down` where it is made: 8 tiles of gate and up come to a group
// of 64 columns, and as many groups at once as remain in the core's cache.
Activations Decoder::swiglu(const LayerWeights& layer, const Activations& a) {
    const Matrix &w = layer.gate_up, &down = layer.down;
    const Activations hidden = activations(scratch_.hidden, down, a.rows);
    const ProductCut cut = cut_product(w, a.rows, 8, *team_);
    team_->run(cut.items(), [&](long i, int member) {
        const long first = cut.row(i / cut.panels), end = cut.row(i / cut.panels + 1);
        const long last = cut.tile(i % cut.panels + 1), width = kResultFloats / (end - first) / 64 * 64;
        float* results = scratch_.results[static_cast<size_t>(member)].data();
        for (long tile = cut.tile(i % cut.panels); tile < last; tile += width / 8) {
            const long column = tile * 8;
            const Product product{&w, &a, results - first * width - column, width, Epilogue::swiglu};
            const long until = std::min(last, tile + width / 8);
            kernels_.matmul[static_cast<int>(w.format)](product, first, end, tile, until);
            for (long r = first; r < end; r++)
                kernels_.encode(down.format, results + (r - first) * width,
                                std::min(down.k - column, (until - tile) * 8), hidden, r, column / 64);
        }
    });
    return hidden;
}

}  // namespace twinfer
