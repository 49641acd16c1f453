#include "ceiling.h"

#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#endif

#include "ceiling_loops.h"
#include "isa.h"

namespace twinfer {
namespace {

constexpr int kRounds = 12;
constexpr auto kRound = std::chrono::milliseconds(25);

using Clock = std::chrono::steady_clock;

void pin(int core) {
#ifdef __linux__
    if (core < 0) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
#else
    (void)core;
#endif
}

double seconds_since(Clock::time_point began) {
    return std::chrono::duration<double>(Clock::now() - began).count();
}

// Has every core call work(thread) at the same time, kRounds times; the seconds of the quickest round.
template <class F>
double quickest(const std::vector<int>& cores, F&& work) {
    const size_t count = cores.size();
    if (count == 0) throw std::invalid_argument("a measurement needs at least one core");
    for (int core : cores)
        if (core < -1 || core > 1023) throw std::invalid_argument("no such core: " + std::to_string(core));
    std::barrier<> together(static_cast<std::ptrdiff_t>(count));
    std::vector<double> best(kRounds, 0.0);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < count; t++)
        threads.emplace_back([&, t] {
            pin(cores[t]);
            for (double& seconds : best) {
                together.arrive_and_wait();
                const auto began = Clock::now();
                work(t);
                together.arrive_and_wait();
                if (t == 0) seconds = seconds_since(began);
            }
        });
    for (std::thread& thread : threads) thread.join();
    return *std::min_element(best.begin(), best.end());
}

size_t bytes_beyond_caches() {
    size_t cache = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
    cache = static_cast<size_t>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
#endif
    return std::clamp(4 * cache, size_t{256} << 20, size_t{1} << 30);
}

struct Unmap {
    size_t bytes;
    void operator()(void* p) const { munmap(p, bytes); }
};

std::unique_ptr<void, Unmap> large_pages(size_t bytes) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    madvise(p, bytes, MADV_HUGEPAGE);
#endif
    return {p, Unmap{bytes}};
}

// Two streams side by side, as the hardware prefetches each of them on its own; more are no quicker.
__attribute__((optimize("O3"))) int32_t read_through(const uint8_t* data, size_t bytes) {
    typedef uint32_t Vector __attribute__((vector_size(16), may_alias));
    constexpr size_t kStreams = 2, kStep = 16, kSums = 4;
    const size_t length = bytes / kStreams / sizeof(Vector) / kStep * kStep;
    const Vector* p = reinterpret_cast<const Vector*>(data);
    Vector sums[kSums] = {};
    for (size_t i = 0; i < length; i += kStep)
        for (size_t s = 0; s < kStreams; s++)
            for (size_t k = 0; k < kStep; k++) sums[k % kSums] ^= p[s * length + i + k];
    for (const Vector& sum : sums) sums[0] += sum;
    return static_cast<int32_t>(sums[0][0] + sums[0][3]);
}

}  // namespace

double measure_ops(const std::vector<int>& cores, const std::string& isa, const std::string& kind) {
    const Loop loop = arithmetic_loop(kernels_named(isa).name, kind);
    volatile int32_t seed = 1;
    const auto began = Clock::now();
    volatile int32_t sink = loop.work(seed);
    const long times = std::clamp(
        static_cast<long>(std::chrono::duration<double>(kRound).count() / seconds_since(began)), 1L, 100000L);
    std::vector<int32_t> sinks(cores.size() * 16);
    const double seconds = quickest(cores, [&](size_t thread) {
        int32_t sum = 0;
        for (long i = 0; i < times; i++) sum += loop.work(seed);
        sinks[thread * 16] = sum;
    });
    for (int32_t value : sinks) sink = value;
    (void)sink;
    return loop.operations * static_cast<double>(times) * static_cast<double>(cores.size()) / seconds * 1e-9;
}

double measure_read(const std::vector<int>& cores) {
    const size_t bytes = bytes_beyond_caches();
    const size_t share = bytes / std::max<size_t>(cores.size(), 1) / 4096 * 4096;
    const auto memory = large_pages(bytes);
    uint8_t* data = static_cast<uint8_t*>(memory.get());
    std::fill(data, data + bytes, uint8_t{1});
    std::vector<int32_t> sinks(cores.size() * 16);
    const double seconds = quickest(
        cores, [&](size_t thread) { sinks[thread * 16] = read_through(data + thread * share, share); });
    volatile int32_t sink = 0;
    for (int32_t value : sinks) sink = value;
    (void)sink;
    return static_cast<double>(share * cores.size()) / seconds * 1e-9;
}

}  // namespace twinfer
