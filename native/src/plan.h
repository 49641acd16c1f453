// How attention's work is cut for a team.
#pragma once

#include <vector>

#include "kernels.h"

namespace twinfer {

// Tiles [begin, end), which one member computes in turn; there may be none.
struct AttentionRun {
    long begin, end;
};

// Blocks [begin, end) of a tile; `partials` is where those of the tile begin, -1 where it is computed as a
// whole.
struct AttentionPart {
    long tile, begin, end, partials;
};

struct AttentionPlan {
    std::vector<AttentionTile> tiles;
    std::vector<AttentionRun> runs;
    std::vector<AttentionPart> parts;
    std::vector<long> split;  // the last parts of the tiles that are computed in several
    long partial_floats = 0;  // of all of these
};

// Cuts a plan's tiles, which come in order of rows: into runs of whole tiles, which reorders them, or, where
// there are too few tiles to keep the members busy, into parts of tiles. How never changes a result.
void cut(AttentionPlan& plan, long members, long head_dim);

}  // namespace twinfer
