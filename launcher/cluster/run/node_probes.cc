#include "launcher/cluster/run/node_probes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cerrno>
#include <random>
#include <utility>

#include "launcher/cluster/children/child_run.h"
#include "launcher/core/ssh_failure.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/stop_signals.h"
#include "lib/storage/own_folder.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

namespace json = boost::json;

constexpr Duration kLimit = seconds(180);
constexpr Duration kStopLimit = seconds(30);  // to stop in good order
constexpr int kRanksMax = 16'384;
constexpr std::size_t kOutputBytesMax = 16u << 20;

// A supervisor's child still runs its program, traind, when it starts the command.
constexpr const char* kTraind = "/proc/self/exe";

struct Told {
  std::string node;
  json::object report;
};

/// Parse "@n1 {...}"; nothing for another line.
std::optional<Told> told_in(std::string_view line) {
  if (!line.starts_with('@')) return std::nullopt;
  const std::size_t brace = line.find(" {");
  if (brace == std::string_view::npos) return std::nullopt;
  boost::system::error_code error;
  json::value value = json::parse(line.substr(brace + 1), error);
  if (error || !value.is_object() || !value.as_object().contains("probe")) return std::nullopt;
  return Told{std::string(line.substr(1, brace - 1)), std::move(value.as_object())};
}

std::optional<std::int64_t> whole(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_int64() ? std::optional(value->as_int64()) : std::nullopt;
}

std::optional<double> real(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  boost::system::error_code error;
  if (value == nullptr || !value->is_number()) return std::nullopt;
  const double number = value->to_number<double>(error);
  return error ? std::nullopt : std::optional(number);
}

std::string text(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
}

std::vector<std::string> names(const json::object& object, const char* key,
                               const std::map<std::int64_t, std::string>& nodes) {
  std::vector<std::string> found;
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_array()) return found;
  for (const json::value& rank : value->as_array()) {
    const auto node = rank.is_int64() ? nodes.find(rank.as_int64()) : nodes.end();
    found.push_back(node == nodes.end() ? "rank " + json::serialize(rank) : node->second);
  }
  // A long list is cut, and says how long it was.
  const std::int64_t in_all = whole(object, (key + std::string("_in_all")).c_str()).value_or(0);
  const auto count = static_cast<std::size_t>(std::clamp<std::int64_t>(in_all, 0, kRanksMax));
  if (count > found.size()) found.resize(count, "another");
  return found;
}

/// Return the line of the summary that says how the run has ended, or what was said last.
std::string why_failed(std::string_view output, const std::string& name, std::string_view errors) {
  const std::size_t at = output.rfind("\n" + name + " ");
  if (at != std::string_view::npos) output.remove_prefix(at + 1);
  const std::string line = last_line_of(output.substr(0, output.find('\n')));
  return line.starts_with(name + " ") ? line : last_line_of(errors);
}

struct Ended {
  std::string how = {};  // "ended with 69"; empty: well
  std::string output = {}, errors = {}, run_id = {};
  int signal = 0;
};

/// Take what has come; what is too much is passed over.
void read_output(FileDescriptor& from, std::string& output) {
  std::array<char, 64u << 10> buffer{};
  while (from.get() >= 0) {
    const ssize_t count = ::read(from.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) from.reset();
    if (count <= 0) return;
    const auto size = static_cast<std::size_t>(count);
    output.append(buffer.data(), std::min(size, kOutputBytesMax - output.size()));
  }
}

std::string how_of(const ChildRun::End& end, bool late) {
  if (late) return "did not end in time, and was stopped";
  if (end.killed) return fmt::format("was killed by signal {}", end.code - 128);
  return end.code == 0 ? "" : fmt::format("ended with {}", end.code);
}

/// Run it until it ends. If it takes too long, or if we are asked to stop, ask it to stop in good
/// order, and kill it if it does not.
Result<Ended> run_to_end(const std::vector<std::string>& words,
                         const std::vector<std::string>& variables) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return system_error(errno, "making a pipe");
  FileDescriptor output(pipe[0]), theirs(pipe[1]);
  ::fcntl(output.get(), F_SETFL, O_NONBLOCK);
  const StopSignals signals;
  TRY(auto child, ChildRun::start(words, variables, theirs.get()));
  theirs.reset();
  Ended ended;
  bool late = false, asked = false;
  TimePoint deadline = std::chrono::steady_clock::now() + kLimit;
  const auto ask = [&] {
    child.send_signal(SIGTERM);
    if (!std::exchange(asked, true)) deadline = std::chrono::steady_clock::now() + kStopLimit;
  };
  for (;;) {
    const auto end = child.ended();  // first: what it has told is there then
    read_output(output, ended.output);
    for (const json::object& event : child.take_events())
      if (text(event, "event") == "run") ended.run_id = text(event, "run_id");
    ended.errors = child.said();
    if (end) {
      ended.how = how_of(*end, late);
      return ended;
    }
    if (const int number = signals.take(); number != 0) {
      ended.signal = number;
      ask();
    } else if (std::chrono::steady_clock::now() > deadline) {
      late = true;
      if (asked) child.send_signal(SIGKILL);
      ask();
    }
    std::array<pollfd, 5> ready{{{signals.fd(), POLLIN, 0},
                                 {output.get(), POLLIN, 0},
                                 {child.socket(), POLLIN, 0},
                                 {child.errors(), POLLIN, 0},
                                 {child.process(), POLLIN, 0}}};
    ::poll(ready.data(), ready.size(), 1000);
  }
}

}  // namespace

