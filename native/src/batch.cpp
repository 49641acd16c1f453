#include "batch.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "grow.h"
#include "kernels.h"

namespace twinfer {
namespace {

// Rows that go through all layers together: enough to reuse weights, few enough to stay in cache.
constexpr long kPassRows = 512;
// Queries that share one attention call at most.
constexpr long kQueries = 16;
// Rows of a chunk of attention calls, which share the keys and values of a KV head in cache. Few enough that
// members can take chunks.
constexpr long kChunk = 96;

// Tokens of one sequence that follow one another in a pass.
struct Stretch {
    long row, position, count;
    const int32_t* pages;
};

// Its attention calls in order of chunks of rows, of each one KV head after the other.
void attend(const Config& config, const Stretch& s, std::vector<AttentionItem>& calls) {
    const long group = config.heads / config.kv_heads, heads_at_once = std::min(group, kTileRows);
    const long queries_at_once = std::clamp(kTileRows / group, 1L, kQueries);
    const long chunk = ceil_div(kChunk, queries_at_once) * queries_at_once;
    for (long from = 0; from < s.count; from += chunk)
        for (long kv = 0; kv < config.kv_heads; kv++)
            for (long h = 0; h < group; h += heads_at_once)
                for (long q = from; q < std::min(from + chunk, s.count); q += queries_at_once)
                    calls.push_back({s.row + q, s.position + q, std::min(queries_at_once, s.count - q), kv,
                                     kv * group + h, std::min(heads_at_once, group - h), s.pages});
}

[[noreturn]] void refuse(const std::string& message) { throw std::invalid_argument(message); }

}  // namespace

void check_batch(const Config& config, const Batch& b, long pool_pages) {
    const size_t sequences = b.rows.size();
    if (b.starts.size() != sequences ||
        b.page_tables.size() != sequences * static_cast<size_t>(b.page_columns))
        refuse("rows, starts and page_tables must have the same number of sequences");
    long total = 0;
    for (size_t s = 0; s < sequences; s++) {
        if (b.rows[s] < 1) refuse("sequence " + std::to_string(s) + " has no tokens");
        if (b.starts[s] < 0) refuse("sequence " + std::to_string(s) + " starts before position 0");
        total += b.rows[s];
        const long end = static_cast<long>(b.starts[s]) + b.rows[s], pages = ceil_div(end, kPageTokens);
        if (pages > b.page_columns)
            refuse("sequence " + std::to_string(s) + " needs " + std::to_string(pages) +
                   " pages, but its table has " + std::to_string(b.page_columns));
        if (pages > pool_pages)
            refuse("sequence " + std::to_string(s) + " needs " + std::to_string(pages) +
                   " pages, but the pool has " + std::to_string(pool_pages));
        for (long i = 0; i < pages; i++) {
            const int32_t page =
                b.page_tables[s * static_cast<size_t>(b.page_columns) + static_cast<size_t>(i)];
            if (page < 0 || page >= pool_pages)
                refuse("page " + std::to_string(page) + " is not one of the pool's " +
                       std::to_string(pool_pages));
        }
    }
    if (total != static_cast<long>(b.tokens.size()))
        refuse("rows add up to " + std::to_string(total) + ", but there are " +
               std::to_string(b.tokens.size()) + " tokens");
    for (int32_t token : b.tokens)
        if (token < 0 || token >= config.vocab)
            refuse("token " + std::to_string(token) + " is not in the vocabulary");
}

std::vector<Pass> split_batch(const Config& config, const Batch& b) {
    std::vector<Pass> passes;
    long token = 0;
    for (size_t s = 0; s < b.rows.size(); s++) {
        const int32_t* pages = b.page_tables.data() + s * static_cast<size_t>(b.page_columns);
        for (long done = 0; done < b.rows[s];) {
            if (passes.empty() || static_cast<long>(passes.back().tokens.size()) == kPassRows) {
                passes.emplace_back();
                passes.back().first = token;
            }
            Pass& pass = passes.back();
            const long row = static_cast<long>(pass.tokens.size());
            const long count = std::min(b.rows[s] - done, kPassRows - row);
            for (long i = 0; i < count; i++, token++) {
                const long position = b.starts[s] + done + i;
                pass.tokens.push_back({b.tokens[static_cast<size_t>(token)], static_cast<int32_t>(position),
                                       pages[position / kPageTokens],
                                       static_cast<int32_t>(position % kPageTokens)});
                pass.last_of.push_back(done + i + 1 == b.rows[s] ? static_cast<long>(s) : -1);
            }
            attend(config, {row, b.starts[s] + done, count, pages}, pass.attention);
            done += count;
        }
    }
    return passes;
}

}  // namespace twinfer
