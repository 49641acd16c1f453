// Python's view of the team and the decoder.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>

#include "bindings.h"
#include "isa.h"
#include "layout.h"

namespace twinfer {
namespace {

// A decoder with the arrays that its weights and pages live in.
struct Bound {
    Array weights;
    Writable pool;
    std::shared_ptr<Team> team;
    Decoder decoder;
};

void expect_aligned(const void* data, const char* name) {
    if (reinterpret_cast<uintptr_t>(data) % 64)
        throw std::invalid_argument(std::string(name) + " must begin at a multiple of 64 bytes");
}

Pool read_pool(const Config& c, const Writable& array, const std::string& kv_dtype, long page_tokens) {
    if (page_tokens != kPageTokens)
        throw std::invalid_argument("pages must hold " + std::to_string(kPageTokens) + " tokens");
    Pool pool{};
    pool.type = kv_type_named(kv_dtype);
    pool.block_bytes = kv_block_bytes(pool.type, c.head_dim);
    pool.page_bytes = static_cast<size_t>(c.layers * 2 * c.kv_heads) * pool.block_bytes;
    const std::span<uint8_t> bytes = view<uint8_t>(array, "pool", {-1});
    pool.data = bytes.data();
    pool.pages = static_cast<long>(bytes.size() / pool.page_bytes);
    return pool;
}

Batch read_batch(const Array& tokens, const Array& rows, const Array& starts, const Array& page_tables) {
    Batch b{};
    b.tokens = view<int32_t>(tokens, "tokens", {-1});
    b.rows = view<int32_t>(rows, "rows", {-1});
    const long sequences = static_cast<long>(b.rows.size());
    b.starts = view<int32_t>(starts, "starts", {sequences});
    b.page_tables = view<int32_t>(page_tables, "page_tables", {sequences, -1});
    b.page_columns = static_cast<long>(page_tables.shape(1));
    return b;
}

nb::ndarray<nb::numpy, int32_t> forward(Bound& self, const Array& tokens, const Array& rows,
                                        const Array& starts, const Array& page_tables, const Array& sample,
                                        const Array& temperature, const Array& top_k, const Array& top_p,
                                        const Array& min_p, const Array& seeds) {
    const Batch batch = read_batch(tokens, rows, starts, page_tables);
    const size_t count = batch.rows.size();
    const long n = static_cast<long>(count);
    const auto wants = view<bool>(sample, "sample", {n});
    const std::vector<Sampling> sampling = read_sampling(temperature, top_k, top_p, min_p, seeds, n);
    std::vector<int32_t> ids;
    {
        const Team::Claim claim(*self.team);
        nb::gil_scoped_release release;
        ids = self.decoder.forward(batch, {reinterpret_cast<const uint8_t*>(wants.data()), count}, sampling);
    }
    auto [array, data] = make_array<int32_t>({count});
    std::copy(ids.begin(), ids.end(), data);
    return array;
}

nb::ndarray<nb::numpy, float> logits(Bound& self, const Array& tokens, const Array& rows, const Array& starts,
                                     const Array& page_tables) {
    const Batch batch = read_batch(tokens, rows, starts, page_tables);
    auto [array, data] =
        make_array<float>({batch.tokens.size(), static_cast<size_t>(self.decoder.config().vocab)});
    const Team::Claim claim(*self.team);
    nb::gil_scoped_release release;
    self.decoder.logits(batch, data);
    return array;
}

// Rounds of items that spin for so long; the seconds of the longest round.
double exercise(Team& team, long items, long rounds, double seconds) {
    using Clock = std::chrono::steady_clock;
    std::vector<std::atomic<long>> times(static_cast<size_t>(std::max(0L, items)));
    Clock::duration longest{};
    const Team::Claim claim(team);
    nb::gil_scoped_release release;
    for (long round = 0; round < rounds; round++) {
        const auto began = Clock::now();
        team.run(items, [&](long item, int) {
            const auto until = Clock::now() + std::chrono::duration<double>(seconds);
            while (Clock::now() < until) continue;
            times[static_cast<size_t>(item)]++;
        });
        longest = std::max(longest, Clock::now() - began);
        for (const std::atomic<long>& count : times)
            if (count != round + 1) throw std::runtime_error("an item was not computed exactly once");
    }
    return std::chrono::duration<double>(longest).count();
}

}  // namespace

KvType kv_type_named(const std::string& name) {
    if (name == "f32") return KvType::f32;
    if (name == "bf16") return KvType::bf16;
    if (name == "int8") return KvType::int8;
    throw std::invalid_argument("unknown KV type '" + name + "', it must be f32, bf16 or int8");
}

std::vector<Sampling> read_sampling(const Array& temperature, const Array& top_k, const Array& top_p,
                                    const Array& min_p, const Array& seeds, long n) {
    const auto t = view<float>(temperature, "temperature", {n});
    const auto k = view<int32_t>(top_k, "top_k", {n});
    const auto p = view<float>(top_p, "top_p", {n});
    const auto m = view<float>(min_p, "min_p", {n});
    const auto s = view<uint64_t>(seeds, "seeds", {n});
    std::vector<Sampling> sampling;
    for (size_t i = 0; i < t.size(); i++) sampling.push_back({t[i], k[i], p[i], m[i], s[i]});
    return sampling;
}

void bind_decoder(nb::module_& m) {
    nb::class_<Team>(m, "Team")
        .def(nb::init<const std::vector<int>&>(), nb::arg("cores"))
        .def(
            "__init__",
            [](Team* self, const std::vector<int>& cores, const Array& words,
               const std::vector<long>& lenders) {
                const auto board = view<uint64_t>(words, "words", {-1});
                std::vector<const uint64_t*> lent;
                for (long lender : lenders) {
                    if (lender >= static_cast<long>(board.size()))
                        throw std::invalid_argument("no word " + std::to_string(lender) + " on the board");
                    lent.push_back(lender < 0 ? nullptr : &board[static_cast<size_t>(lender)]);
                }
                new (self) Team(cores, lent);
            },
            nb::arg("cores"), nb::arg("words"), nb::arg("lenders"), nb::keep_alive<1, 3>())
        .def("exercise", &exercise, nb::arg("items"), nb::arg("rounds"), nb::arg("seconds"))
        .def("busy",
             [](const Team& team) {
                 const std::vector<double> seconds = team.busy();
                 auto [array, data] = make_array<double>({seconds.size()});
                 std::copy(seconds.begin(), seconds.end(), data);
                 return array;
             })
        .def_prop_ro("present", &Team::present)
        .def_prop_ro("size", &Team::size)
        .def_prop_rw("active", &Team::active, [](Team& team, int members) {
            if (members < 1 || members > team.size())
                throw std::invalid_argument("a team of " + std::to_string(team.size()) + " cannot have " +
                                            std::to_string(members) + " active members");
            team.set_active(members);
        });
    nb::class_<Bound>(m, "Decoder")
        .def(
            "__init__",
            [](Bound* self, const nb::dict& layout, const Array& weights, const Writable& pool,
               std::shared_ptr<Team> team, const std::string& isa, const std::string& kv_dtype,
               long page_tokens) {
                const Config config = read_config(layout);
                // The pool's sizes are sound once the weights have been found to have them too.
                Weights found = read_weights(layout, view<uint8_t>(weights, "weights", {-1}));
                const Pool pages = read_pool(config, pool, kv_dtype, page_tokens);
                expect_aligned(weights.data(), "weights");
                expect_aligned(pool.data(), "pool");
                new (self)
                    Bound{weights, pool, team,
                          Decoder(config, std::move(found), pages, std::move(team), kernels_named(isa))};
            },
            nb::arg("layout"), nb::arg("weights"), nb::arg("pool"), nb::arg("team"), nb::arg("isa") = "",
            nb::arg("kv_dtype") = "bf16", nb::arg("page_tokens") = kPageTokens)
        .def_prop_ro("isa", [](const Bound& self) { return self.decoder.kernels().name; })
        .def("forward", &forward, nb::arg("tokens"), nb::arg("rows"), nb::arg("starts"),
             nb::arg("page_tables"), nb::arg("sample"), nb::arg("temperature"), nb::arg("top_k"),
             nb::arg("top_p"), nb::arg("min_p"), nb::arg("seeds"))
        .def("logits", &logits, nb::arg("tokens"), nb::arg("rows"), nb::arg("starts"),
             nb::arg("page_tables"));
}

}  // namespace twinfer
