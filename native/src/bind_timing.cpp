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

// Sequences whose keys and values fill a pool, as an engine has them.
struct Attended {
    Heads heads;
    KvType type;
    long layers, answers, context, queries;

    size_t block() const { return kv_block_bytes(type, heads.head_dim); }
    size_t page() const { return static_cast<size_t>(2 * heads.kv_heads * layers) * block(); }
    long pages() const { return (context + kPageTokens - 1) / kPageTokens; }
    KvLayer layer(uint8_t* pool, long l) const {
        return {pool, page(), static_cast<size_t>(2 * heads.kv_heads * l) * block(), block(), type};
    }
    void check(size_t pool) const {
        const long group = heads.kv_heads < 1 ? 0 : heads.heads / heads.kv_heads;
        if (group < 1 || heads.heads % heads.kv_heads)
            throw std::invalid_argument("heads must be a multiple of the KV heads");
        if (queries < 1 || queries > context || queries * group > kTileRows)
            throw std::invalid_argument("queries must fit into the context and one call of attention");
        if (heads.head_dim < 2 || heads.head_dim % 2) throw std::invalid_argument("head_dim must be even");
        if (layers < 1 || answers < 1 || pool / page() / static_cast<size_t>(pages()) < size_t(answers))
            throw std::invalid_argument("the pool is too small for these layers and answers");
    }
};

template <class F>
std::vector<float> filled(long n, F&& number) {
    std::vector<float> to(static_cast<size_t>(n));
    std::generate(to.begin(), to.end(), number);
    return to;
}

double time_attention(const std::string& isa, const Writable& pool, const std::string& kv_dtype, long heads,
                      long kv_heads, long head_dim, long layers, long answers, long context, long queries,
                      long repeats) {
    const Kernels& kernels = kernels_named(isa);
    const Attended a{{heads, kv_heads, head_dim}, kv_type_named(kv_dtype), layers, answers, context, queries};
    const std::span<uint8_t> memory = view<uint8_t>(pool, "pool", {-1});
    a.check(memory.size());
    std::mt19937 random;
    std::normal_distribution<float> normal;
    auto number = [&] { return normal(random); };
    const long width = kv_heads * head_dim, stride = heads * head_dim;
    for (long t = 0; t < context; t++) {
        const std::vector<float> k = filled(width, number), v = filled(width, number);
        for (long l = 0; l < layers; l++)
            for (long s = 0; s < answers; s++)
                kernels.write_kv(a.layer(memory.data(), l), a.heads, s * a.pages() + t / kPageTokens,
                                 t % kPageTokens, k.data(), v.data());
    }
    const std::vector<float> q = filled(queries * stride, number);
    std::vector<float> out(q.size());
    std::vector<int32_t> pages(static_cast<size_t>(answers * a.pages()));
    std::iota(pages.begin(), pages.end(), 0);
    std::vector<AttentionTile> tiles;
    for (long s = 0; s < answers; s++)
        for (long h = 0, group = heads / kv_heads; h < kv_heads; h++)
            tiles.push_back({q.data(), out.data(), stride, stride, context - queries, queries, h, h * group,
                             group, pages.data() + s * a.pages()});
    std::vector<uint8_t> scratch(attention_scratch(head_dim));
    return quickest(repeats, [&] {
        for (long l = 0; l < layers; l++)
            for (size_t t = 0; t < tiles.size(); t += static_cast<size_t>(kv_heads))
                kernels.attention(a.layer(memory.data(), l), a.heads, &tiles[t], kv_heads, scratch.data());
    });
}

}  // namespace

void bind_timing(nb::module_& m) {
    m.def("time_product", &time_product, nb::arg("isa"), nb::arg("layout"), nb::arg("weights"), nb::arg("x"),
          nb::arg("repeats") = 50);
    m.def("time_attention", &time_attention, nb::arg("isa"), nb::arg("pool"), nb::arg("kv_dtype"),
          nb::arg("heads"), nb::arg("kv_heads"), nb::arg("head_dim"), nb::arg("layers"), nb::arg("answers"),
          nb::arg("context"), nb::arg("queries"), nb::arg("repeats") = 50);
}

}  // namespace twinfer
