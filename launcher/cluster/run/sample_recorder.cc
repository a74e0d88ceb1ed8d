#include "launcher/cluster/run/sample_recorder.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include "lib/model/gpu_share.h"
#include "lib/net/blocking.h"
#include "lib/net/within.h"
#include "lib/samples/sample_json.h"

namespace train {
namespace {

constexpr Duration kRecordEvery = seconds(1);
constexpr Duration kNodesEvery = seconds(2);  // nodes tell no more often
constexpr std::int64_t kNewestBytesPerSecondMax = 256 << 10;

/// Add the space of the run's folder, as we see it. May block.
void add_space(SampleTable& nodes, const std::string& folder) {
  struct statvfs space {};
  if (::statvfs(folder.c_str(), &space) != 0) return;
  const auto add = [&](std::string_view field, auto blocks) {
    const double bytes = static_cast<double>(blocks) * static_cast<double>(space.f_frsize);
    nodes.columns.push_back({.field = find_sample_field(nodes.kind, field),
                             .numbers = std::vector<double>(nodes.rows.size(), bytes)});
  };
  add("run_free", space.f_bavail);
  add("run_size", space.f_blocks);
}

/// Return how long nothing newer is written after so many bytes: less than a second of all but very
/// many ranks.
Duration time_for(std::size_t bytes) {
  const Duration time =
      Duration(seconds(1)) * static_cast<std::int64_t>(bytes) / kNewestBytesPerSecondMax;
  return time - kRecordEvery / 2;
}

}  // namespace

/// What the threads that write share. A second one follows only at the end of the run.
struct SampleRecorder::Files {
  std::mutex writing;
  explicit Files(const RunFolder& folder)
      : log(folder.samples()), folder(folder.path()), newest(folder.newest_samples()) {}
  SampleLog log;
  const std::string folder, newest;
  std::size_t newest_bytes = 0;     // of the newest that was written
  std::string newest_without_data;  // what was written of everything but datasets
};

SampleRecorder::SampleRecorder(const Clock& clock, UserMessages& messages, const RunFolder& folder,
                               OnDataBound on_data_bound)
    : clock_(clock),
      messages_(messages),
      on_data_bound_(std::move(on_data_bound)),
      files_(std::make_shared<Files>(folder)) {}

void SampleRecorder::sampled(const std::string& node, std::int64_t taken_us,
                             const RanksSampled& event) {
  ranks_.sampled(event.attempt, node, taken_us, event.ranks, clock_.now());
}

void SampleRecorder::data_sampled(Attempt attempt, const DataSamples& message) {
  data_.sampled(attempt, message.taken_us, message.ranks, clock_.now());
}

void SampleRecorder::ended(Attempt attempt, Rank rank) {
  ranks_.ended(attempt, rank);
  data_.ended(attempt, rank);
}

std::optional<DataVerdict> SampleRecorder::whole_run() const {
  const auto table = data_.whole_run();
  return table ? data_verdict(*table) : std::nullopt;
}

/// Judge the newest values of the datasets, and add them to what is written.
void SampleRecorder::add_data(Second& second, TimePoint now, std::int64_t wall_ms) {
  if (auto kept = data_.kept(now, wall_ms)) second.kept.push_back(std::move(*kept));
  auto newest = data_.newest(now, wall_ms);
  const auto verdict = newest ? data_verdict(*newest) : std::nullopt;
  if (newest && !second.newest.empty()) second.newest.push_back(std::move(*newest));
  if (const auto change = data_bound_.judged(verdict, now)) on_data_bound_(*change);
}

void SampleRecorder::placed(const Placement& placement, const ScalingConfig& scaling,
                            const std::vector<std::string>& node_names) {
  gpu_users_.clear();
  if (placement.other_roles.empty()) return;
  for (const PlacedNode& node : placement.nodes) {
    const auto at = static_cast<std::size_t>(node.node_rank.value);
    if (at >= node_names.size()) continue;
    std::vector<GpuUsers>& groups = gpu_users_[node_names[at]];
    std::size_t first = 0;
    const auto add = [&](Rank from, int workers, double gpus) {
      GpuUsers users{.gpus = {first, gpus_for(gpus, workers)}};
      for (int i = 0; i < workers; ++i) users.ranks.push_back(from.value + i);
      first += users.gpus.count;
      groups.push_back(std::move(users));
    };
    add(node.first_rank, node.local_world_size, scaling.resources_per_worker.gpu);
    for (const PlacedRole& other : node.others) {
      const auto role = static_cast<std::size_t>(other.role) - 1;
      if (role >= scaling.other_roles.size()) continue;
      add(other.first_rank, other.workers, scaling.other_roles[role].resources_per_worker.gpu);
    }
  }
}

std::vector<std::string> SampleRecorder::node_told(const std::string& node, NodeStatus status) {
  const TimePoint now = clock_.now();
  const std::vector<std::int32_t> ranks = ranks_.ranks_on(node);
  NodeTold told{.taken_us = status.taken_us,
                .node = status.node,
                .gpus = std::move(status.gpus),
                .granted = std::move(status.granted)};
  std::vector<std::string> troubles;
  const auto of_roles = gpu_users_.find(node);
  const std::vector<GpuUsers> groups =
      of_roles != gpu_users_.end() ? of_roles->second : std::vector{GpuUsers{ranks}};
  for (const GpuSample& gpu : nodes_.sampled(node, std::move(told), now).gpus) {
    std::string users;
    for (const GpuUsers& group : groups)
      if (users.empty()) users = nodes_.ranks_of_gpu(node, gpu.gpu, group.ranks, group.gpus);
    if (users.empty()) continue;
    for (std::string& trouble : troubles_.sampled(node, users, gpu))
      troubles.push_back(std::move(trouble));
  }
  return troubles;
}

SampleRecorder::Second SampleRecorder::take() {
  const TimePoint now = clock_.now();
  const std::int64_t wall_ms =
      std::chrono::duration_cast<milliseconds>(clock_.wall().time_since_epoch()).count();
  Second second{.kept = ranks_.kept(now, wall_ms)};
  // Once no rank lives, the files keep what was known last.
  if (second.kept.empty()) return second;
  if (now >= next_newest_) second.newest.push_back(ranks_.newest(now, wall_ms));
  add_data(second, now, wall_ms);
  if (second.newest.empty() && now < next_nodes_) return second;
  const auto ranks_on = [this](const std::string& node) { return ranks_.ranks_on(node); };
  const auto tables =
      nodes_.newest(now, wall_ms, std::chrono::duration_cast<milliseconds>(kNodesEvery).count(),
                    ranks_.attempt().value, ranks_on);
  if (!second.newest.empty())
    second.newest.insert(second.newest.end(), tables.begin(), tables.end());
  if (now >= next_nodes_) {
    second.kept.insert(second.kept.end(), tables.begin(), tables.end());
    next_nodes_ = now + kNodesEvery - kRecordEvery / 2;
  }
  return second;
}

Result<Unit> SampleRecorder::write(Files& files, Second second) {
  const std::lock_guard lock(files.writing);
  Result<Unit> written = Unit{};
  for (std::vector<SampleTable>* tables : {&second.kept, &second.newest})
    for (SampleTable& table : *tables)
      if (table.kind == SampleKind::Nodes) add_space(table, files.folder);
  for (SampleTable& table : second.kept)
    if (auto added = files.log.add(std::move(table)); added.has_error()) written = std::move(added);
  if (second.newest.empty()) return written;
  std::string text;
  files.newest_without_data.clear();
  for (const SampleTable& table : second.newest) {
    append_sample_line(text, table);
    if (table.kind != SampleKind::Data) append_sample_line(files.newest_without_data, table);
  }
  files.newest_bytes = text.size();
  if (auto put = replace_unsynced(files.newest, text); put.has_error()) written = std::move(put);
  return written;
}

asio::awaitable<void> SampleRecorder::run() {
  for (;;) {
    const auto woken = co_await pause_for(kRecordEvery);
    if (!woken) co_return;
    Second second = take();
    if (second.kept.empty()) continue;
    const bool has_newest = !second.newest.empty();
    std::function<Result<Unit>()> work = [files = files_, second = std::move(second)] {
      return write(*files, second);
    };
    auto writing = run_unjoined<Unit>(std::move(work));
    const auto written = co_await std::move(writing);
    if (written.has_error() && written.error().code == Errc::Cancelled) co_return;
    if (written.has_error() && !std::exchange(warned_, true))
      messages_.warn("what is measured of the ranks is not kept: " + written.error().describe());
    if (has_newest) next_newest_ = clock_.now() + time_for(files_->newest_bytes);
  }
}

std::function<void()> SampleRecorder::last_write() const {
  auto data = data_.whole_run();
  if (data) {
    data->end_ms =
        std::chrono::duration_cast<milliseconds>(clock_.wall().time_since_epoch()).count();
    data->attempt = ranks_.attempt().value;
  }
  return [files = files_, data = std::move(data)] {
    const std::lock_guard lock(files->writing);
    (void)files->log.flush();
    if (!data || files->newest_without_data.empty()) return;
    std::string text = files->newest_without_data;
    append_sample_line(text, *data);
    (void)replace_unsynced(files->newest, text);
  };
}

}  // namespace train
