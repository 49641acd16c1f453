// A team of threads that splits work and joins again within a microsecond or so.
//
// The caller is the first member. The others spin for a short while after work, then sleep until there is
// more. A member that sleeps or is not scheduled never holds the others up: it takes no items.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace twinfer {

class Team {
  public:
    // One thread per core id; -1 is a thread that is not pinned. The constructing thread is pinned to the
    // first.
    explicit Team(const std::vector<int>& cores);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int size() const { return static_cast<int>(workers_.size()) + 1; }

    // How many members take part from the next run on, at most size().
    void set_active(int members) { active_.store(members); }
    int active() const { return active_.load(); }

    // Calls work(item, member) once for every item in [0, items), on any member, and returns when all are
    // done.
    template <class F>
    void run(long items, F&& work) {
        if (items == 1) return work(0L, 0);
        run_all(items, [](void* f, long item, int member) { (*static_cast<F*>(f))(item, member); }, &work);
    }

  private:
    using Call = void (*)(void*, long item, int member);

    void run_all(long items, Call call, void* context);
    void take_items(uint64_t state, int member);
    void serve(int member, int core);

    std::vector<std::thread> workers_;
    std::atomic<int> active_;
    // Round number in the upper half, items not yet taken in the lower half. An item is taken by counting
    // down, which fails once the round is over; so what belongs to a round is read only while it lasts.
    alignas(64) std::atomic<uint64_t> state_{0};
    alignas(64) std::atomic<long> done_{0};
    alignas(64) std::atomic<uint32_t> wake_{0};
    std::atomic<int> asleep_{0};
    std::atomic<bool> stop_{false};
    long items_ = 0;
    Call call_ = nullptr;
    void* context_ = nullptr;
};

}  // namespace twinfer
