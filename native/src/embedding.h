// Reading single rows back out of a packed matrix.
#pragma once

#include "kernels.h"

namespace twinfer {

// Row `row` of the matrix as it was before packing ([n, k]), as float32 [k]; exact to the packed values.
void unpack_row(const Matrix& matrix, long row, float* out);

}  // namespace twinfer
