#include "sampling.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace twinfer {
namespace {

constexpr int kRounds = 10;
// Temperatures below this are greedy.
constexpr float kGreedy = 1e-5f;
// Tokens this much lighter than the heaviest are rarely candidates of top_k or top_p.
constexpr float kHeavy = 1e-3f;

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

// All tokens that top_k and top_p can keep, in order: those above a bound if they suffice, else all.
void take_heavy(const std::vector<float>& weights, const Sampling& how, double all,
                std::vector<int32_t>& candidates) {
    for (float bound : {kHeavy, 0.0f}) {
        candidates.clear();
        double mass = 0;
        for (size_t i = 0; i < weights.size(); i++) {
            if (weights[i] <= bound) continue;
            candidates.push_back(static_cast<int32_t>(i));
            mass += weights[i];
        }
        if (how.top_k > 0 ? candidates.size() >= static_cast<size_t>(how.top_k) : mass >= all * how.top_p)
            return;
    }
}

void keep_top_k(const std::vector<float>& weights, std::vector<int32_t>& candidates, int32_t k) {
    if (k <= 0 || static_cast<size_t>(k) >= candidates.size()) return;
    std::nth_element(candidates.begin(), candidates.begin() + k - 1, candidates.end(),
                     Heavier{weights.data()});
    candidates.resize(static_cast<size_t>(k));
    std::sort(candidates.begin(), candidates.end());
}

// Weights from 0 to 1 in buckets, 16 to every power of two, the lightest first. Larger ones, which only
// logits at the end of float's range can have, are in the last.
constexpr size_t kBuckets = (0x3f800000u >> 19) + 1;
size_t bucket_of(float weight) {
    return std::min<size_t>(std::bit_cast<uint32_t>(weight) >> 19, kBuckets - 1);
}

// The smallest set of the heaviest candidates that holds a share p of `all` weight. Only the candidates
// around the edge are sorted.
void keep_top_p(const std::vector<float>& weights, std::vector<int32_t>& candidates, float p, double all) {
    if (p >= 1.0f) return;
    std::array<double, kBuckets> mass{};
    for (int32_t id : candidates) {
        const float weight = weights[static_cast<size_t>(id)];
        mass[bucket_of(weight)] += weight;
    }
    const double wanted = all * p;
    double above = 0;
    size_t edge = kBuckets - 1;
    while (edge > 0 && above + mass[edge] < wanted) above += mass[edge--];
    std::vector<int32_t> border;
    for (int32_t id : candidates)
        if (bucket_of(weights[static_cast<size_t>(id)]) == edge) border.push_back(id);
    std::sort(border.begin(), border.end(), Heavier{weights.data()});
    size_t kept = 0;
    while (kept < border.size() && (above < wanted || above == 0))
        above += weights[static_cast<size_t>(border[kept++])];
    if (kept == 0) return;
    const Heavier heavier{weights.data()};
    const int32_t lightest = border[kept - 1];
    std::erase_if(candidates, [&](int32_t id) { return heavier(lightest, id); });
}

// The token at which the running sum of weights passes `left`.
int32_t pick(const std::vector<float>& weights, const std::vector<float>& sums, double left, long best) {
    int32_t last = static_cast<int32_t>(best);
    for (size_t block = 0; block < sums.size(); block++) {
        if (left >= sums[block]) {
            left -= sums[block];
            continue;
        }
        const size_t begin = block * kSumBlock, end = std::min(begin + kSumBlock, weights.size());
        for (size_t i = begin; i < end; i++) {
            if (weights[i] <= 0) continue;
            last = static_cast<int32_t>(i);
            left -= weights[i];
            if (left < 0) return last;
        }
        // Rounding let the block's sum exceed its parts: the block's last token it is.
        return last;
    }
    return last;
}

}  // namespace

bool is_greedy(const Sampling& how) { return !(how.temperature >= kGreedy) || how.top_k == 1; }

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

int32_t sample(const Kernels& kernels, const float* logits, long vocab, const Sampling& how,
               uint64_t position, SamplingScratch& scratch) {
    const long best = kernels.argmax(logits, vocab);
    if (is_greedy(how)) return static_cast<int32_t>(best);
    std::vector<float>&weights = scratch.weights, &sums = scratch.sums;
    weights.resize(static_cast<size_t>(vocab));
    sums.resize(static_cast<size_t>((vocab + kSumBlock - 1) / kSumBlock));
    const bool filters = how.top_k > 0 || how.top_p < 1;
    // The heaviest token has weight 1, so min_p is a bound on the weight itself. It comes last: the other
    // filters see all weights.
    kernels.weights(logits, vocab, logits[best], 1.0f / how.temperature, filters ? 0.0f : how.min_p,
                    weights.data(), sums.data());
    double all = 0;
    for (float sum : sums) all += sum;
    // Weights of a broken model: NaN has no order to sort by.
    if (!std::isfinite(all)) return static_cast<int32_t>(best);
    const double random = uniform(how.seed, position);
    if (!filters) return pick(weights, sums, random * all, best);
    std::vector<int32_t>& candidates = scratch.candidates;
    take_heavy(weights, how, all, candidates);
    keep_top_k(weights, candidates, how.top_k);
    keep_top_p(weights, candidates, how.top_p, how.top_k > 0 ? total(weights, candidates) : all);
    if (how.min_p > 0)
        std::erase_if(candidates, [&](int32_t id) { return weights[static_cast<size_t>(id)] < how.min_p; });
    double left = random * total(weights, candidates);
    for (int32_t id : candidates) {
        left -= weights[static_cast<size_t>(id)];
        if (left < 0) return id;
    }
    return candidates.empty() ? static_cast<int32_t>(best) : candidates.back();
}

}  // namespace twinfer
