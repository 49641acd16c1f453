// NumPy arrays as checked pointers.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>

namespace twinfer {

namespace nb = nanobind;

using Array = nb::ndarray<nb::ro, nb::device::cpu>;
using Writable = nb::ndarray<nb::device::cpu>;

// Checks that an array is C-contiguous, of T, and of that shape (-1 is any length).
template <class T, class A>
void expect(const A& array, const char* name, std::initializer_list<long> shape) {
    auto refuse = [&](const std::string& what) {
        throw std::invalid_argument(std::string(name) + " " + what);
    };
    if (array.dtype() != nb::dtype<T>()) {
        const char* kind = std::is_floating_point_v<T> ? "float" : std::is_signed_v<T> ? "int" : "uint";
        refuse("must be of type " + std::string(kind) + std::to_string(8 * sizeof(T)));
    }
    if (array.ndim() != shape.size()) refuse("must have " + std::to_string(shape.size()) + " dimensions");
    long stride = 1;
    for (size_t i = shape.size(); i-- > 0;) {
        const long wanted = *(shape.begin() + i), length = static_cast<long>(array.shape(i));
        if (wanted >= 0 && length != wanted)
            refuse("has length " + std::to_string(length) + " along axis " + std::to_string(i) + ", not " +
                   std::to_string(wanted));
        if (length > 1 && array.stride(i) != stride) refuse("must be C-contiguous");
        stride *= length;
    }
}

template <class T>
std::span<const T> view(const Array& array, const char* name, std::initializer_list<long> shape) {
    expect<T>(array, name, shape);
    return {static_cast<const T*>(array.data()), array.size()};
}

template <class T>
std::span<T> view(const Writable& array, const char* name, std::initializer_list<long> shape) {
    expect<T>(array, name, shape);
    return {static_cast<T*>(array.data()), array.size()};
}

// A new NumPy array that owns zeroed memory.
template <class T>
std::pair<nb::ndarray<nb::numpy, T>, T*> make_array(std::initializer_list<size_t> shape) {
    size_t size = 1;
    for (size_t n : shape) size *= n;
    T* data = new T[size ? size : 1]();
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return {nb::ndarray<nb::numpy, T>(data, shape, owner), data};
}

}  // namespace twinfer
