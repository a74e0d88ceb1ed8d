#include "tests/chaos/checker.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "daemon/server/supervisor_files.h"
#include "daemon/supervisor/limits/cgroup.h"
#include "lib/storage/checkpoint_store.h"
#include "lib/storage/posix_file_system.h"
#include "tests/chaos/steps.h"

namespace train::chaos {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kSaidAtMost = 20;  // of each kind: the first ones suffice
constexpr double kGoneLimit = kOrphanTimeout + 15;

struct Line {
  int rank = 0, attempt = 0;
  std::int64_t report_seq = 0, step = 0;
  std::string state;
};

std::int64_t number(const boost::json::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  if (value == nullptr) return -1;
  return value->is_int64()    ? value->as_int64()
         : value->is_uint64() ? static_cast<std::int64_t>(value->as_uint64())
                              : -1;
}

std::vector<Line> log_of(const e2e::Cluster& cluster) {
  std::vector<Line> lines;
  for (const boost::json::object& object : cluster.metrics(kRun)) {
    const boost::json::object& metrics = object.at("metrics").as_object();
    lines.push_back({static_cast<int>(number(object, "rank")),
                     static_cast<int>(number(object, "attempt")), number(object, "report_seq"),
                     number(metrics, "epoch"), e2e::text_of(metrics, "state")});
  }
  return lines;
}

// Return the states, indexed by step: states[s] is the state after step s.
std::vector<std::uint64_t> states_of(std::int64_t steps) {
  std::vector<std::uint64_t> states;
  std::uint64_t state = 0;
  for (std::int64_t step = 0; step < steps; ++step)
    states.push_back(state = after_step(state, step));
  return states;
}

class ResultCheck {
 public:
  ResultCheck(World& world, Findings& findings)
      : world_(world),
        cluster_(world.cluster()),
        findings_(findings),
        states_(states_of(world.shape().steps)),
        log_(log_of(world.cluster())) {}

  void run() {
    check_end();
    check_log();
    check_coverage();
    check_restores();
    check_checkpoints();
  }

