// The parts of the Python module.
#pragma once

#include <string>
#include <vector>

#include "arrays.h"
#include "sampling.h"

namespace twinfer {

void bind_decoder(nb::module_& m);
void bind_kernels(nb::module_& m);
void bind_ceiling(nb::module_& m);
void bind_timing(nb::module_& m);

// Throws std::invalid_argument when there is no such type.
KvType kv_type_named(const std::string& name);

std::vector<Sampling> read_sampling(const Array& temperature, const Array& top_k, const Array& top_p,
                                    const Array& min_p, const Array& seeds, long n);

}  // namespace twinfer
