// What cores can do at most: the two ceilings that a kernel's speed is judged by.
#pragma once

#include <string>
#include <vector>

namespace twinfer {

// Billions of operations a second of all cores together, a multiplication and an addition being two. `kind`
// is int8 (8-bit dot products), bf16 or f32; `isa` names the instruction set, the best one if empty. -1 is a
// core that the system picks. Throws std::invalid_argument.
double measure_ops(const std::vector<int>& cores, const std::string& isa, const std::string& kind);

// Billions of bytes a second that all cores together read from memory, caches being too small to help.
double measure_read(const std::vector<int>& cores);

}  // namespace twinfer
