// The machine's ceilings, for the benchmark.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "ceiling.h"

namespace twinfer {

void bind_ceiling(nb::module_& m) {
    m.def("measure_ops", &measure_ops, nb::arg("cores"), nb::arg("isa") = "", nb::arg("kind") = "int8",
          nb::call_guard<nb::gil_scoped_release>());
    m.def("measure_read", &measure_read, nb::arg("cores"), nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace twinfer
