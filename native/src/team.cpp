#include "team.h"

#include <algorithm>
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
// The caller waits at least so long for others before it concludes that one of them has lost its core, and
// then yields its own. Waits of up to a kAlone-th of the time are borne, and kBurst more; for what is beyond,
// the caller works alone until they are again, within a bound.
constexpr uint64_t kStall = 300'000, kBurst = 5'000'000, kAlone = 20,
                   kMostAlone = 200'000'000;  // nanoseconds
constexpr size_t kMostMembers = 1024;
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

// Of processor time; 0 where they cannot be had.
double seconds_of(pthread_t thread) {
    timespec time{};
#ifdef __linux__
    clockid_t clock;
    if (pthread_getcpuclockid(thread, &clock) == 0) clock_gettime(clock, &time);
#else
    (void)thread;
#endif
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

uint64_t now() {
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                 std::chrono::nanoseconds(1));
}

}  // namespace

Team::Team(const std::vector<int>& cores, const std::vector<const uint64_t*>& lent)
    : lent_(lent), shares_(cores.size()), beds_(cores.size()), active_(static_cast<int>(cores.size())) {
    if (lent.size() > cores.size()) throw std::invalid_argument("more lenders than cores");
    lent_.resize(cores.size(), nullptr);
    if (cores.size() > kMostMembers) throw std::invalid_argument("more cores than a machine can have");
    if (cores.empty()) throw std::invalid_argument("a team needs at least one core");
    for (int core : cores)
        if (core < -1 || core > 1023) throw std::invalid_argument("no such core: " + std::to_string(core));
    if (!pin(cores[0])) throw std::invalid_argument("cannot run on core " + std::to_string(cores[0]));
    before_ = seconds_of(caller_);
    try {
        for (size_t i = 1; i < cores.size(); i++)
            workers_.emplace_back([this, i, core = cores[i]] { serve(static_cast<int>(i), core); });
    } catch (...) {  // no more threads are to be had
        end();
        throw;
    }
}

Team::~Team() { end(); }

void Team::end() {
    stop_.store(true);
    for (Bed& bed : beds_) {
        bed.wake.fetch_add(1);
        bed.wake.notify_one();
    }
    for (std::thread& worker : workers_) worker.join();
}

bool Team::may_work(int member) const {
    if (member >= active_.load(std::memory_order_relaxed)) return false;
    const uint64_t* until = lent_[static_cast<size_t>(member)];
    return !until || now() < std::atomic_ref(*const_cast<uint64_t*>(until)).load(std::memory_order_relaxed);
}

int Team::present() const {
    int count = 1;
    if (now() < alone_until_) return count;
    for (int member = 1; member < active_.load(); member++) count += may_work(member);
    return count;
}

std::vector<double> Team::busy() const {
    std::vector<double> seconds{seconds_of(caller_) - before_};
    for (const std::thread& worker : workers_)
        seconds.push_back(seconds_of(const_cast<std::thread&>(worker).native_handle()));
    return seconds;
}

void Team::run_all(long items, Call call, void* context) {
    if (items <= 0) return;
    const uint64_t began = now();
    if (workers_.empty() || active_.load() <= 1 || began < alone_until_) {
        for (long i = 0; i < items; i++) call(context, i, 0);
        return;
    }
    share_out(items);
    call_ = call;
    context_ = context;
    done_.store(0, std::memory_order_relaxed);
    uint64_t state = ((state_.load() >> 32) + 1) << 32 | static_cast<uint64_t>(items);
    state_.store(state);
    wake_members();
    const long taken = take_items(state, 0);
    if (done_.load(std::memory_order_acquire) != items)
        wait_for_others(items, taken ? (now() - began) / static_cast<uint64_t>(taken) : 0);
}

// Shares of the members that are active, whether or not they may work at the moment.
void Team::share_out(long items) {
    const long members = active_.load(std::memory_order_relaxed);
    for (long m = 0; m < static_cast<long>(shares_.size()); m++) {
        Share& share = shares_[static_cast<size_t>(m)];
        share.first = items * std::min(m, members) / members;
        share.items = items * std::min(m + 1, members) / members - share.first;
        share.taken.store(0, std::memory_order_relaxed);
    }
}

// One of the member's share, else of the one with most left. Who has counted down finds one.
long Team::next_item(int member) {
    for (Share* share = &shares_[static_cast<size_t>(member)];;) {
        const long i = share->taken.fetch_add(1, std::memory_order_relaxed);
        if (i < share->items) return share->first + i;
        share = &*std::max_element(shares_.begin(), shares_.end(),
                                   [](const Share& a, const Share& b) { return a.left() < b.left(); });
    }
}

// Those that sleep and may work. A core that is lent in the middle of a run helps from then on.
void Team::wake_members() {
    for (int member = 1; member < active_.load(std::memory_order_relaxed); member++) {
        Bed& bed = beds_[static_cast<size_t>(member)];
        if (!bed.asleep.load() || !may_work(member) || !bed.asleep.exchange(false)) continue;
        bed.wake.fetch_add(1);
        bed.wake.notify_one();
    }
}

// `length` is what an item took the caller on average.
void Team::wait_for_others(long items, uint64_t length) {
    const uint64_t began = now();
    uint64_t waited = 0;
    for (int turn = 1; done_.load(std::memory_order_acquire) != items; turn++) {
        relax();
        if (turn % 64) continue;
        waited = now() - began;
        if (waited > kStall) std::this_thread::yield();
    }
    if (waited > std::max(kStall, 4 * length)) count_stall(waited, began + waited);
}

void Team::count_stall(uint64_t waited, uint64_t time) {
    stalled_ -= std::min(stalled_, (time - counted_) / kAlone);
    stalled_ += waited;
    counted_ = time;
    if (stalled_ > kBurst) alone_until_ = time + std::min(kAlone * (stalled_ - kBurst), kMostAlone);
}

long Team::take_items(uint64_t state, int member) {
    long taken = 0;
    while ((state & kItems) && (member == 0 || may_work(member))) {
        if (!state_.compare_exchange_weak(state, state - 1)) continue;
        call_(context_, next_item(member), member);
        done_.fetch_add(1, std::memory_order_release);
        taken++;
        if (member == 0) wake_members();
        state = state_.load();
    }
    return taken;
}

void Team::serve(int member, int core) {
    pin(core);
    Bed& bed = beds_[static_cast<size_t>(member)];
    auto since = std::chrono::steady_clock::now();
    for (int idle = 0; !stop_.load(std::memory_order_relaxed);) {
        uint64_t state = state_.load();
        if ((state & kItems) && may_work(member)) {
            take_items(state, member);
            since = std::chrono::steady_clock::now();
            continue;
        }
        relax();
        if (++idle % 64) continue;
        if (std::chrono::steady_clock::now() - since < kSpin && may_work(member)) continue;
        uint32_t seen = bed.wake.load();
        bed.asleep.store(true);
        if (!(state_.load() & kItems) || !may_work(member))
            if (!stop_.load()) bed.wake.wait(seen);
        bed.asleep.store(false);
        since = std::chrono::steady_clock::now();
    }
}

}  // namespace twinfer
