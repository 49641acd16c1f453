#include "sampling.h"

#include <algorithm>

namespace twinfer {
namespace {

constexpr int kRounds = 10;

// The candidates' order: heavier first, then lower ids.
struct Heavier {
    const float* weights;
    bool operator()(int32_t a, int32_t b) const {
        return weights[a] != weights[b] ? weights[a] > weights[b] : a < b;
    }
};

double total(const std::vector<float>& weights, const std::vector<int32_t>& candidates) {
    double sum = 0;
    for (int32_t id : candidates) sum += weights[static_cast<size_t>(id)];
    return sum;
}

void keep_top_k(const std::vector<float>& weights, std::vector<int32_t>& candidates, int32_t k) {
    if (k <= 0 || static_cast<size_t>(k) >= candidates.size()) return;
    std::nth_element(candidates.begin(), candidates.begin() + k - 1, candidates.end(), Heavier{weights.data()});
    candidates.resize(static_cast<size_t>(k));
    std::sort(candidates.begin(), candidates.end());
}

// The smallest set of the heaviest candidates that holds a share p of the weight. Sorts ever larger heads
// of the list, as a few dozen tokens nearly always suffice.
void keep_top_p(const std::vector<float>& weights, std::vector<int32_t>& candidates, float p) {
    if (p >= 1.0f) return;
    const double wanted = total(weights, candidates) * p;
    double mass = 0;
    size_t sorted = 0, kept = 0;
    for (size_t head = 64; kept == 0; head *= 8) {
        size_t end = std::min(head, candidates.size());
        std::partial_sort(candidates.begin() + static_cast<long>(sorted), candidates.begin() + static_cast<long>(end),
                          candidates.end(), Heavier{weights.data()});
        for (size_t i = sorted; i < end && kept == 0; i++) {
            mass += weights[static_cast<size_t>(candidates[i])];
            if (mass >= wanted || i + 1 == candidates.size()) kept = i + 1;
        }
        sorted = end;
    }
    candidates.resize(kept);
    std::sort(candidates.begin(), candidates.end());
}

}  // namespace

double uniform(uint64_t seed, uint64_t position) {
    uint32_t c[4] = {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), 0, 0};
    uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
    for (int round = 0; round < kRounds; round++) {
        uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
        uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
                            static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
        std::copy(next, next + 4, c);
        key[0] += 0x9E3779B9;
        key[1] += 0xBB67AE85;
    }
    uint64_t bits = (uint64_t{c[0]} << 32 | c[1]) >> 11;
    return static_cast<double>(bits) * 0x1.0p-53;
}

int32_t sample(const Kernels& kernels, const float* logits, long vocab, const Sampling& how, uint64_t position,
               SamplingScratch& scratch) {
    const long best = kernels.argmax(logits, vocab);
    if (how.temperature <= 0 || how.top_k == 1) return static_cast<int32_t>(best);
    std::vector<float>& weights = scratch.weights;
    std::vector<int32_t>& candidates = scratch.candidates;
    weights.resize(static_cast<size_t>(vocab));
    kernels.weights(logits, vocab, logits[best], 1.0f / how.temperature, weights.data());
    candidates.clear();
    for (long i = 0; i < vocab; i++)
        if (weights[static_cast<size_t>(i)] > 0) candidates.push_back(static_cast<int32_t>(i));
    keep_top_k(weights, candidates, how.top_k);
    keep_top_p(weights, candidates, how.top_p);
    // The heaviest token has weight 1, so min_p is a bound on the weight itself.
    if (how.min_p > 0)
        std::erase_if(candidates, [&](int32_t id) { return weights[static_cast<size_t>(id)] < how.min_p; });
    double left = uniform(how.seed, position) * total(weights, candidates);
    for (int32_t id : candidates) {
        left -= weights[static_cast<size_t>(id)];
        if (left < 0) return id;
    }
    return candidates.empty() ? static_cast<int32_t>(best) : candidates.back();
}

}  // namespace twinfer
