#include "team.h"

#include <chrono>
#include <stdexcept>
#include <string>

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

namespace twinfer {
namespace {

constexpr auto kSpin = std::chrono::microseconds(50);
constexpr uint64_t kItems = 0xffffffffu;

void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

bool pin(int core) {
#ifdef __linux__
    if (core < 0) return true;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
#else
    (void)core;
    return true;
#endif
}

}  // namespace

Team::Team(const std::vector<int>& cores) : active_(static_cast<int>(cores.size())) {
    if (cores.empty()) throw std::invalid_argument("a team needs at least one core");
    for (int core : cores)
        if (core < -1 || core > 1023) throw std::invalid_argument("no such core: " + std::to_string(core));
    if (!pin(cores[0])) throw std::invalid_argument("cannot run on core " + std::to_string(cores[0]));
    for (size_t i = 1; i < cores.size(); i++)
        workers_.emplace_back([this, i, core = cores[i]] { serve(static_cast<int>(i), core); });
}

Team::~Team() {
    stop_.store(true);
    wake_.fetch_add(1);
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
}

void Team::run_all(long items, Call call, void* context) {
    if (items <= 0) return;
    if (workers_.empty() || active_.load() <= 1) {
        for (long i = 0; i < items; i++) call(context, i, 0);
        return;
    }
    items_ = items;
    call_ = call;
    context_ = context;
    done_.store(0, std::memory_order_relaxed);
    uint64_t state = ((state_.load() >> 32) + 1) << 32 | static_cast<uint64_t>(items);
    state_.store(state);
    if (asleep_.load() > 0) {
        wake_.fetch_add(1);
        wake_.notify_all();
    }
    take_items(state, 0);
    while (done_.load(std::memory_order_acquire) != items) relax();
}

void Team::take_items(uint64_t state, int member) {
    while (state & kItems) {
        if (!state_.compare_exchange_weak(state, state - 1)) continue;
        call_(context_, items_ - static_cast<long>(state & kItems), member);
        done_.fetch_add(1, std::memory_order_release);
        state = state_.load();
    }
}

void Team::serve(int member, int core) {
    pin(core);
    auto since = std::chrono::steady_clock::now();
    for (int idle = 0; !stop_.load(std::memory_order_relaxed);) {
        uint64_t state = state_.load();
        if ((state & kItems) && member < active_.load()) {
            take_items(state, member);
            since = std::chrono::steady_clock::now();
            continue;
        }
        relax();
        if (++idle % 64 || std::chrono::steady_clock::now() - since < kSpin) continue;
        uint32_t seen = wake_.load();
        asleep_.fetch_add(1);
        if (!(state_.load() & kItems) || member >= active_.load())
            if (!stop_.load()) wake_.wait(seen);
        asleep_.fetch_sub(1);
        since = std::chrono::steady_clock::now();
    }
}

}  // namespace twinfer
