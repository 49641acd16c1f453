#include "plan.h"

#include <algorithm>

#include "grow.h"

namespace twinfer {
namespace {

// Attention calls that suffice for a balanced team, for each member.
constexpr long kItemsPerMember = 4;
// A run costs at most this, some 0.1 ms, so that a core may be lent or taken back at any time. A block costs
// its memory, which is as much as kBlockCost rows, and its rows.
constexpr long kRunCost = 1400, kBlockCost = 8;

void cut_runs(AttentionPlan& plan, long members) {
    const long tiles = static_cast<long>(plan.tiles.size());
    auto cost = [&](long i) {
        const AttentionTile& t = plan.tiles[static_cast<size_t>(i)];
        return (t.rows() + kBlockCost) * t.blocks();
    };
    long left = 0;
    for (long i = 0; i < tiles; i++) left += cost(i);
    for (long begin = 0, end; begin < tiles; begin = end) {
        const long share = std::min(kRunCost, members == 1 ? left : left / (kItemsPerMember * members));
        long run = cost(begin);
        for (end = begin + 1; end < tiles && run + cost(end) <= share; end++) run += cost(end);
        plan.runs.push_back({begin, end});
        left -= run;
    }
}

void cut_parts(AttentionPlan& plan, long members, long head_dim) {
    long blocks = 0;
    for (const AttentionTile& t : plan.tiles) blocks += t.blocks();
    const long most = std::max(1L, blocks / (kItemsPerMember * members));
    for (size_t i = 0; i < plan.tiles.size(); i++) {
        const AttentionTile& t = plan.tiles[i];
        const long pieces = ceil_div(t.blocks(), most);
        for (long p = 0; p < pieces; p++)
            plan.parts.push_back({static_cast<long>(i), t.blocks() * p / pieces,
                                  t.blocks() * (p + 1) / pieces, pieces > 1 ? plan.partial_floats : -1});
        if (pieces == 1) continue;
        plan.split.push_back(static_cast<long>(plan.parts.size()) - 1);
        plan.partial_floats += t.blocks() * partial_floats(t.rows(), head_dim);
    }
}

}  // namespace

void cut(AttentionPlan& plan, long members, long head_dim) {
    plan.runs.clear();
    plan.parts.clear();
    plan.split.clear();
    plan.partial_floats = 0;
    if (members == 1 || static_cast<long>(plan.tiles.size()) > kItemsPerMember * members)
        cut_runs(plan, members);
    else
        cut_parts(plan, members, head_dim);
}

}  // namespace twinfer
