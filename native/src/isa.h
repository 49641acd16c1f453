// Which instruction sets this machine can run.
#pragma once

#include <string>
#include <vector>

#include "kernels.h"

namespace twinfer {

// The runnable kernel tables, best first; the plain C++ one is always the last.
std::vector<const Kernels*> available_kernels();

// The table by that name, the best one for an empty name. Throws std::invalid_argument.
const Kernels& kernels_named(const std::string& name);

}  // namespace twinfer
