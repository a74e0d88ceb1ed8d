// What samples of many ranks cost a launcher: sample_cost [RANKS [SECONDS [FOLDER]]]. Feeds
// WorkerSamples of all ranks, 8 on a node, for each second through what RunDriver does with them:
// decode, check, judge by the hang detector, collect, and write samples.jsonl and the newest values
// into FOLDER. It does not wait between seconds. Prints the processor time of a second by part, and
// how much memory the process has gained.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/cluster/links/controller_messages.h"
#include "launcher/core/hang_detector.h"
#include "lib/base/text_file.h"
#include "lib/samples/rank_collector.h"
#include "lib/samples/sample_json.h"
#include "lib/samples/sample_log.h"
#include "lib/wire/codec.h"

namespace {

using namespace train;

constexpr int kRanksPerNode = 8;
constexpr std::size_t kNewestBytesPerSecond = 256u << 10;  // as SampleRecorder

double processor_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

double resident_mib() {
  const std::string status = read_text("/proc/self/status");
  const std::size_t at = status.find("VmRSS:");
  return at == status.npos ? 0 : std::atof(status.c_str() + at + 6) / 1024;
}

/// Adds the processor time of what it is asked to run.
struct Timer {
  double seconds = 0;
  template <class Work>
  auto operator()(const Work& work) {
    const double begin = processor_seconds();
    struct End {
      double& seconds;
      double begin;
      ~End() { seconds += processor_seconds() - begin; }
    } const end{seconds, begin};
    return work();
  }
};

RankSample sample_of(int rank, int second) {
  const std::int64_t us = std::int64_t{second} * 1'000'000;
  RankSample sample{.rank = Rank{rank}};
  sample.progress = {.phase = second % 7 == 0 ? Phase::Data : Phase::Collective,
                     .name = "all_reduce",
                     .quiet_us = std::int64_t{1000} * (rank % 400),
                     .signs = static_cast<std::uint64_t>(20 * second + rank % 3),
                     .steps = static_cast<std::uint64_t>(4 * second + rank % 3),
                     .last_step_us = 230'000 + rank % 5000,
                     .collectives = static_cast<std::uint64_t>(40 * second)};
  for (std::size_t phase = 0; phase < kPhases.size(); ++phase)
    sample.progress.intervals.push_back({static_cast<std::uint64_t>(9 * second), us / 13, 400'000});
  sample.process = {.pid = 1'000'000 + rank,
                    .state = rank % 9 == 0 ? "R" : "S",
                    .processes = 3,
                    .threads = 70,
                    .cpu_us = us + us * (rank % 50) / 100,
                    .cpu_wait_us = us / 50,
                    .resident_bytes = std::int64_t{6} << 30 | rank << 12,
                    .read_bytes = us * 30,
                    .written_bytes = us / 9,
                    .context_switches = std::int64_t{second} * 900,
                    .memory_limit = std::int64_t{16} << 30};
  return sample;
}

Frame frame_of(int node, int ranks, int second) {
  WorkerSamples message{.taken_us = std::int64_t{second} * 1'000'000};
  const int first = node * kRanksPerNode;
  for (int rank = first; rank < std::min(first + kRanksPerNode, ranks); ++rank)
    message.ranks.push_back(sample_of(rank, second));
  return encode(message, Attempt{0});
}

RankTable table_of(int ranks, NodePool& nodes) {
  Placement placement;
  placement.world_size = ranks;
  for (int first = 0; first < ranks; first += kRanksPerNode) {
    const NodeId node{first / kRanksPerNode};
    PlacedNode& placed = placement.nodes.emplace_back();
    placed.node = node;
    placed.first_rank = Rank{first};
    placed.local_world_size = std::min(kRanksPerNode, ranks - first);
    nodes.up(NodeUp{.capacity = {.node = node,
                                 .name = fmt::format("node-{:04}", node.value),
                                 .total = {},
                                 .free = {}},
                    .address = "a"});
  }
  RankTable table(placement);
  for (int rank = 0; rank < ranks; ++rank)
    table.change(Rank{rank}, [](auto& entry) { entry.joined = true; });
  return table;
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 10'000;
  const int length = argc > 2 ? std::max(std::atoi(argv[2]), 1) : 600;
  const std::string folder = argc > 3 ? argv[3] : "/tmp/sample_cost";
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/samples.jsonl", newest = folder + "/.samples.now.jsonl";
  std::filesystem::remove(path);
  const int frames = (ranks + kRanksPerNode - 1) / kRanksPerNode;
  NodePool nodes(static_cast<std::size_t>(frames));
  const RankTable table = table_of(ranks, nodes);
  for (int node = 0; node < frames; ++node) (void)frame_of(node, ranks, 0);  // warm
  ::malloc_trim(0);
  const double before = resident_mib();
  HangDetector detector{FailureConfig{}};
  RankCollector collector;
  SampleLog log(path);
  Timer decode, judge, collect, write, show;
  std::size_t newest_bytes = 0, largest = 0;
  int next_newest = 0;
  double most = 0;
  for (int second = 1; second <= length; ++second) {
    const TimePoint now{seconds(second)};
    for (int node = 0; node < frames; ++node) {
      const Frame frame = frame_of(node, ranks, second);  // the node's work
      RanksSampled event = decode([&] {
        auto message = decode_node_message(frame, ranks);
        auto& samples = std::get<WorkerSamples>(*message);
        return to_event({Attempt{0}, NodeId{node}}, std::move(samples));
      });
      collect([&] {
        collector.sampled(event.attempt, fmt::format("node-{:04}", node),
                          std::int64_t{second} * 1'000'000, event.ranks, now);
      });
      judge([&] {
        for (const RankSample& sample : event.ranks) detector.sampled(sample, now);
      });
    }
    judge([&] { (void)detector.judge(table, nodes, now); });
    const std::int64_t wall_ms = 1'800'000'000'000 + 1000 * std::int64_t{second};
    auto kept = collect([&] { return collector.kept(now, wall_ms); });
    write([&] {
      for (SampleTable& one : kept)
        if (const auto added = log.add(std::move(one)); added.has_error())
          fmt::print(stderr, "{}\n", added.error().describe());
    });
    if (second >= next_newest) {
      show([&] {
        std::string text;
        append_sample_line(text, collector.newest(now, wall_ms));
        newest_bytes = text.size();
        if (const auto put = replace_unsynced(newest, text); put.has_error())
          fmt::print(stderr, "{}\n", put.error().describe());
      });
      next_newest =
          second + std::max<int>(1, static_cast<int>(newest_bytes / kNewestBytesPerSecond));
    }
    largest = std::max<std::size_t>(
        largest, std::filesystem::exists(path) ? std::filesystem::file_size(path) : 0);
    most = std::max(most, resident_mib());
  }
  const auto percent = [length](const Timer& timer) { return 100 * timer.seconds / length; };
  fmt::print(
      "{} ranks, {} s; of a core: decode {:.2f} %, hang detector {:.2f} %, collect {:.2f} %, "
      "samples.jsonl {:.2f} %, newest values {:.2f} %; together {:.2f} %\n",
      ranks, length, percent(decode), percent(judge), percent(collect), percent(write),
      percent(show),
      percent(decode) + percent(judge) + percent(collect) + percent(write) + percent(show));
  fmt::print(
      "memory: {:.1f} MiB more than before, at most; samples.jsonl {:.1f} MiB at most, "
      "newest values {:.2f} MiB\n",
      most - before, static_cast<double>(largest) / (1 << 20),
      static_cast<double>(newest_bytes) / (1 << 20));
  return 0;
}
