// The Python module twinfer._native; _native.pyi documents it.
#include "bindings.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "isa.h"
#include "turns.h"

NB_MODULE(_native, m) {
    m.def("isas", [] {
        std::vector<std::string> names;
        for (const twinfer::Kernels* k : twinfer::available_kernels()) names.emplace_back(k->name);
        return names;
    });
    m.def("take_turns", twinfer::take_turns);
    twinfer::bind_decoder(m);
    twinfer::bind_kernels(m);
    twinfer::bind_ceiling(m);
    twinfer::bind_timing(m);
}
