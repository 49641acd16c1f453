// Rounding sizes up, and memory that grows to them.
#pragma once

#include <new>
#include <vector>

namespace twinfer {

// Memory that begins with a cache line: a vector across two of them costs twice.
template <class T>
struct FromLine {
    using value_type = T;
    static constexpr std::align_val_t line{64};

    FromLine() = default;
    template <class U>
    FromLine(const FromLine<U>&) {}
    T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), line)); }
    void deallocate(T* p, size_t) { ::operator delete(p, line); }
    bool operator==(const FromLine&) const = default;
};

template <class T>
using Lines = std::vector<T, FromLine<T>>;

template <class T, class A>
T* grow(std::vector<T, A>& v, long n) {
    if (v.size() < static_cast<size_t>(n)) v.resize(static_cast<size_t>(n));
    return v.data();
}

inline long ceil_div(long a, long b) { return (a + b - 1) / b; }
inline long pad16(long n) { return ceil_div(n, 16) * 16; }

}  // namespace twinfer
