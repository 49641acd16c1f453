#include "plan.h"

#include <algorithm>

#include "grow.h"

namespace twinfer {
namespace {

// Attention calls that suffice for a balanced team, for each member.
constexpr long kItemsPerMember = 4;
// What the longest run costs, some 0.1 ms, so that a core may be lent or taken back at any time. A page costs
// its memory, which is as much as kPageCost rows, and its rows.
constexpr long kRunCost = 11200, kPageCost = 8;

long cost(const AttentionTile& t) {
    return (t.rows() + kPageCost) * ceil_div(t.first_position + t.queries, kPageTokens);
}

// Cuts tiles [begin, end) into `count` pieces, some of which may be empty: the first i of them cost about
// until(i) of the whole.
template <class Until, class Each>
void cut_by_cost(const AttentionTile* tiles, long begin, long end, long count, Until until, Each each) {
    long whole = 0, done = 0;
    for (long t = begin; t < end; t++) whole += cost(tiles[t]);
    for (long i = 1; i <= count; i++) {
        const double limit = until(i) * static_cast<double>(whole);
        const long first = begin;
        for (; begin < end && static_cast<double>(2 * done + cost(tiles[begin])) <= 2 * limit; begin++)
            done += cost(tiles[begin]);
        each(first, begin);
    }
}

// A member begins with as many items as any other, in order (team.h): so all get as many runs, on rows that
// follow one another as in the rest of a layer, of about the same cost. The longest tiles come first, and
// runs get shorter towards the end, where members help each other.
void cut_runs(AttentionPlan& plan, long members) {
    AttentionTile* tiles = plan.tiles.data();
    const long count = static_cast<long>(plan.tiles.size());
    long whole = 0;
    for (const AttentionTile& t : plan.tiles) whole += cost(t);
    const long runs = members == 1 ? ceil_div(whole, kRunCost)
                                   : std::max(2 * kItemsPerMember, ceil_div(2 * whole, members * kRunCost));
    auto evenly = [](long i, long of) { return static_cast<double>(i) / static_cast<double>(of); };
    auto shrinking = [&](long i) {
        const double rest = evenly(runs - i, runs);
        return members == 1 ? 1 - rest : 1 - rest * rest;
    };
    auto share = [&](long begin, long end) {
        std::stable_sort(tiles + begin, tiles + end, [](const AttentionTile& a, const AttentionTile& b) {
            return a.blocks() > b.blocks();
        });
        cut_by_cost(tiles, begin, end, runs, shrinking,
                    [&](long first, long last) { plan.runs.push_back({first, last}); });
    };
    cut_by_cost(tiles, 0, count, members, [&](long i) { return evenly(i, members); }, share);
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
