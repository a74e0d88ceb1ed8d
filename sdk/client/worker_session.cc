#include "sdk/client/worker_session.h"

#include <fmt/format.h>

#include "sdk/client/checkpoint_impl.h"

namespace train::sdk {

void WorkerSession::on_stop(std::function<Checkpoint()> make) {
  const std::lock_guard lock(base_mutex_);
  on_stop_ = std::move(make);
}

std::function<Checkpoint()> WorkerSession::stop_function() const {
  const std::lock_guard lock(base_mutex_);
  return on_stop_;
}

void WorkerSession::set_data_position(const std::string& dataset, std::uint64_t epoch,
                                      std::int64_t rows_consumed) {
  const std::lock_guard lock(base_mutex_);
  data_positions_.insert_or_assign(dataset, Dict{{"epoch", epoch}, {"rows", rows_consumed}});
}

void WorkerSession::restore_data_positions(const Dict& metadata) {
  const auto restored = metadata.find("data");
  if (restored == metadata.end() || !restored->second.is_dict()) return;
  const std::lock_guard lock(base_mutex_);
  for (const auto& [dataset, position] : restored->second.as<Dict>())
    data_positions_.try_emplace(dataset, position);
}

Dict WorkerSession::checkpoint_metadata(const Checkpoint::Impl& checkpoint) const {
  Dict metadata = info_.metadata;
  for (const auto& [key, value] : checkpoint.metadata) metadata.insert_or_assign(key, value);
  const std::lock_guard lock(base_mutex_);
  if (!data_positions_.empty()) metadata.insert_or_assign("data", data_positions_);
  return metadata;
}

void check_collective(const std::string& name, const std::string& mine) {
  if (name.size() > kCollectiveNameBytesMax) {
    throw Failure("invalid_argument",
                  fmt::format("a collective call's name has {} bytes; at most {} are allowed",
                              name.size(), kCollectiveNameBytesMax));
  }
  if (mine.size() > kCollectiveBytesMax) {
    throw Failure("invalid_argument",
                  fmt::format("'{}': {} bytes; at most {} per rank are allowed in a collective "
                              "call (for larger data use a checkpoint or the process group)",
                              name, mine.size(), kCollectiveBytesMax));
  }
}

}  // namespace train::sdk
