// Rounding sizes up, and memory that grows to them.
#pragma once

#include <vector>

namespace twinfer {

template <class T>
T* grow(std::vector<T>& v, long n) {
    if (v.size() < static_cast<size_t>(n)) v.resize(static_cast<size_t>(n));
    return v.data();
}

inline long ceil_div(long a, long b) { return (a + b - 1) / b; }
inline long pad16(long n) { return ceil_div(n, 16) * 16; }

}  // namespace twinfer
