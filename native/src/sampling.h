// Picking a token from logits.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.h"

namespace twinfer {

// Temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 are off.
struct Sampling {
    float temperature;
    int32_t top_k;
    float top_p;
    float min_p;
    uint64_t seed;
};

// Whether the largest logit is what counts.
bool is_greedy(const Sampling& how);

// A uniform number in [0, 1) that depends on seed and position only: Philox4x32-10 keyed by the seed, with
// the position as its counter.
double uniform(uint64_t seed, uint64_t position);

struct SamplingScratch {
    std::vector<float> weights, sums;
    std::vector<int32_t> candidates;
};

// The token for `position`, from logits [vocab]. Temperature comes first, then top_k, top_p and min_p, each
// over what the one before it left, then the inverse of the distribution function. Lower ids win ties.
int32_t sample(const Kernels& kernels, const float* logits, long vocab, const Sampling& how,
               uint64_t position, SamplingScratch& scratch);

}  // namespace twinfer
