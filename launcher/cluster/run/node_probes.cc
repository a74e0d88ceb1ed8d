#include "launcher/cluster/run/node_probes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <ctime>

#include "launcher/core/ssh_failure.h"
#include "lib/stacks/run_program.h"
#include "lib/storage/own_folder.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

namespace json = boost::json;

constexpr Duration kLimit = seconds(180);
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
  return found;
}

/// Return the line of the summary that says how the run has ended, or what was said last.
std::string why_failed(std::string_view output, const std::string& name, std::string_view errors) {
  const std::size_t at = output.rfind("\n" + name + " ");
  if (at != std::string_view::npos) output.remove_prefix(at + 1);
  const std::string line = last_line_of(output.substr(0, output.find('\n')));
  return line.starts_with(name + " ") ? line : last_line_of(errors);
}

}  // namespace

std::map<std::string, NodeProbe> read_probes(std::string_view output) {
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
  std::map<std::string, NodeProbe> probes;
  for (const auto& [node, report] : all) {
    NodeProbe& probe = probes[node];
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

Result<std::map<std::string, NodeProbe>> probe_nodes(const std::string& program,
                                                     const JobSpec& spec,
                                                     const std::vector<std::string>& nodes) {
  const std::string name = fmt::format("check-{}-{}", std::time(nullptr), ::getpid());
  const ProgramOrder order{.words = probe_command(program, spec, nodes, name),
                           .bytes_max = kOutputBytesMax};
  const auto ran = run_program(order, std::chrono::steady_clock::now() + kLimit);
  (void)remove_folder_tree(join_path(spec.run_config.storage_path, name));
  if (!ran) return ran.error();
  auto probes = read_probes(ran->text);
  if (!ran->trouble.empty() && probes.empty())
    return Error{Errc::Unavailable,
                 fmt::format("{} ({})", why_failed(ran->text, name, ran->errors), ran->trouble),
                 "run any job there, such as: train-run -n 2 --hosts … -- hostname"};
  return probes;
}

}  // namespace train
