#include "ceiling_loops.h"

#include <stdexcept>

#ifdef TW_X86
#include <immintrin.h>
#endif

namespace twinfer {
namespace {

// Independent sums, as many as hide an instruction's latency. TW_OPAQUE makes each of them a value that
// the compiler knows nothing of, lest it computes equal ones once.
constexpr int kSums = 12;
constexpr long kRepeats = 20000;
#define TW_OPAQUE(x, where) asm volatile("" : where(x))

// A loop of plain C++ over arrays in the first cache, for any machine.
constexpr long kPlain = 4096;

__attribute__((optimize("O3"))) int32_t plain_int8(int32_t seed) {
    alignas(64) int8_t a[kPlain], b[kPlain];
    for (long i = 0; i < kPlain; i++)
        a[i] = static_cast<int8_t>(i + seed), b[i] = static_cast<int8_t>(seed - i);
    int32_t sum = 0;
    for (long r = 0; r < 100; r++) {
        for (long i = 0; i < kPlain; i++) sum += a[i] * b[i];
        asm volatile("" : : "r"(a), "r"(b) : "memory");
    }
    return sum;
}

int32_t plain_f32(int32_t seed) {
    typedef float Four __attribute__((vector_size(16)));
    const float x = static_cast<float>(seed);
    const Four a = {x, x, x, x}, b = {1, 1, x, x};
    Four sums[kSums] = {};
    for (Four& sum : sums) TW_OPAQUE(sum, "+m");
    for (long r = 0; r < kRepeats; r++)
        for (Four& sum : sums) sum = sum * a + b;
    for (const Four& sum : sums) sums[0] += sum;
    return static_cast<int32_t>(sums[0][0] + sums[0][3]);
}

#ifdef TW_X86
#define TW_512 \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16"), optimize("O3")))
#define TW_256 __attribute__((target("avx2,fma"), optimize("O3")))

TW_512 int32_t avx512_int8(int32_t seed) {
    const __m512i a = _mm512_set1_epi32(seed), b = _mm512_set1_epi32(seed + 1);
    __m512i sums[kSums] = {};
    for (auto& sum : sums) TW_OPAQUE(sum, "+x");
    for (long r = 0; r < kRepeats; r++)
        for (__m512i& sum : sums) sum = _mm512_dpbusd_epi32(sum, a, b);
    for (const __m512i& sum : sums) sums[0] = _mm512_add_epi32(sums[0], sum);
    return _mm512_cvtsi512_si32(sums[0]);
}

TW_512 int32_t avx512_bf16(int32_t seed) {
    const __m512i a = _mm512_set1_epi32(seed);
    __m512 sums[kSums] = {};
    for (auto& sum : sums) TW_OPAQUE(sum, "+x");
    for (long r = 0; r < kRepeats; r++)
        for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)a);
    for (const __m512& sum : sums) sums[0] = _mm512_add_ps(sums[0], sum);
    return _mm512_cvtsi512_si32(_mm512_castps_si512(sums[0]));
}

TW_512 int32_t avx512_f32(int32_t seed) {
    const __m512 a = _mm512_set1_ps(static_cast<float>(seed));
    __m512 sums[kSums] = {};
    for (auto& sum : sums) TW_OPAQUE(sum, "+x");
    for (long r = 0; r < kRepeats; r++)
        for (__m512& sum : sums) sum = _mm512_fmadd_ps(a, a, sum);
    for (const __m512& sum : sums) sums[0] = _mm512_add_ps(sums[0], sum);
    return _mm512_cvtsi512_si32(_mm512_castps_si512(sums[0]));
}

// Pairs of products with 4-bit codes add up in 16 bits for as long as a block lasts; others need more.
TW_256 int32_t avx2_int8(int32_t seed) {
    const __m256i a = _mm256_set1_epi32(seed);
    __m256i sums[kSums] = {}, b = _mm256_set1_epi32(seed + 1);
    for (auto& sum : sums) TW_OPAQUE(sum, "+x");
    for (long r = 0; r < kRepeats; r++) {
        for (__m256i& sum : sums) {
            TW_OPAQUE(b, "+x");
            __m256i next = _mm256_add_epi16(sum, _mm256_maddubs_epi16(a, b));
            TW_OPAQUE(next, "+x");
            sum = next;
        }
    }
    for (const __m256i& sum : sums) sums[0] = _mm256_add_epi32(sums[0], sum);
    return _mm256_cvtsi256_si32(sums[0]);
}

TW_256 int32_t avx2_f32(int32_t seed) {
    const __m256 a = _mm256_set1_ps(static_cast<float>(seed));
    __m256 sums[kSums] = {};
    for (auto& sum : sums) TW_OPAQUE(sum, "+x");
    for (long r = 0; r < kRepeats; r++)
        for (__m256& sum : sums) sum = _mm256_fmadd_ps(a, a, sum);
    for (const __m256& sum : sums) sums[0] = _mm256_add_ps(sums[0], sum);
    return _mm256_cvtsi256_si32(_mm256_castps_si256(sums[0]));
}
#endif

}  // namespace

// Without an instruction for bf16 its products are those of float32.
Loop arithmetic_loop(const std::string& isa, const std::string& kind) {
    if (kind != "int8" && kind != "bf16" && kind != "f32")
        throw std::invalid_argument("kind must be int8, bf16 or f32, not '" + kind + "'");
    const double sums = 2.0 * kSums * kRepeats;
#ifdef TW_X86
    if (isa == "avx512" && kind == "int8") return {avx512_int8, 64 * sums};
    if (isa == "avx512" && kind == "bf16") return {avx512_bf16, 32 * sums};
    if (isa == "avx512") return {avx512_f32, 16 * sums};
    if (isa == "avx2" && kind == "int8") return {avx2_int8, 32 * sums};
    if (isa == "avx2") return {avx2_f32, 8 * sums};
#endif
    if (kind == "int8") return {plain_int8, 2.0 * 100 * kPlain};
    return {plain_f32, 4 * sums};
}

}  // namespace twinfer
