// Reading the description of packed weights, as model/pack.py writes it.
#pragma once

#include "arrays.h"
#include "decoder.h"

namespace twinfer {

// Throws std::invalid_argument when an entry is missing, of the wrong type, or points outside the buffer.
Config read_config(const nb::dict& layout);
Weights read_weights(const nb::dict& layout, std::span<const uint8_t> buffer);
Matrix read_matrix(const nb::dict& entry, std::span<const uint8_t> buffer);

}  // namespace twinfer
