#include "lib/data/plan/lane_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lib/base/check.h"

namespace train::data {
namespace {

std::uint64_t hash_of(const std::string& name) {
  std::uint64_t hash = name.size();
  for (const char byte : name) hash = mix(hash, static_cast<unsigned char>(byte));
  return hash;
}

std::uint64_t score_of(std::uint64_t hash, std::int64_t address) {
  return mix(hash, static_cast<std::uint64_t>(address));
}

}  // namespace

std::uint64_t address_score(const std::string& name, std::int64_t address) {
  return score_of(hash_of(name), address);
}

std::vector<std::size_t> address_owners(const std::vector<std::string>& names,
                                        std::int64_t addresses) {
  TRAIN_CHECK(!names.empty(), "somebody owns the addresses");
  std::vector<std::size_t> order(names.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return names[a] < names[b]; });
  std::vector<std::uint64_t> hashes;
  hashes.reserve(names.size());
  for (const std::string& name : names) hashes.push_back(hash_of(name));
  const auto count = static_cast<std::int64_t>(names.size());
  std::vector<std::int64_t> room(names.size(), (addresses + count - 1) / count);
  std::vector<std::size_t> owners;
  owners.reserve(static_cast<std::size_t>(addresses));
  for (std::int64_t address = 0; address < addresses; ++address) {
    std::size_t best = names.size();
    std::uint64_t best_score = 0;
    for (const std::size_t one : order) {
      if (room[one] == 0) continue;
      const std::uint64_t score = score_of(hashes[one], address);
      if (best < names.size() && score <= best_score) continue;
      best = one;
      best_score = score;
    }
    --room[best];
    owners.push_back(best);
  }
  return owners;
}

LanePlan::LanePlan(ShardPlan plan)
    : plan_(std::move(plan)), addresses_(plan_.order().spec().lanes) {}

std::size_t LanePlan::add(AddressSet set) {
  TRAIN_CHECK(std::cmp_equal(set.size(), addresses_.count()), "an entry for each address");
  Set added{.has = std::move(set)};
  for (std::int64_t turn = 0; turn < addresses_.turns(); ++turn) {
    bool any = false;
    for (auto at = static_cast<std::size_t>(turn); at < added.has.size() && !any;
         at += static_cast<std::size_t>(addresses_.turns()))
      any = added.has[at];
    if (any) added.turns.push_back(turn);
  }
  sets_.push_back(std::move(added));
  return sets_.size() - 1;
}

Result<std::int64_t> LanePlan::index_of(std::size_t set, std::int64_t step) const {
  const Set& of = sets_[set];
  if (step < 0 || step >= plan_.batches())
    return Error{Errc::NotFound, fmt::format("the pass has no step {}", step)};
  const auto turn = std::find(of.turns.begin(), of.turns.end(), step % addresses_.turns());
  const std::vector<LaneRows> rows = plan_.lane_rows(step);
  if (turn == of.turns.end() || std::none_of(rows.begin(), rows.end(), [&](const LaneRows& one) {
        return of.has[static_cast<std::size_t>(addresses_.of(one.lane, step))];
      }))
    return Error{Errc::NotFound, fmt::format("step {} has none of these lanes", step)};
  return static_cast<std::int64_t>(set) * indices_of_set() +
         step / addresses_.turns() * static_cast<std::int64_t>(of.turns.size()) +
         (turn - of.turns.begin());
}

std::int64_t LanePlan::batches() const {
  return static_cast<std::int64_t>(sets_.size()) * indices_of_set();
}

PlannedBatch LanePlan::batch(std::int64_t index) const {
  const Set& set = sets_[static_cast<std::size_t>(index / indices_of_set())];
  PlannedBatch planned;
  if (set.turns.empty()) return planned;
  const std::int64_t place = index % indices_of_set();
  const auto turns = static_cast<std::int64_t>(set.turns.size());
  const std::int64_t step =
      place / turns * addresses_.turns() + set.turns[static_cast<std::size_t>(place % turns)];
  if (step >= plan_.batches()) return planned;  // behind the set's last one
  for (const LaneRows& rows : plan_.lane_rows(step)) {
    if (!set.has[static_cast<std::size_t>(addresses_.of(rows.lane, step))]) continue;
    order().append(order().lane_begin(rows.lane) + rows.from, rows.count, planned.ranges);
    planned.valid_rows += rows.count;
  }
  return planned;
}

}  // namespace train::data
