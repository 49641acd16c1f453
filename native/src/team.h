// A team of threads that splits work and joins again within a microsecond or so.
//
// The caller is the first member. The others spin for a short while after work, then sleep until there is
// more. A member that sleeps or is not scheduled never holds the others up: it takes no items. One that loses
// its core in the middle of an item does. Where that happens often the caller works alone for a while, in
// proportion to what it waited, so that a busy core costs a few percent and not a time slice per round.
//
// A member may sit on a core that belongs to somebody else, who lends it: a word in shared memory holds the
// time until which the core is free (nanoseconds of the monotonic clock). Such a member takes no item after
// that time and does not spin, so that it is gone within an item's length. Lending changes who computes an
// item and never what is computed.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace twinfer {

class Team {
  public:
    // One thread per core id; -1 is a thread that is not pinned. The constructing thread is pinned to the
    // first. lent[i] is null for a core of our own, else the word of the lender; there may be fewer.
    explicit Team(const std::vector<int>& cores, const std::vector<const uint64_t*>& lent = {});
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int size() const { return static_cast<int>(workers_.size()) + 1; }

    // How many members take part from the next run on, at most size().
    void set_active(int members) { active_.store(members); }
    int active() const { return active_.load(); }

    // How many of these may take an item now: all but those on cores that are not lent at the moment; one
    // while the caller works alone.
    int present() const;

    // Seconds of processor time that each member's thread has taken since the team was made, spinning and
    // waiting included. The system counts them, so that work need not. To be asked while the constructing
    // thread lives; any thread may.
    std::vector<double> busy() const;

    // Calls work(item, member) once for every item in [0, items), on any member, and returns when all are
    // done. Each member begins with a share of its own, in order: in a row of runs over the same rows it
    // keeps to its own, which are in its core's cache, and what an item fetched ahead serves the next. Then
    // it takes what is left of the others'.
    template <class F>
    void run(long items, F&& work) {
        if (items == 1) return work(0L, 0);
        run_all(items, [](void* f, long item, int member) { (*static_cast<F*>(f))(item, member); }, &work);
    }

    // Keeps the team to one caller while it lives.
    //
    // Throws std::runtime_error when another has it: two at a time would get in each other's way.
    class Claim {
      public:
        explicit Claim(Team& team) : team_(team) {
            if (team.claimed_.exchange(true, std::memory_order_acquire))
                throw std::runtime_error("the team is computing already; use it from one thread at a time");
        }
        ~Claim() { team_.claimed_.store(false, std::memory_order_release); }
        Claim(const Claim&) = delete;
        Claim& operator=(const Claim&) = delete;

      private:
        Team& team_;
    };

  private:
    using Call = void (*)(void*, long item, int member);

    void end();
    void run_all(long items, Call call, void* context);
    void share_out(long items);
    long take_items(uint64_t state, int member);
    long next_item(int member);
    void serve(int member, int core);
    void wake_members();
    bool may_work(int member) const;
    void wait_for_others(long items, uint64_t length);
    void count_stall(uint64_t waited, uint64_t time);

    // What a sleeping member waits on; one each, so that nobody is woken on a core that is not lent.
    struct alignas(64) Bed {
        std::atomic<uint32_t> wake{0};
        std::atomic<bool> asleep{false};
    };

    // A member's items, of which `taken` were taken by anybody; it grows beyond their number.
    struct alignas(64) Share {
        std::atomic<long> taken{0};
        long first = 0, items = 0;

        long left() const { return items - taken.load(std::memory_order_relaxed); }
    };

    std::vector<const uint64_t*> lent_;
    std::vector<Share> shares_;
    std::vector<Bed> beds_;
    std::vector<std::thread> workers_;
    pthread_t caller_ = pthread_self();
    double before_ = 0;  // seconds that the caller had taken when the team was made
    std::atomic<int> active_;
    std::atomic<bool> claimed_{false};
    // Round number in the upper half, items not yet taken in the lower half. Who takes an item counts down
    // first, which fails once the round is over; so what belongs to a round is read only while it lasts.
    alignas(64) std::atomic<uint64_t> state_{0};
    alignas(64) std::atomic<long> done_{0};
    alignas(64) std::atomic<bool> stop_{false};
    // The caller's, in nanoseconds: how long it waited for members without a core, less a share of the time
    // since; when that was last counted; and until when it works alone.
    uint64_t stalled_ = 0, counted_ = 0, alone_until_ = 0;
    Call call_ = nullptr;
    void* context_ = nullptr;
};

}  // namespace twinfer
