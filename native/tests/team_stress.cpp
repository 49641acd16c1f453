// Works a thread team hard while its members, their number and the lent words change; for ThreadSanitizer.
//
// Usage: team_stress SECONDS. Ends with 1 and a line when an item was left out or done twice, or when a time
// that was told goes back.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "team.h"

namespace {

using Clock = std::chrono::steady_clock;
using twinfer::Team;

constexpr uint64_t kForever = ~uint64_t{0};
constexpr int kMembers = 4;

uint64_t in_microseconds(long us) {
    return static_cast<uint64_t>((Clock::now().time_since_epoch() + std::chrono::microseconds(us)) /
                                 std::chrono::nanoseconds(1));
}

void store(uint64_t& word, uint64_t value) { std::atomic_ref(word).store(value, std::memory_order_relaxed); }

// As other engines do: lends the two words for good, for a moment, until just now, and not at all.
void lend(uint64_t (&words)[2], const std::atomic<bool>& stop) {
    for (long round = 0; !stop.load(std::memory_order_relaxed); round++) {
        store(words[round % 2], round % 4 == 0   ? kForever
                                : round % 4 == 1 ? in_microseconds(50)
                                : round % 4 == 2 ? in_microseconds(-1)
                                                 : 0);
        std::this_thread::sleep_for(std::chrono::microseconds(round % 50));
    }
}

// Every item counts up its own place, without atomics: a race or a second visit shows.
bool one_round(Team& team, std::vector<int>& places, long items) {
    places.assign(static_cast<size_t>(items), 0);
    team.run(items, [&](long item, int member) {
        if (member < 0 || member >= kMembers) std::abort();
        places[static_cast<size_t>(item)]++;
    });
    for (int visits : places)
        if (visits != 1) return false;
    return true;
}

// Asks for the members' times, as a report does, while they work.
bool counts_up(const Team& team, const std::atomic<bool>& over) {
    std::vector<double> before(kMembers, 0.0);
    while (!over.load()) {
        const std::vector<double> seconds = team.busy();
        if (seconds.size() != before.size()) return false;
        for (size_t i = 0; i < seconds.size(); i++)
            if (seconds[i] < before[i]) return false;
        before = seconds;
        std::this_thread::sleep_for(std::chrono::microseconds(30));
    }
    return true;
}

bool work_for(Clock::duration time) {
    uint64_t words[2] = {0, 0};
    std::atomic<bool> stop{false};
    bool good = true;
    long rounds = 0;
    std::vector<int> places;
    std::thread lender([&] { lend(words, stop); });
    for (const Clock::time_point end = Clock::now() + time; good && Clock::now() < end;) {
        std::atomic<bool> over{false}, counted{true};
        Team team({-1, -1, -1, -1}, {nullptr, nullptr, &words[0], &words[1]});
        std::thread watcher([&] { counted.store(counts_up(team, over)); });
        for (long i = 0; good && i < 200; i++, rounds++) {
            team.set_active(1 + static_cast<int>(rounds % kMembers));
            if (team.present() > team.active()) good = false;
            good = good && one_round(team, places, rounds * 37 % 200);
            // Long enough now and then for members to fall asleep, so that waking them is tried too.
            if (rounds % 40 == 39) std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
        over.store(true);
        watcher.join();
        good = good && counted.load();
    }
    stop.store(true);
    lender.join();
    std::printf("team_stress: %ld rounds\n", rounds);
    return good;
}

}  // namespace

int main(int argc, char** argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 5;
    if (work_for(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))))
        return 0;
    std::fprintf(stderr, "team_stress: an item was left out or done twice, or a time went back\n");
    return 1;
}
