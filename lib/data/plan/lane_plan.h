// Divides a rank's batches among ingest workers, which read parts of them. Pure.
//
// The rows of a step are addressed by what changes least from step to step: by their lane, and,
// where there are few lanes, by the step as well, in turns. An address has one owner among the
// ingest workers. Who reads what is thus a function of their names alone, and needs no agreement:
// whoever is asked for an address reads the same rows, so two owners for a moment do no harm.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/plan/shard_plan.h"

namespace train::data {

/// A set of addresses: whether it has each of them.
using AddressSet = std::vector<bool>;

class Addresses {
 public:
  /// At least so many, so that several ingest workers can share one lane.
  static constexpr std::int64_t kCountMin = 16;

  explicit Addresses(std::int64_t lanes)
      : lanes_(lanes), turns_(lanes >= kCountMin ? 1 : (kCountMin + lanes - 1) / lanes) {}

  std::int64_t count() const { return lanes_ * turns_; }
  /// Steps whose numbers differ by this have the same addresses.
  std::int64_t turns() const { return turns_; }
  std::int64_t of(std::int64_t lane, std::int64_t step) const {
    return lane * turns_ + step % turns_;
  }

 private:
  std::int64_t lanes_;
  std::int64_t turns_;
};

/// Return how well a name suits an address: whoever suits best, of those that can be asked, is
/// asked.
std::uint64_t address_score(const std::string& name, std::int64_t address);

/// Return the owner of each address, as an index into `names`, of which there is at least one: by
/// rendezvous hashing, but nobody owns more than an equal share, rounded up. It depends on the set
/// of names, not on their order.
std::vector<std::size_t> address_owners(const std::vector<std::string>& names,
                                        std::int64_t addresses);

/// What an ingest worker reads of a rank's plan: of each step the rows at some of the addresses.
/// Which addresses these are may change from step to step.
class LanePlan final : public ReadPlan {
 public:
  explicit LanePlan(ShardPlan plan);

  /// Add a set of addresses, of Addresses::count() entries; return its number.
  std::size_t add(AddressSet set);
  std::size_t sets() const { return sets_.size(); }
  /// Return the index of the batch that has a set's rows of a step, in the order in which a reader
  /// meets them. NotFound if there is no such step, or it has none of these addresses.
  Result<std::int64_t> index_of(std::size_t set, std::int64_t step) const;

  const Addresses& addresses() const { return addresses_; }
  const ShardPlan& whole() const { return plan_; }

  std::int64_t batches() const override;
  PlannedBatch batch(std::int64_t index) const override;
  const RowOrder& order() const override { return plan_.order(); }
  std::int64_t open_blocks() const override { return plan_.open_blocks(); }

 private:
  struct Set {
    AddressSet has = {};
    std::vector<std::int64_t> turns = {};  // of the steps in which it has rows
  };
  std::int64_t indices_of_set() const { return plan_.batches() + addresses_.turns(); }

  ShardPlan plan_;
  Addresses addresses_;
  std::vector<Set> sets_;
};

}  // namespace train::data
