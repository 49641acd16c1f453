#include "isa.h"

#include <stdexcept>

namespace twinfer {

std::vector<const Kernels*> available_kernels() {
    std::vector<const Kernels*> found;
#ifdef TW_X86
    __builtin_cpu_init();
    bool avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16"))
        found.push_back(&avx512_kernels());
    if (avx2) found.push_back(&avx2_kernels());
#endif
    found.push_back(&generic_kernels());
    return found;
}

const Kernels& kernels_named(const std::string& name) {
    std::string names;
    for (const Kernels* k : available_kernels()) {
        if (name.empty() || name == k->name) return *k;
        names += (names.empty() ? "" : ", ") + std::string(k->name);
    }
    throw std::invalid_argument("instruction set '" + name + "' is not one of " + names);
}

}  // namespace twinfer
