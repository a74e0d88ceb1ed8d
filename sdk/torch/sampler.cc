#include <train/torch.h>

#include <algorithm>

#include "sdk/client/session.h"
#include "sdk/torch/failure.h"
#include "sdk/torch/row_order.h"

namespace train {
namespace {

sdk::RowOrder row_order(std::size_t size, const ShardOptions& options, std::size_t world_size) {
  return {.rows = size,
          .world_size = world_size,
          .shuffle = options.shuffle,
          .seed = options.seed,
          .drop_last = options.drop_last};
}

}  // namespace

DistributedSampler::DistributedSampler(std::size_t size, const ShardOptions& options)
    : DistributedSampler(size, options, static_cast<std::size_t>(sdk::worker_info().world_size),
                         static_cast<std::size_t>(sdk::worker_info().world_rank),
                         static_cast<std::uint64_t>(start_epoch())) {}

DistributedSampler::DistributedSampler(std::size_t size, const ShardOptions& options,
                                       std::size_t world_size, std::size_t rank,
                                       std::uint64_t first_epoch)
    : size_(size),
      options_(options),
      world_size_(world_size),
      rank_(rank),
      shared_(std::make_shared<Shared>()),
      epoch_(first_epoch) {
  if (rank >= world_size) {
    sdk::raise(Error{Errc::InvalidArgument, "a sampler for rank " + std::to_string(rank) + " of " +
                                                std::to_string(world_size) + " ranks"});
  }
  shared_->next_epoch = first_epoch;
}

void DistributedSampler::set_epoch(std::uint64_t epoch) {
  epoch_ = epoch;
  shared_->next_epoch = epoch;
}

std::uint64_t DistributedSampler::epoch() const { return epoch_; }

std::size_t DistributedSampler::rows_per_rank() const {
  return sdk::share_size(row_order(size_, options_, world_size_));
}

void DistributedSampler::reset(std::optional<std::size_t> new_size) {
  if (new_size) size_ = *new_size;
  epoch_ = shared_->next_epoch.fetch_add(1);
  rows_ = sdk::rows_of_rank(row_order(size_, options_, world_size_), epoch_, rank_);
  position_ = 0;
}

std::optional<std::vector<std::size_t>> DistributedSampler::next(std::size_t batch_size) {
  if (position_ == rows_.size()) return std::nullopt;
  const std::size_t end = std::min(position_ + batch_size, rows_.size());
  std::vector<std::size_t> batch(rows_.begin() + static_cast<std::ptrdiff_t>(position_),
                                 rows_.begin() + static_cast<std::ptrdiff_t>(end));
  position_ = end;
  return batch;
}

void DistributedSampler::save(torch::serialize::OutputArchive&) const {
  sdk::raise(Error{Errc::InvalidArgument, "train::DistributedSampler has no state to save",
                   "save the epoch, and call set_epoch after loading it"});
}

void DistributedSampler::load(torch::serialize::InputArchive&) {
  sdk::raise(Error{Errc::InvalidArgument, "train::DistributedSampler has no state to load",
                   "call set_epoch"});
}

}  // namespace train
