// Which member takes which item of a run over rows: first those of its own share of the rows, the same in
// every run, so that what it made of them is still in its core's cache; then what is left of the others'.
#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

namespace twinfer {

class Shares {
  public:
    struct Item {
        long block, part;
    };

    explicit Shares(int members) : shares_(static_cast<size_t>(members)) {}
    Shares(Shares&&) = default;

    // Deals out `parts` items for each of `blocks` blocks of rows. A share's items go through its blocks for
    // the first part, then for the second, and so on.
    void deal(long blocks, long parts) {
        const long members = static_cast<long>(shares_.size());
        for (long m = 0; m < members; m++) {
            Share& share = shares_[static_cast<size_t>(m)];
            share.first = blocks * m / members;
            share.blocks = blocks * (m + 1) / members - share.first;
            share.items = share.blocks * parts;
            share.taken.store(0, std::memory_order_relaxed);
        }
    }

    // The next one for a member. To be called once for each item.
    Item take(int member) {
        for (Share* share = &shares_[static_cast<size_t>(member)];; share = fullest())
            if (const long i = share->taken.fetch_add(1, std::memory_order_relaxed); i < share->items)
                return {share->first + i % share->blocks, i / share->blocks};
    }

  private:
    struct alignas(64) Share {
        long first = 0, blocks = 0, items = 0;
        std::atomic<long> taken{0};
        long left() const { return items - taken.load(std::memory_order_relaxed); }
    };

    Share* fullest() {
        return &*std::max_element(shares_.begin(), shares_.end(),
                                  [](const Share& a, const Share& b) { return a.left() < b.left(); });
    }

    std::vector<Share> shares_;
};

}  // namespace twinfer