NodeProbes read_probes(std::string_view output) {
  std::vector<Told> all;
  std::map<std::int64_t, std::string> nodes;
  while (!output.empty()) {
    const std::string_view line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(output.size(), line.size() + 1));
    auto told = told_in(line);
    if (!told) continue;
    nodes[whole(told->report, "rank").value_or(-1)] = told->node;
    all.push_back(std::move(*told));
  }
  NodeProbes probes;
  for (const auto& [node, report] : all) {
    NodeProbe& probe = probes[node].emplace_back();
    probe.error = text(report, "error");
    probe.absent = names(report, "absent", nodes);
    probe.unreachable = names(report, "unreachable", nodes);
    probe.storage_missing = names(report, "storage_missing", nodes);
    probe.clock_ms = real(report, "clock_ms");
    probe.clock_within_ms = real(report, "clock_within_ms");
    probe.sum_ms = real(report, "sum_ms");
    probe.locked_memory = whole(report, "locked_memory").value_or(-1);
    probe.storage_error = text(report, "storage_error");
  }
  return probes;
}

std::vector<std::string> probe_command(const std::string& program, const JobSpec& spec,
                                       const std::vector<std::string>& nodes,
                                       const std::string& name) {
  std::vector<std::string> words{program, "run", "--output", "text", "--no-fold"};
  const auto add = [&](std::initializer_list<std::string> more) {
    words.insert(words.end(), more);
  };
  const auto set = [&](const char* key, const std::string& value) {
    add({"--set", fmt::format("{}={}", key, json::serialize(json::value(value)))});
  };
  add({"--log-line-prefix", "@${node} ", "--name", name});
  add({"--storage", spec.run_config.storage_path});
  add({"--num-workers", fmt::format("{}", nodes.size()), "--cpus", "0", "--gpus", "0"});
  add({"--max-failures", "0", "--no-slurm", "--set",
       "scaling_config.placement_strategy=STRICT_SPREAD"});
  add({"--set", "run_config.failure_config.orphan_timeout=10s"});
  add({"--driver-fd", "{FD}", "--on-driver-exit", "stop"});
  if (!nodes.empty()) add({"--hosts", fmt::format("{}", fmt::join(nodes, ","))});
  if (!spec.cluster.token_file.empty()) add({"--token-file", spec.cluster.token_file});
  if (!spec.cluster.tls.empty()) add({"--tls", spec.cluster.tls});
  if (spec.cluster.ssh.traind) set("cluster.ssh.traind", *spec.cluster.ssh.traind);
  if (!spec.cluster.ssh.config_file.empty())
    set("cluster.ssh.config", spec.cluster.ssh.config_file);
  if (spec.run_config.user) set("run_config.user", *spec.run_config.user);
  add({"--", kTraind, "probe", spec.run_config.storage_path});
  return words;
}

Result<Probed> probe_nodes(const std::string& program, const JobSpec& spec,
                           const std::vector<std::string>& nodes,
                           const std::vector<std::string>& variables) {
  std::random_device random;  // nobody else makes a folder of this name
  const std::string name = fmt::format("check-{:08x}{:08x}", random(), random());
  const auto ended = run_to_end(probe_command(program, spec, nodes, name), variables);
  const std::string& storage = spec.run_config.storage_path;
  (void)remove_folder_tree(join_path(storage, name));
  if (!ended) return ended.error();
  // Probes that were killed leave theirs.
  if (!ended->run_id.empty())
    (void)remove_folder_tree(join_path(storage, ".check-" + ended->run_id));
  Probed probed{.probes = read_probes(ended->output), .signal = ended->signal};
  if (!ended->how.empty())
    probed.trouble =
        fmt::format("{} ({})", why_failed(ended->output, name, ended->errors), ended->how);
  if (!probed.trouble.empty() && probed.probes.empty() && probed.signal == 0)
    return Error{Errc::Unavailable, probed.trouble,
                 "run any job there, such as: train-run -n 2 --hosts … -- hostname"};
  return probed;
}

}  // namespace train
