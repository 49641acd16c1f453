// How work on rows and tiles is cut into items for a team.
#pragma once

#include <algorithm>

#include "grow.h"
#include "kernels.h"
#include "team.h"

namespace twinfer {

// Rows of a block of a product. Blocks begin at multiples of the rows that the products keep in registers,
// so that some are longer by a part of those.
constexpr long kProductRows = 96, kRowUnit = 6, kMostBlockRows = kProductRows + kRowUnit;
// Floats of results that a member has in its cache at once: of a group of 64 columns for a whole block.
constexpr long kResultFloats = 64 * kMostBlockRows;

// Rows of an item of row-wise work.
inline long row_item(long rows, const Team& team) {
    return rows <= 4 ? rows : std::min(16L, ceil_div(rows, static_cast<long>(team.present())));
}

// A product's items: blocks of rows by panels of units of tiles. All members get as many units, although
// panels differ by one.
struct ProductCut {
    long rows, row_blocks, tiles, unit, panels;

    long items() const { return row_blocks * panels; }
    long row(long block) const {
        return block == row_blocks ? rows : (rows * block / row_blocks + kRowUnit / 2) / kRowUnit * kRowUnit;
    }
    long tile(long panel) const { return std::min(tiles, ceil_div(tiles, unit) * panel / panels * unit); }
};

// Panels begin at multiples of `unit` tiles.
ProductCut cut_product(const Matrix& w, long rows, long unit, const Team& team);

}  // namespace twinfer
