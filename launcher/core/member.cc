#include "launcher/core/member.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <climits>

#include "launcher/core/slurm_allocation.h"

namespace train {
namespace {

constexpr std::uint32_t kPortFirst = 20'000, kPorts = 12'000;  // below the system's own ports

Error wrong(std::string message, std::string hint = "") {
  return {Errc::InvalidArgument, std::move(message), std::move(hint)};
}

Result<std::int64_t> number(std::string_view text, std::string_view name, std::int64_t most) {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0 || value > most)
    return wrong(
        fmt::format("{} is '{}', not a number from 0 to {}", name, text.substr(0, 64), most));
  return value;
}

const std::string* variable(const MemberEnvironment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() || found->second.empty() ? nullptr : &found->second;
}

/// Return the name up to its first dot: "n1" for "n1.cluster".
std::string_view short_name(std::string_view name) { return name.substr(0, name.find('.')); }

bool is_number(std::string_view name) {
  return name.find_first_not_of("0123456789.") == std::string_view::npos ||
         name.find(':') != std::string_view::npos;
}

/// Return whether two names of hosts are one: one of them may lack the domain.
bool same_name(std::string_view a, std::string_view b) {
  if (a == b) return true;
  const bool whole = short_name(a) != a && short_name(b) != b;
  return !whole && short_name(a) == short_name(b);
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

}  // namespace

Result<MemberSource> parse_member_source(std::string_view text) {
  constexpr const char* kHint = "write dns:NAME[:PORT], hosts:FILE or slurm";
  const std::string_view kind = text.substr(0, text.find(':'));
  const bool has_value = kind.size() < text.size();
  const std::string_view value = has_value ? text.substr(kind.size() + 1) : "";
  MemberSource source;
  if (kind == "dns") {
    auto dns = parse_dns_name(value);
    if (!dns) return wrong(fmt::format("--member {}: it {}", text, dns.error().message), kHint);
    source.dns = std::move(*dns);
    return source;
  }
  if (kind == "hosts") {
    source.kind = MemberSource::Kind::Hosts;
    source.hosts_file = value;
    if (value.empty()) return wrong(fmt::format("--member {} names no file", text), kHint);
    return source;
  }
  if (kind == "slurm") {
    source.kind = MemberSource::Kind::Slurm;
    if (!has_value) return source;
    const auto port = number(value, "its port", 65535);
    if (!port || *port == 0)
      return wrong(fmt::format("--member {}: it has no port from 1 to 65535", text), kHint);
    source.port = static_cast<std::uint16_t>(*port);
    return source;
  }
  return wrong(fmt::format("--member {} is not known", text), kHint);
}

Result<int> member_index(const MemberEnvironment& environment) {
  for (const char* name : {"JOB_COMPLETION_INDEX", "SLURM_PROCID"}) {
    const std::string* text = variable(environment, name);
    if (text == nullptr) continue;
    TRY(const std::int64_t index, number(*text, name, INT_MAX));
    return static_cast<int>(index);
  }
  return Error{Errc::NotFound,
               "this member cannot tell its index: neither JOB_COMPLETION_INDEX (of an indexed Job "
               "of Kubernetes) nor SLURM_PROCID is set",
               "set JOB_COMPLETION_INDEX to another number on each node, from 0 on; in a "
               "StatefulSet: JOB_COMPLETION_INDEX=${HOSTNAME##*-}"};
}

Result<SlurmMember> read_slurm_member(const MemberEnvironment& environment, std::uint16_t port) {
  const std::string* list = variable(environment, "SLURM_STEP_NODELIST");
  const std::string* index = variable(environment, "SLURM_PROCID");
  const std::string* tasks = variable(environment, "SLURM_STEP_NUM_TASKS");
  const std::string* job = variable(environment, "SLURM_JOB_ID");
  const std::string* step = variable(environment, "SLURM_STEP_ID");
  if (!list || !index || !tasks || !job || !step)
    return Error{Errc::NotFound, "--member slurm: this is no task of a Slurm step",
                 "start it by srun --ntasks-per-node=1 train-run --member slurm job.yaml"};
  auto nodes = parse_node_list(*list);
  if (!nodes) return std::move(nodes).error().with_context("SLURM_STEP_NODELIST");
  TRY(const std::int64_t count, number(*tasks, "SLURM_STEP_NUM_TASKS", INT_MAX));
  TRY(const std::int64_t own, number(*index, "SLURM_PROCID", INT_MAX));
  TRY(const std::int64_t job_number, number(*job, "SLURM_JOB_ID", UINT32_MAX));
  TRY(const std::int64_t step_number, number(*step, "SLURM_STEP_ID", UINT32_MAX));
  if (static_cast<std::size_t>(count) != nodes->size() || own >= count)
    return wrong(
        fmt::format("--member slurm: the step has {} tasks on {} nodes", count, nodes->size()),
        "start one on each node: srun --ntasks-per-node=1");
  if (port == 0)
    port = static_cast<std::uint16_t>(kPortFirst + (static_cast<std::uint64_t>(job_number) * 31 +
                                                    static_cast<std::uint64_t>(step_number)) %
                                                       kPorts);
  SlurmMember member{static_cast<int>(own), std::move(*nodes)};
  for (std::string& node : member.nodes) node = node_address(node, port);
  return member;
}

DnsName split_address(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  DnsName split{std::move(host), 0};
  if (colon != std::string::npos)
    std::from_chars(address.data() + colon + 1, address.data() + address.size(), split.port);
  return split;
}

std::optional<std::size_t> place_of_this_machine(
    const std::vector<std::string>& nodes, const std::string& host_name,
    const std::vector<std::string>& own,
    const std::function<std::vector<std::string>(const std::string&)>& resolve) {
  const auto is_own = [&](const std::string& address) {
    return is_loopback(address) || std::find(own.begin(), own.end(), address) != own.end();
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::string host = split_address(nodes[i]).name;
    if (is_own(host) || (!is_number(host) && same_name(host, host_name))) return i;
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::string host = split_address(nodes[i]).name;
    if (is_number(host)) continue;
    const std::vector<std::string> addresses = resolve(host);
    if (std::any_of(addresses.begin(), addresses.end(), is_own)) return i;
  }
  return std::nullopt;
}

}  // namespace train
