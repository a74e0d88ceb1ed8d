#include "lib/data/serve/lane_reader.h"

#include <fmt/format.h>

namespace train::data {
namespace {

/// Of sets that a reader knows. There are more only if ingest workers come and go all the time.
constexpr std::size_t kSetsMax = 256;

}  // namespace

Result<std::unique_ptr<LaneReader>> LaneReader::make(std::shared_ptr<const RowSource> source,
                                                     const UnitLayout& layout, const OpenPass& pass,
                                                     std::shared_ptr<DatasetMeters> meters) {
  if (const std::string own = digest_of(layout); own != pass.layout) {
    return Error{Errc::InvalidArgument,
                 fmt::format("its files (digest {}) are not those of the rank (digest {})", own,
                             pass.layout),
                 "every node must have the same files at the dataset's path"};
  }
  TRY(ShardPlan plan, ShardPlan::make({.layout = layout,
                                       .batch_sizes = pass.batch_sizes,
                                       .rank = pass.rank,
                                       .order = pass.order,
                                       .epoch = pass.epoch,
                                       .rows_consumed = pass.rows_consumed,
                                       .drop_last = pass.drop_last}));
  return std::unique_ptr<LaneReader>(
      new LaneReader(std::move(source), std::move(plan), std::move(meters)));
}

LaneReader::LaneReader(std::shared_ptr<const RowSource> source, ShardPlan plan,
                       std::shared_ptr<DatasetMeters> meters)
    : source_(std::move(source)), meters_(std::move(meters)), whole_(std::move(plan)) {
  begin();
}

void LaneReader::begin() {
  sets_.clear();
  plan_ = std::make_shared<LanePlan>(whole_);
  reader_ = std::make_unique<BatchReader>(source_, plan_, meters_);
}

Result<ReadBatch> LaneReader::read(std::int64_t step, const AddressSet& addresses) {
  if (std::cmp_not_equal(addresses.size(), plan_->addresses().count())) {
    return Error{Errc::InvalidArgument, fmt::format("{} addresses are told apart, and there are {}",
                                                    addresses.size(), plan_->addresses().count())};
  }
  if (!sets_.contains(addresses) && sets_.size() == kSetsMax) begin();
  auto set = sets_.find(addresses);
  if (set == sets_.end()) set = sets_.emplace(addresses, plan_->add(addresses)).first;
  TRY(const std::int64_t index, plan_->index_of(set->second, step));
  return reader_->read(index);
}

}  // namespace train::data
