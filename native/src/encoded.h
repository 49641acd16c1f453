// Encoded activations in vectors of their own, for tests and measurements of single products.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.h"

namespace twinfer {

struct Encoded {
    std::vector<float> f32, scale, ratio, block_sum;
    std::vector<uint16_t> bf16;
    std::vector<int8_t> codes;
    std::vector<int32_t> sums, offset;
    Activations view;

    Encoded(const Kernels& kernels, const Matrix& w, const float* x, long rows) {
        const size_t size = static_cast<size_t>(rows * w.padded_k()),
                     blocks = static_cast<size_t>(rows * w.blocks());
        f32.resize(size);
        bf16.resize(size);
        codes.resize(size);
        scale.resize(blocks / 2);
        ratio.resize(blocks / 2);
        sums.resize(blocks / 2);
        block_sum.resize(blocks);
        offset.resize(blocks);
        view = {w.padded_k(), f32.data(),       bf16.data(), codes.data(), scale.data(),
                ratio.data(), block_sum.data(), sums.data(), offset.data()};
        for (long r = 0; r < rows; r++) kernels.encode(w.format, x + r * w.k, w.k, view, r);
    }
};

}  // namespace twinfer
