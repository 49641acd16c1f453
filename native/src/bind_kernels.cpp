// Single kernels, by name of the instruction set, for the tests.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "embedding.h"
#include "encoded.h"
#include "isa.h"
#include "layout.h"

namespace twinfer {
namespace {

using FloatArray = nb::ndarray<nb::numpy, float>;

FloatArray matmul(const std::string& isa, const nb::dict& layout, const Array& weights, const Array& x,
                  const std::string& epilogue) {
    const Kernels& kernels = kernels_named(isa);
    const Matrix w = read_matrix(layout, view<uint8_t>(weights, "weights", {-1}));
    const auto rows = view<float>(x, "x", {-1, w.k});
    const long count = static_cast<long>(x.shape(0));
    const bool swiglu = epilogue == "swiglu";
    if (!swiglu && epilogue != "store" && epilogue != "add")
        throw std::invalid_argument("epilogue must be store, add or swiglu");
    if (swiglu && w.n % 32) throw std::invalid_argument("swiglu needs pairs of tiles");
    const long width = swiglu ? w.n / 2 : w.n;
    const Encoded encoded(kernels, w, rows.data(), count);
    auto [array, out] = make_array<float>({static_cast<size_t>(count), static_cast<size_t>(width)});
    if (epilogue == "add") std::fill(out, out + count * width, 1.0f);
    const Product product{&w, &encoded.view, out, width,
                          swiglu              ? Epilogue::swiglu
                          : epilogue == "add" ? Epilogue::add
                                              : Epilogue::store};
    kernels.matmul[static_cast<int>(w.format)](product, 0, count, 0, w.tiles());
    return array;
}

FloatArray unpack(const nb::dict& layout, const Array& weights) {
    const Matrix w = read_matrix(layout, view<uint8_t>(weights, "weights", {-1}));
    auto [array, out] = make_array<float>({static_cast<size_t>(w.n), static_cast<size_t>(w.k)});
    for (long i = 0; i < w.n; i++) unpack_row(w, i, out + i * w.k);
    return array;
}

FloatArray rms_norm(const std::string& isa, const Array& x, const Array& weight, float eps) {
    const auto w = view<float>(weight, "weight", {-1});
    const size_t n = w.size();
    const auto rows = view<float>(x, "x", {-1, static_cast<long>(n)});
    auto [array, out] = make_array<float>({x.shape(0), n});
    for (size_t r = 0; r < x.shape(0); r++)
        kernels_named(isa).rms_norm(rows.data() + r * n, w.data(), eps, static_cast<long>(n), out + r * n);
    return array;
}

FloatArray rope(const std::string& isa, const Array& x, const Array& cos, const Array& sin) {
    const auto values = view<float>(x, "x", {-1, -1, -1});
    const long tokens = static_cast<long>(x.shape(0)), heads = static_cast<long>(x.shape(1));
    const long dim = static_cast<long>(x.shape(2));
    if (dim % 2) throw std::invalid_argument("rope needs pairs");
    const auto c = view<float>(cos, "cos", {tokens, dim / 2}), s = view<float>(sin, "sin", {tokens, dim / 2});
    auto [array, out] = make_array<float>({x.shape(0), x.shape(1), x.shape(2)});
    std::copy(values.begin(), values.end(), out);
    for (long t = 0; t < tokens; t++)
        kernels_named(isa).rope(out + t * heads * dim, heads, dim, c.data() + t * dim / 2,
                                s.data() + t * dim / 2);
    return array;
}

FloatArray spread(const std::string& isa, const Array& x) {
    const auto values = view<float>(x, "x", {-1, -1});
    auto [array, out] = make_array<float>({x.shape(0), x.shape(1)});
    std::copy(values.begin(), values.end(), out);
    kernels_named(isa).spread(out, static_cast<long>(x.shape(0)), static_cast<long>(x.shape(1)));
    return array;
}

KvLayer single_layer(const Writable& pool, const Heads& h, const std::string& kv_dtype) {
    if (h.kv_heads < 1 || h.head_dim < 2 || h.head_dim % 2)
        throw std::invalid_argument("there must be heads of an even size");
    const KvType type = kv_type_named(kv_dtype);
    const size_t block = kv_block_bytes(type, h.head_dim);
    return {view<uint8_t>(pool, "pool", {-1}).data(), 2 * block * static_cast<size_t>(h.kv_heads), 0, block,
            type};
}

std::span<const int32_t> read_pages(const Array& pages, const Writable& pool, const KvLayer& kv, long start,
                                    long tokens) {
    const auto ids = view<int32_t>(pages, "pages", {-1});
    const size_t count = pool.size() / kv.page_bytes;
    if (start < 0 || start > static_cast<long>(ids.size()) * kPageTokens - tokens)
        throw std::invalid_argument("too few pages");
    for (int32_t id : ids)
        if (id < 0 || static_cast<size_t>(id) >= count) throw std::invalid_argument("no such page");
    return ids;
}

void write_kv(const std::string& isa, const Array& k, const Array& v, const Writable& pool,
              const Array& pages, long start, const std::string& kv_dtype) {
    const auto keys = view<float>(k, "k", {-1, -1, -1});
    const long tokens = static_cast<long>(k.shape(0));
    const Heads h{0, static_cast<long>(k.shape(1)), static_cast<long>(k.shape(2))};
    const auto values = view<float>(v, "v", {tokens, h.kv_heads, h.head_dim});
    const KvLayer kv = single_layer(pool, h, kv_dtype);
    const auto ids = read_pages(pages, pool, kv, start, tokens);
    const long width = h.kv_heads * h.head_dim;
    for (long t = 0; t < tokens; t++)
        kernels_named(isa).write_kv(kv, h, ids[static_cast<size_t>((start + t) / kPageTokens)],
                                    (start + t) % kPageTokens, keys.data() + t * width,
                                    values.data() + t * width);
}

// A tile as a whole, or in parts of so many blocks, the last one first.
void attend(const Kernels& kernels, const KvLayer& kv, const Heads& h, const AttentionTile& tile, long part,
            void* scratch) {
    if (part < 1) return kernels.attention(kv, h, &tile, 1, scratch);
    std::vector<float> partials(static_cast<size_t>(tile.blocks() * partial_floats(tile.rows(), h.head_dim)));
    for (long begin = (tile.blocks() - 1) / part * part; begin >= 0; begin -= part)
        kernels.attention_part(kv, h, tile, begin, std::min(tile.blocks(), begin + part), partials.data(),
                               scratch);
    kernels.merge_parts(h, tile, partials.data(), scratch);
}

FloatArray attention(const std::string& isa, const Array& q, const Writable& pool, const Array& pages,
                     long start, long kv_heads, long tile, const std::string& kv_dtype, long part) {
    const auto queries = view<float>(q, "q", {-1, -1, -1});
    const long tokens = static_cast<long>(q.shape(0));
    const Heads h{static_cast<long>(q.shape(1)), kv_heads, static_cast<long>(q.shape(2))};
    if (kv_heads < 1 || h.heads % kv_heads)
        throw std::invalid_argument("heads must be a multiple of kv_heads");
    const KvLayer kv = single_layer(pool, h, kv_dtype);
    const auto ids = read_pages(pages, pool, kv, start, tokens);
    const long group = h.heads / kv_heads, width = h.heads * h.head_dim;
    if (tile < 1 || tile * std::min(group, kTileRows) > kTileRows)
        throw std::invalid_argument("tile is too large");
    auto [array, out] = make_array<float>({q.shape(0), q.shape(1), q.shape(2)});
    std::vector<uint8_t> scratch(attention_scratch(h.head_dim));
    for (long t = 0; t < tokens; t += tile)
        for (long head = 0; head < kv_heads; head++)
            for (long g = 0; g < group; g += kTileRows) {
                const AttentionTile item{queries.data() + t * width,
                                         out + t * width,
                                         width,
                                         width,
                                         start + t,
                                         std::min(tile, tokens - t),
                                         head,
                                         head * group + g,
                                         std::min(kTileRows, group - g),
                                         ids.data()};
                attend(kernels_named(isa), kv, h, item, part, scratch.data());
            }
    return array;
}

nb::ndarray<nb::numpy, int32_t> sample_rows(const std::string& isa, const Array& logits,
                                            const Array& temperature, const Array& top_k, const Array& top_p,
                                            const Array& min_p, const Array& seeds, const Array& positions) {
    const auto values = view<float>(logits, "logits", {-1, -1});
    const long n = static_cast<long>(logits.shape(0)), vocab = static_cast<long>(logits.shape(1));
    if (vocab < 1) throw std::invalid_argument("logits must have a vocabulary");
    const std::vector<Sampling> how = read_sampling(temperature, top_k, top_p, min_p, seeds, n);
    const auto at = view<int32_t>(positions, "positions", {n});
    auto [array, out] = make_array<int32_t>({logits.shape(0)});
    SamplingScratch scratch;
    for (long i = 0; i < n; i++)
        out[i] = sample(kernels_named(isa), values.data() + i * vocab, vocab, how[static_cast<size_t>(i)],
                        static_cast<uint64_t>(at[static_cast<size_t>(i)]), scratch);
    return array;
}

}  // namespace

void bind_kernels(nb::module_& m) {
    m.def("matmul", &matmul, nb::arg("isa"), nb::arg("layout"), nb::arg("weights"), nb::arg("x"),
          nb::arg("epilogue") = "store");
    m.def("unpack", &unpack, nb::arg("layout"), nb::arg("weights"));
    m.def("rms_norm", &rms_norm, nb::arg("isa"), nb::arg("x"), nb::arg("weight"), nb::arg("eps"));
    m.def("rope", &rope, nb::arg("isa"), nb::arg("x"), nb::arg("cos"), nb::arg("sin"));
    m.def("spread", &spread, nb::arg("isa"), nb::arg("x"));
    m.def("write_kv", &write_kv, nb::arg("isa"), nb::arg("k"), nb::arg("v"), nb::arg("pool"),
          nb::arg("pages"), nb::arg("start"), nb::arg("kv_dtype"));
    m.def("attention", &attention, nb::arg("isa"), nb::arg("q"), nb::arg("pool"), nb::arg("pages"),
          nb::arg("start"), nb::arg("kv_heads"), nb::arg("tile"), nb::arg("kv_dtype"), nb::arg("part") = 0);
    m.def("sample", &sample_rows, nb::arg("isa"), nb::arg("logits"), nb::arg("temperature"), nb::arg("top_k"),
          nb::arg("top_p"), nb::arg("min_p"), nb::arg("seeds"), nb::arg("positions"));
    m.def("uniform", &uniform, nb::arg("seed"), nb::arg("position"));
}

}  // namespace twinfer
