// Encoded activations in vectors of their own, for tests and measurements of single products.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.h"

namespace twinfer {

struct Encoded {
    std::vector<float> f32;
    std::vector<uint16_t> bf16;
    std::vector<int8_t> codes;
    std::vector<CodeGroup> groups;
    Activations view;

    Encoded(const Kernels& kernels, const Matrix& w, const float* x, long rows) {
        const size_t size = static_cast<size_t>(rows * w.padded_k());
        f32.resize(size);
        bf16.resize(size);
        codes.resize(size);
        groups.resize(static_cast<size_t>(rows * w.groups()));
        view = {rows, w.padded_k(), f32.data(), bf16.data(), codes.data(), groups.data()};
        for (long r = 0; r < rows; r++) kernels.encode(w.format, x + r * w.k, w.k, view, r, 0);
    }
};

}  // namespace twinfer