 private:
  template <class... Args>
  void broken(fmt::format_string<Args...> format, Args&&... args) {
    if (findings_.breaks.size() < kSaidAtMost)
      findings_.breaks.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void check_end() {
    if (world_.shape().pace != 0 && !e2e::exists(cluster_.path("acknowledged")))
      broken("the driver has acknowledged nothing");
    if (world_.exit_code() != 0) broken("the run ended with exit code {}", world_.exit_code());
    if (!e2e::exists(cluster_.run_dir(kRun) + "/exit.json")) return broken("there is no exit.json");
    const boost::json::object exit = cluster_.exit_json(kRun);
    const std::string result = e2e::text_of(exit, "result");
    if (e2e::text_of(exit, "code") != "0")
      broken("exit.json has code {}", e2e::text_of(exit, "code"));
    if (result != state_text(states_.back()))
      broken("the result is {}, without faults it is {}", result, state_text(states_.back()));
  }

  // Check that each rank of each attempt logged every report once, in order, with the right state.
  void check_log() {
    std::map<std::pair<int, int>, Line> last;
    for (const Line& line : log_) {
      if (line.step < 0 || line.step >= world_.shape().steps ||
          line.state != state_text(states_[static_cast<std::size_t>(line.step)])) {
        broken("attempt {}, rank {}: state {} after step {}", line.attempt, line.rank, line.state,
               line.step);
      }
      const auto [found, first] = last.try_emplace({line.attempt, line.rank}, line);
      const Line before = std::exchange(found->second, line);
      const std::int64_t due = first ? 1 : before.report_seq + 1;
      if (line.report_seq != due)
        broken("attempt {}, rank {}: report {} where {} is due", line.attempt, line.rank,
               line.report_seq, due);
      if (!first && line.step != before.step + 1)
        broken("attempt {}, rank {}: step {} after step {}", line.attempt, line.rank, line.step,
               before.step);
    }
  }

  void check_coverage() {
    std::set<std::int64_t> steps;
    std::int64_t reports = 0;
    int newest = -1;
    for (const Line& line : log_) {
      newest = std::max(newest, line.attempt);
      if (line.rank != 0) continue;
      ++reports;
      steps.insert(line.step);
    }
    findings_.attempts = newest + 1;
    findings_.repeated_steps = reports - static_cast<std::int64_t>(steps.size());
    for (std::int64_t step = 0; step < world_.shape().steps; ++step)
      if (!steps.contains(step)) broken("rank 0 never reported step {}", step);
    std::set<int> ranks, finished;
    for (const Line& line : log_) {
      if (line.attempt != newest) continue;
      ranks.insert(line.rank);
      if (line.step + 1 == world_.shape().steps) finished.insert(line.rank);
    }
    if (ranks != finished)
      broken("of {} ranks of the last attempt {} reported the last step", ranks.size(),
             finished.size());
  }

  // Check that each attempt begins from the checkpoint that was newest at its start.
  void check_restores() {
    std::map<int, std::int64_t> first_steps;
    for (const Line& line : log_) {
      const auto [found, first] = first_steps.try_emplace(line.attempt, line.step);
      if (line.report_seq == 1 && line.step != found->second)
        broken("attempt {}: rank {} begins with step {}, others with {}", line.attempt, line.rank,
               line.step, found->second);
    }
    std::int64_t newest = 0;
    for (const boost::json::object& event : cluster_.journal(kRun)) {
      const std::string what = e2e::text_of(event, "event");
      if (what == "checkpoint_committed") {
        newest = std::max(newest, number(event, "checkpoint"));
        if (number(event, "trained_epoch") < 0)
          broken("checkpoint {} does not know its epoch", number(event, "checkpoint"));
      }
      if (what != "attempt_started") continue;
      const int attempt = static_cast<int>(number(event, "attempt"));
      const auto* restore = event.if_contains("restore");
      const bool fresh = restore == nullptr || !restore->is_object();
      const std::int64_t restored = fresh ? 0 : number(restore->as_object(), "number");
      const std::int64_t begin = fresh ? 0 : number(restore->as_object(), "trained_epoch") + 1;
      if (restored < newest)
        broken("attempt {} began from checkpoint {}, the newest was {}", attempt, restored, newest);
      const auto first = first_steps.find(attempt);
      if (first != first_steps.end() && first->second != begin)
        broken("attempt {} began with step {}, its checkpoint says {}", attempt, first->second,
               begin);
    }
  }

  void check_checkpoints() {
    PosixFileSystem files;
    const CheckpointStore store(files, cluster_.run_dir(kRun) + "/checkpoints");
    const auto listed = store.list();
    if (!listed) return broken("checkpoints: {}", listed.error().describe());
    if (listed->empty()) return broken("there is no checkpoint");
    for (const ListedCheckpoint& one : *listed) {
      const auto manifest = verify_checkpoint(files, one.path);
      if (!manifest) {
        broken("{}: {}", one.path, manifest.error().describe());
        continue;
      }
      check_content(one.path, *manifest, one.number == listed->back().number);
    }
  }

  void check_content(const std::string& path, const Manifest& manifest, bool is_newest) {
    if (static_cast<int>(manifest.files.size()) != manifest.world_size)
      broken("{}: {} files of {} ranks", path, manifest.files.size(), manifest.world_size);
    for (const ManifestFile& file : manifest.files) {
      boost::system::error_code ec;
      const auto value = boost::json::parse(cluster_.read(path + "/" + file.path), ec);
      const std::int64_t step = ec || !value.is_object() ? -1 : number(value.as_object(), "step");
      if (step < 0 || step >= world_.shape().steps ||
          e2e::text_of(value.as_object(), "state") !=
              state_text(states_[static_cast<std::size_t>(step)]))
        broken("{}/{} holds what no step made", path, file.path);
      else if (is_newest && step + 1 != world_.shape().steps)
        broken("{}/{}: the newest checkpoint is of step {}", path, file.path, step);
    }
  }

  World& world_;
  e2e::Cluster& cluster_;
  Findings& findings_;
  const std::vector<std::uint64_t> states_;
  const std::vector<Line> log_;
};

bool is_socket(const fs::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
}

std::vector<std::string> entries_of(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(folder, ec))
    names.push_back(entry.path().string());
  return names;
}

std::string run_id_of(const e2e::Cluster& cluster) {
  for (const boost::json::object& event : cluster.journal(kRun))
    if (event.contains("run_id")) return e2e::text_of(event, "run_id");
  return "";
}

std::vector<std::string> left_of_run(World& world, int attempts) {
  std::vector<std::string> left;
  for (const e2e::Seen& seen : world.cluster().processes(" supervise "))
    left.push_back(fmt::format("process {}: {}", seen.pid, seen.command));
  for (const e2e::Seen& seen : world.cluster().workers())
    left.push_back(fmt::format("process {}: {}", seen.pid, seen.command));
  const std::string run_id = run_id_of(world.cluster());
  for (int node = 0; node < Shape::kNodes; ++node) {
    for (const auto& files : list_supervisor_files(world.runtime_dir(node), world.spool_dir(node)))
      left.push_back(files.socket);
    for (const std::string& spool : entries_of(world.spool_dir(node))) left.push_back(spool);
    for (int attempt = 0; attempt < attempts; ++attempt) {
      const SupervisorFiles files =
          supervisor_files(world.runtime_dir(node), world.spool_dir(node),
                           {run_id, Attempt{static_cast<std::uint32_t>(attempt)}}, ::geteuid());
      if (const auto cgroup = Cgroup::existing(files.cgroup))
        left.push_back(fmt::format("{} of n{}, attempt {}", cgroup->path(), node, attempt));
    }
  }
  for (const std::string& entry : entries_of(world.cluster().run_dir(kRun) + "/checkpoints"))
    if (!fs::path(entry).filename().string().starts_with("checkpoint_")) left.push_back(entry);
  return left;
}

int attempts_in_journal(const e2e::Cluster& cluster) {
  std::int64_t newest = -1;
  for (const boost::json::object& event : cluster.journal(kRun))
    if (e2e::text_of(event, "event") == "attempt_started")
      newest = std::max(newest, number(event, "attempt"));
  return static_cast<int>(newest + 1);
}

}  // namespace

void check_results(World& world, Findings& findings) { ResultCheck(world, findings).run(); }

void check_leftovers(World& world, Findings& findings) {
  const int attempts = attempts_in_journal(world.cluster());
  findings.attempts = std::max(findings.attempts, attempts);
  std::vector<std::string> left;
  (void)e2e::wait_until(
      [&] {
        (void)world.tick();  // a traind that comes back also reaps leftovers
        left = left_of_run(world, attempts);
        return left.empty();
      },
      e2e::Seconds(kGoneLimit));
  findings.leftovers.insert(findings.leftovers.end(), left.begin(), left.end());
  for (const e2e::Seen& seen : world.take_down())
    findings.leftovers.push_back(fmt::format("process {}: {}", seen.pid, seen.command));
  for (int node = 0; node < Shape::kNodes; ++node) {
    for (const std::string& entry : entries_of(world.runtime_dir(node))) {
      const bool of_next_traind = entry.ends_with("/control.sock");  // the next traind replaces it
      if (is_socket(entry) && !of_next_traind) findings.leftovers.push_back(entry);
    }
  }
}

}  // namespace train::chaos
