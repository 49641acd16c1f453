#include "layout.h"

#include <nanobind/stl/string.h>

namespace twinfer {
namespace {

// No size is larger, so that no product of two of them, times the bytes of an element, overflows.
constexpr long kMostSize = 1L << 28;

template <class T>
T as(nb::handle from, const char* key) {
    T value{};
    if (!nb::try_cast<T>(from, value))
        throw std::invalid_argument("the layout's '" + std::string(key) + "' is of the wrong type");
    return value;
}

template <class T>
T get(const nb::dict& d, const char* key) {
    if (!d.contains(key)) throw std::invalid_argument("the layout has no '" + std::string(key) + "'");
    return as<T>(d[key], key);
}

long get_size(const nb::dict& d, const char* key) {
    const long size = get<long>(d, key);
    if (size < 1 || size > kMostSize)
        throw std::invalid_argument("the layout's '" + std::string(key) + "' must be from 1 to " +
                                    std::to_string(kMostSize));
    return size;
}

const uint8_t* at(std::span<const uint8_t> buffer, long offset, long bytes) {
    if (offset < 0 || bytes < 0 || static_cast<size_t>(offset) + static_cast<size_t>(bytes) > buffer.size())
        throw std::invalid_argument("the layout points outside the weights");
    if (offset % 64) throw std::invalid_argument("the layout's offsets must be multiples of 64");
    return buffer.data() + offset;
}

const float* read_vector(const nb::dict& d, const char* key, long n, std::span<const uint8_t> buffer) {
    return reinterpret_cast<const float*>(at(buffer, get<long>(d, key), n * 4));
}

Format format_named(const std::string& name) {
    if (name == "f32") return Format::f32;
    if (name == "bf16") return Format::bf16;
    if (name == "int8") return Format::int8;
    if (name == "int4") return Format::int4;
    throw std::invalid_argument("unknown matrix format '" + name + "'");
}

void expect_shape(const Matrix& m, const char* name, long n, long k) {
    if (m.n != n || m.k != k)
        throw std::invalid_argument("the layout's " + std::string(name) + " is " + std::to_string(m.n) +
                                    " x " + std::to_string(m.k) + ", not " + std::to_string(n) + " x " +
                                    std::to_string(k));
}

}  // namespace

Matrix read_matrix(const nb::dict& d, std::span<const uint8_t> buffer) {
    Matrix m{};
    m.format = format_named(get<std::string>(d, "format"));
    m.wide = get<bool>(d, "wide");
    m.n = get_size(d, "n");
    m.k = get_size(d, "k");
    const long weights = m.tiles() * 16 * m.padded_k(),
               scales = m.tiles() * 16 * m.blocks() * (m.wide ? 4 : 2);
    switch (m.format) {
        case Format::f32:
            m.data = at(buffer, get<long>(d, "data"), weights * 4);
            break;
        case Format::bf16:
            m.data = at(buffer, get<long>(d, "data"), weights * 2);
            break;
        case Format::int8:
            m.data = at(buffer, get<long>(d, "data"), weights);
            m.scales = at(buffer, get<long>(d, "scales"), scales);
            break;
        case Format::int4:
            m.data = at(buffer, get<long>(d, "data"), weights / 2);
            m.scales = at(buffer, get<long>(d, "scales"), scales * 2 + (m.wide ? 0 : m.tiles() * 64));
            break;
    }
    return m;
}

Config read_config(const nb::dict& layout) {
    const nb::dict d = get<nb::dict>(layout, "config");
    Config c{};
    c.layers = get_size(d, "layers");
    c.hidden = get_size(d, "hidden");
    c.heads = get_size(d, "heads");
    c.kv_heads = get_size(d, "kv_heads");
    c.head_dim = get_size(d, "head_dim");
    c.ffn = get_size(d, "ffn");
    c.vocab = get_size(d, "vocab");
    c.rms_eps = static_cast<float>(get<double>(d, "rms_eps"));
    for (nb::handle x : get<nb::list>(d, "inv_freq"))
        c.inv_freq.push_back(static_cast<float>(as<double>(x, "inv_freq")));
    if (c.heads % c.kv_heads) throw std::invalid_argument("heads must be a multiple of kv_heads");
    if (c.head_dim % 2) throw std::invalid_argument("head_dim must be even");
    if (static_cast<long>(c.inv_freq.size()) != c.head_dim / 2)
        throw std::invalid_argument("inv_freq must have head_dim / 2 entries");
    return c;
}

Weights read_weights(const nb::dict& layout, std::span<const uint8_t> buffer) {
    const Config c = read_config(layout);
    const long q_width = c.heads * c.head_dim, wide = q_width + 2 * c.kv_heads * c.head_dim;
    const long ffn_padded = (c.ffn + 15) / 16 * 16;
    Weights w{};
    w.embedding = read_matrix(get<nb::dict>(layout, "embedding"), buffer);
    w.output = read_matrix(get<nb::dict>(layout, "output"), buffer);
    expect_shape(w.embedding, "embedding", c.vocab, c.hidden);
    expect_shape(w.output, "output", c.vocab, c.hidden);
    w.norm = read_vector(layout, "norm", c.hidden, buffer);
    for (nb::handle entry : get<nb::list>(layout, "layers")) {
        const nb::dict d = as<nb::dict>(entry, "layers");
        LayerWeights l{};
        l.attn_norm = read_vector(d, "attn_norm", c.hidden, buffer);
        l.ffn_norm = read_vector(d, "ffn_norm", c.hidden, buffer);
        long column = 0;
        for (nb::handle part : get<nb::list>(d, "qkv")) {
            l.qkv.push_back({column, read_matrix(as<nb::dict>(part, "qkv"), buffer)});
            expect_shape(l.qkv.back().matrix, "qkv", l.qkv.back().matrix.n, c.hidden);
            column += l.qkv.back().matrix.n;
        }
        if (column != wide) throw std::invalid_argument("the layout's qkv has the wrong width");
        l.out = read_matrix(get<nb::dict>(d, "out"), buffer);
        l.gate_up = read_matrix(get<nb::dict>(d, "gate_up"), buffer);
        l.down = read_matrix(get<nb::dict>(d, "down"), buffer);
        expect_shape(l.out, "out", c.hidden, q_width);
        expect_shape(l.gate_up, "gate_up", 2 * ffn_padded, c.hidden);
        expect_shape(l.down, "down", c.hidden, c.ffn);
        w.layers.push_back(std::move(l));
    }
    if (static_cast<long>(w.layers.size()) != c.layers)
        throw std::invalid_argument("the layout has the wrong number of layers");
    return w;
}

}  // namespace twinfer
