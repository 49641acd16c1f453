// The simplest loops that keep a core's arithmetic units busy.
#pragma once

#include <cstdint>
#include <string>

namespace twinfer {

// `work` does `operations` operations, and returns something that depends on all of them. The compiler must
// not know the seed.
struct Loop {
    int32_t (*work)(int32_t seed);
    double operations;
};

// The loop for an instruction set's name and a kind, int8, bf16 or f32. Throws std::invalid_argument.
Loop arithmetic_loop(const std::string& isa, const std::string& kind);

}  // namespace twinfer
