#include "sdk/client/worker_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/model/worker_call.h"
#include "lib/wire/reports.h"
#include "sdk/client/checkpoint_impl.h"

namespace train::sdk {
namespace {

/// Return how many dicts and lists lie in each other.
int depth_of(const Value& value) {
  int inner = 0;
  if (const auto* dict = std::get_if<Dict>(&value.storage())) {
    for (const auto& [key, member] : *dict) inner = std::max(inner, depth_of(member));
  } else if (const auto* list = std::get_if<List>(&value.storage())) {
    for (const Value& member : *list) inner = std::max(inner, depth_of(member));
  } else {
    return 0;
  }
  return inner + 1;
}

void check_depth(const Value& value, const char* what, const char* hint) {
  const int depth = depth_of(value);
  if (depth <= kDepthMax) return;
  throw Failure("invalid_argument",
                fmt::format("{} is nested {} levels deep, at most {} are allowed ({})", what, depth,
                            kDepthMax, hint));
}

}  // namespace

void WorkerSession::on_stop(std::function<Checkpoint()> make) {
  const std::lock_guard lock(base_mutex_);
  on_stop_ = std::move(make);
}

std::size_t WorkerSession::poll(std::chrono::milliseconds wait) {
  if (wait.count() > 0)
    throw Failure("unavailable",
                  "poll: without train-run nobody calls this program's functions, so it would only "
                  "wait");
  return 0;
}

void WorkerSession::ingest_up(const std::string&) {
  throw Failure("unavailable", "this process was not started as an ingest worker");
}

void WorkerSession::ingest_busy(const IngestFigures&) { ingest_up({}); }

std::function<Checkpoint()> WorkerSession::stop_function() const {
  const std::lock_guard lock(base_mutex_);
  return on_stop_;
}

void WorkerSession::add_histogram(const std::string& name, const Histogram& histogram) {
  std::string packed;
  append_histogram(name, histogram, packed);
  const std::lock_guard lock(base_mutex_);
  const auto earlier = histograms_.find(name);
  const bool is_new = earlier == histograms_.end();
  const std::size_t bytes =
      histogram_bytes_ + packed.size() - (is_new ? 0 : earlier->second.size());
  if (is_new && histograms_.size() == kReportHistogramsMax) {
    throw Failure("invalid_argument",
                  fmt::format("histogram '{}': {} others wait for the next report, and no more fit "
                              "into one",
                              name, kReportHistogramsMax));
  }
  if (bytes > kReportHistogramBytesMax) {
    throw Failure("invalid_argument",
                  fmt::format("histogram '{}': with the others that wait for the next report it "
                              "has {} bytes, at most {} fit into one (take fewer bins)",
                              name, bytes, kReportHistogramBytesMax));
  }
  histograms_[name] = std::move(packed);
  histogram_bytes_ = bytes;
  histograms_wait_ = true;
}

void WorkerSession::take_histograms(std::string& report) {
  if (!histograms_wait_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(base_mutex_);
  if (histograms_.empty()) return;  // a report of another thread took them
  std::string all;
  for (const auto& [name, packed] : histograms_) all += packed;
  add_histograms(histograms_.size(), all, report);
  histograms_.clear();
  histogram_bytes_ = 0;
  histograms_wait_ = false;
}

void WorkerSession::set_data_position(const std::string& dataset, const DataPosition& position) {
  const std::lock_guard lock(base_mutex_);
  data_positions_.insert_or_assign(dataset, position);
}

void WorkerSession::set_preprocessors(const std::string& dataset, std::string fitted) {
  const std::lock_guard lock(base_mutex_);
  preprocessors_.insert_or_assign(dataset, std::move(fitted));
}

void WorkerSession::restore_data_positions(const Dict& metadata) {
  const auto restored = metadata.find(kPositionsKey);
  if (restored == metadata.end() || !restored->second.is_dict()) return;
  const std::lock_guard lock(base_mutex_);
  restored_positions_ = restored->second.as<Dict>();
}

/// Return the positions of all datasets, as a checkpoint's metadata holds them.
Dict WorkerSession::data_positions() const {
  const std::lock_guard lock(base_mutex_);
  Dict positions = restored_positions_;
  for (const auto& [dataset, position] : data_positions_) {
    // An epoch beyond int64 wraps, and comes back as it was.
    Dict entry{{"epoch", static_cast<std::int64_t>(position.epoch)},
               {"rows", position.rows_consumed}};
    if (position.order) entry["order"] = *position.order;
    positions.insert_or_assign(dataset, std::move(entry));
  }
  for (const auto& [dataset, fitted] : preprocessors_) {
    const Value& position = positions[dataset];
    Dict entry = position.is_dict() ? position.as<Dict>() : Dict();
    entry[kPreprocessorsKey] = fitted;
    positions.insert_or_assign(dataset, std::move(entry));
  }
  return positions;
}

std::string WorkerSession::metadata_json(const Checkpoint::Impl& checkpoint) const {
  Dict metadata = info_.metadata;
  for (const auto& [key, value] : checkpoint.metadata) metadata.insert_or_assign(key, value);
  if (Dict positions = data_positions(); !positions.empty())
    metadata.insert_or_assign(kPositionsKey, std::move(positions));
  const Value whole(std::move(metadata));
  check_depth(whole, "report: the checkpoint's metadata",
              "put such data into a file of the checkpoint");
  std::string json = to_json(whole);
  if (json.size() > kMetadataBytesMax) {
    throw Failure("invalid_argument",
                  fmt::format("report: {} bytes of checkpoint metadata as JSON, at most {} are "
                              "allowed (put large data into a file of the checkpoint)",
                              json.size(), kMetadataBytesMax));
  }
  return json;
}

std::string result_json(const Value& value) {
  check_depth(value, "set_result: the value", "put such data into a file, and its path here");
  return to_json(value);
}

std::string call_json(const Value& value) {
  check_depth(value, "the result of a call", "put such data into a file, and return its path");
  std::string json = to_json(value);
  if (json.size() > kCallValueBytesMax)
    throw Failure("invalid_argument",
                  fmt::format("the result of a call has {} bytes of JSON, and may have {} (put "
                              "such data into a file, and return its path)",
                              json.size(), kCallValueBytesMax));
  return json;
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
