#include "launcher/cluster/sweep/sweep_tables.h"

namespace train {
namespace {

constexpr Duration kWriteEvery = seconds(1);

}  // namespace

void SweepTables::write(TimePoint now, bool at_end) {
  if (!changed_ || (!at_end && now - written_ < kWriteEvery)) return;
  written_ = now;
  changed_ = false;
  if (const auto written = write_trials_csv(folder_, search_); !written)
    screen_.warn(written.error().describe());
  const auto best = search_.best();
  if (!best) return;
  const std::pair part{*best, search_.trials()[static_cast<std::size_t>(*best)].best_part};
  if (std::exchange(linked_, part) == part) return;
  if (const auto linked = link_best(folder_, part.first, part.second); !linked)
    screen_.warn(linked.error().describe());
}

}  // namespace train
