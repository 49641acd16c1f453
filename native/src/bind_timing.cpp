// How long single kernels take on one thread, for the benchmarks.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <ctime>
#include <numeric>
#include <random>
#include <vector>

#include "bindings.h"
#include "encoded.h"
#include "isa.h"
#include "layout.h"

namespace twinfer {
namespace {

// Rows of a product that one call handles, as the decoder cuts them.
constexpr long kRows = 96;

// Seconds of this thread's processor time: what others do meanwhile does not count.
double thread_seconds() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <class F>
double quickest(long repeats, F&& work) {
    work();
    double best = 1e30;
    for (long i = 0; i < repeats; i++) {
        const double began = thread_seconds();
        work();
        best = std::min(best, thread_seconds() - began);
    }
    return best;
}

double time_product(const std::string& isa, const nb::dict& layout, const Array& weights, const Array& x,
                    long repeats) {
    const Kernels& kernels = kernels_named(isa);
    const Matrix w = read_matrix(layout, view<uint8_t>(weights, "weights", {-1}));
    const auto rows = view<float>(x, "x", {-1, w.k});
    const long count = static_cast<long>(x.shape(0));
    const Encoded encoded(kernels, w, rows.data(), count);
    std::vector<float> out(static_cast<size_t>(count * w.tiles() * 16));
    const Product product{&w, &encoded.view, out.data(), w.tiles() * 16, Epilogue::store};
    return quickest(repeats, [&] {
        for (long r = 0; r < count; r += kRows)
            kernels.matmul[static_cast<int>(w.format)](product, r, std::min(count, r + kRows), 0, w.tiles());
    });
}

double time_attention(const std::string& isa, long context, long queries, long group, long head_dim,
                      const std::string& kv_dtype, long repeats) {
    const long first = context - queries;
    if (queries < 1 || first < 0 || group < 1 || queries * group > kTileRows)
        throw std::invalid_argument("queries must fit into the context and one call of attention");
    if (head_dim < 2 || head_dim % 2) throw std::invalid_argument("head_dim must be even");
    const Kernels& kernels = kernels_named(isa);
    const Heads h{group, 1, head_dim};
    const KvType type = kv_type_named(kv_dtype);
    const size_t block = kv_block_bytes(type, head_dim);
    std::vector<int32_t> pages(static_cast<size_t>(context / kPageTokens + 1));
    std::iota(pages.begin(), pages.end(), 0);
    std::vector<uint8_t> pool(2 * block * pages.size());
    std::vector<float> q(static_cast<size_t>(queries * group * head_dim)), out(q.size());
    std::mt19937 random;
    std::normal_distribution<float> normal;
    auto fill = [&](float* to, long n) { std::generate_n(to, n, [&] { return normal(random); }); };
    const KvLayer kv{pool.data(), 2 * block, 0, block, type};
    std::vector<float> token(static_cast<size_t>(2 * head_dim));
    for (long t = 0; t < context; t++) {
        fill(token.data(), 2 * head_dim);
        kernels.write_kv(kv, h, t / kPageTokens, t % kPageTokens, token.data(), token.data() + head_dim);
    }
    fill(q.data(), static_cast<long>(q.size()));
    const long stride = group * head_dim;
    const AttentionTile tile{q.data(), out.data(), stride, stride, first, queries, 0, 0, group, pages.data()};
    std::vector<uint8_t> scratch(attention_scratch(head_dim));
    return quickest(repeats, [&] { kernels.attention(kv, h, &tile, 1, scratch.data()); });
}

}  // namespace

void bind_timing(nb::module_& m) {
    m.def("time_product", &time_product, nb::arg("isa"), nb::arg("layout"), nb::arg("weights"), nb::arg("x"),
          nb::arg("repeats") = 50);
    m.def("time_attention", &time_attention, nb::arg("isa"), nb::arg("context"), nb::arg("queries"),
          nb::arg("group"), nb::arg("head_dim"), nb::arg("kv_dtype"), nb::arg("repeats") = 50);
}

}  // namespace twinfer
