#include "launcher/report/check_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/base/json_text.h"
#include "lib/base/size_text.h"
#include "lib/base/terminal_text.h"

namespace train {
namespace {

constexpr std::int64_t kDiskBytesMin = 1ll << 30;    // output and checkpoints in transit
constexpr std::int64_t kLockedBytesMin = 1ll << 30;  // NCCL over InfiniBand registers memory
constexpr double kClockMsMax = 1000;                 // logs and time limits get out of order
constexpr std::size_t kNamesMax = 8, kNameBytesMax = 100;

using Kind = CheckCell::Kind;

CheckCell good(std::string shown) { return {Kind::Good, std::move(shown), "", ""}; }
CheckCell bad(std::string shown, std::string what, std::string what_to_do) {
  return {Kind::Bad, std::move(shown), std::move(what), std::move(what_to_do)};
}

std::string names_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesMax); ++i)
    text += (i == 0 ? "" : ", ") + names[i].substr(0, kNameBytesMax);
  if (names.size() > kNamesMax) text += fmt::format(" and {} more", names.size() - kNamesMax);
  return text;
}

// ---- what the node itself says

CheckCell answers(const NodeRow& node) {
  if (node.answered) return good("ok");
  const Error problem = node.problem.value_or(Error{Errc::Timeout, "no answer", ""});
  return bad("no", problem.message,
             problem.hint.empty() ? "start its traind, and see whether a firewall is in between"
                                  : problem.hint);
}

CheckCell version(const NodeRow& node, const CheckContext& context) {
  if (node.build == context.build) return good("ok");
  return bad(node.build,
             fmt::format("traind {} is there, train-run {} here", node.build, context.build),
             "install the same version on all nodes");
}

CheckCell takes_work(const NodeRow& node) {
  if (!node.draining) return good("ok");
  return bad("drains", "it drains: " + node.draining_because,
             "start its traind again, once whatever it drains for is done");
}

CheckCell disk(const NodeRow& node) {
  if (!node.sample || node.sample->spool_free_bytes < 0) return {};
  const std::string shown = size_text(static_cast<std::uint64_t>(node.sample->spool_free_bytes));
  if (node.sample->spool_free_bytes >= kDiskBytesMin) return good(shown);
  return bad(shown, fmt::format("{} are free for output and checkpoints in transit", shown),
             "make room there, or give its traind another --spool-dir");
}

CheckCell gpus(const NodeRow& node, const CheckContext& context) {
  const std::string shown = fmt::format("{:g} of {:g}", node.free.gpu, node.total.gpu);
  for (const GpuSample& gpu : node.gpus) {
    if (gpu.state != "ok")
      return bad(shown, fmt::format("GPU {} is {}", gpu.gpu, gpu.state),
                 "see nvidia-smi and dmesg there; reset the GPU, or start the machine again");
    if (!gpu.foreign.empty())
      return bad(
          shown,
          fmt::format("GPU {} is in use by {}, which belongs to no run", gpu.gpu, gpu.foreign),
          "end that program, or give its traind the other GPUs only (CUDA_VISIBLE_DEVICES)");
  }
  if (!context.use_gpu) return node.total.gpu > 0 ? good(shown) : good("none");
  if (node.total.gpu <= 0)
    return bad("none", "it has no GPU", "install NVIDIA's driver there, or leave the node out");
  if (node.free.gpu <= 0)
    return bad(shown, "runs use all its GPUs", "wait for them: train-run nodes shows what is free");
  return good(shown);
}

// ---- what the probes have found out

CheckCell clock(const NodeProbe& probe) {
  if (!probe.clock_ms) return {};
  const double within = probe.clock_within_ms.value_or(0);
  const std::string shown = fmt::format("{:+.0f} ms", *probe.clock_ms);
  if (!(std::abs(*probe.clock_ms) - within > kClockMsMax)) return good(shown);
  return bad(shown, fmt::format("its clock differs by {:.1f} s", *probe.clock_ms / 1000),
             "have NTP set the clocks of all nodes (chrony, systemd-timesyncd)");
}

CheckCell ports(const NodeProbe& probe) {
  constexpr const char* kOpen =
      "open TCP ports from 1024 on between the nodes, in both directions; workers pick them freely";
  if (!probe.error.empty())
    return bad("none", "it does not reach the others: " + probe.error, kOpen);
  if (!probe.absent.empty())
    return bad("some", fmt::format("{} did not reach the meeting", names_of(probe.absent)), kOpen);
  if (!probe.unreachable.empty())
    return bad("some", fmt::format("it cannot connect to {}", names_of(probe.unreachable)), kOpen);
  return good("ok");
}

CheckCell storage(const NodeProbe& probe, const CheckContext& context) {
  if (context.storage.empty() || !probe.error.empty()) return {};
  if (!probe.storage_error.empty())
    return bad("no", fmt::format("it cannot write to {}: {}", context.storage, probe.storage_error),
               "mount it there, writable for your user; without that, checkpoints go through "
               "train-run, or stay on the nodes (replicas)");
  if (!probe.storage_missing.empty())
    return bad("other",
               fmt::format("in {}, it does not see the files of {}", context.storage,
                           names_of(probe.storage_missing)),
               "mount the same file system at that path on all nodes");
  return good("ok");
}

CheckCell locked_memory(const NodeProbe& probe, const CheckContext& context, bool several) {
  if (probe.locked_memory < 0) return good("no limit");
  const std::string shown = size_text(static_cast<std::uint64_t>(probe.locked_memory));
  if (!context.use_gpu || !several || probe.locked_memory >= kLockedBytesMin) return good(shown);
  return bad(shown,
             fmt::format("workers may lock only {} of memory, too little for InfiniBand", shown),
             "start its traind with LimitMEMLOCK=infinity (systemd), or ulimit -l unlimited");
}

CheckCell all_reduce(const NodeProbe& probe) {
  if (!probe.error.empty()) return {};
  if (probe.sum_ms) return good(fmt::format("{:.1f} ms", *probe.sum_ms));
  return bad("wrong", "the sum over all nodes is wrong or did not come",
             "see what is between the nodes: something changes or drops what they send");
}

/// A node that could run a probe, and of which none has come: nothing is known of it.
CheckCell silent(const CheckContext& context) {
  return bad("none",
             "its probe has said nothing" +
                 (context.trouble.empty() ? "" : fmt::format(": {}", context.trouble)),
             "run check again; if it stays so, run any job on that node");
}

constexpr std::array<const char*, 10> kChecks{"answers",       "version",   "takes work", "disk",
                                              "GPUs",          "clock",     "ports",      "storage",
                                              "locked memory", "all-reduce"};

}  // namespace

bool CheckTable::all_good() const {
  if (!no_probe.empty()) return false;
  return std::all_of(rows.begin(), rows.end(), [](const Row& row) {
    return std::none_of(row.cells.begin(), row.cells.end(),
                        [](const CheckCell& cell) { return cell.kind == Kind::Bad; });
  });
}

CheckTable check_table(const std::vector<CheckedNode>& nodes, const CheckContext& context) {
  CheckTable table;
  table.checks.assign(kChecks.begin(), kChecks.end());
  table.no_probe = context.no_probe;
  for (const CheckedNode& checked : nodes) {
    const NodeRow& node = checked.node;
    CheckTable::Row row{node.answered ? node.name : node.address, {answers(node)}};
    if (node.answered) {
      row.cells.insert(row.cells.end(),
                       {version(node, context), takes_work(node), disk(node), gpus(node, context)});
      if (const auto& probe = checked.probe)
        row.cells.insert(row.cells.end(),
                         {clock(*probe), ports(*probe), storage(*probe, context),
                          locked_memory(*probe, context, nodes.size() > 1), all_reduce(*probe)});
      else if (context.no_probe.empty() && !node.draining)
        row.cells.insert(row.cells.end(), {CheckCell{}, silent(context)});  // clock, ports
    }
    row.cells.resize(kChecks.size());
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string checks_text(const CheckTable& table) {
  std::vector<std::vector<std::string>> lines{{"node"}};
  lines[0].insert(lines[0].end(), table.checks.begin(), table.checks.end());
  for (const CheckTable::Row& row : table.rows) {
    lines.push_back({terminal_safe(row.node.substr(0, kNameBytesMax))});
    for (const CheckCell& cell : row.cells) {
      const std::string shown = terminal_safe(cell.shown.substr(0, kNameBytesMax));
      lines.back().push_back(cell.kind == Kind::Bad ? "! " + shown : shown);
    }
  }
  std::vector<int> widths(lines[0].size());
  for (const auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], columns_of(line[i]));
  std::string text;
  for (const auto& line : lines) {
    std::string whole;
    for (std::size_t i = 0; i < line.size(); ++i)
      whole +=
          line[i] + std::string(static_cast<std::size_t>(widths[i] - columns_of(line[i]) + 2), ' ');
    whole.erase(whole.find_last_not_of(' ') + 1);
    text += whole + "\n";
  }
  for (const CheckTable::Row& row : table.rows)
    for (std::size_t i = 0; i < row.cells.size(); ++i)
      if (const CheckCell& cell = row.cells[i]; cell.kind == Kind::Bad)
        text += terminal_safe(fmt::format("{}: {}: {}", row.node.substr(0, kNameBytesMax),
                                          table.checks[i], cell.what)) +
                "\n  " + terminal_safe(cell.what_to_do) + "\n";
  if (!table.no_probe.empty())
    text += terminal_safe("the checks between the nodes were not made: " + table.no_probe) + "\n";
  return text;
}

std::string checks_json(const CheckTable& table) {
  JsonWriter json;
  json.object().member("good", table.all_good());
  if (!table.no_probe.empty()) json.member("not_probed", table.no_probe);
  json.key("nodes").array();
  for (const CheckTable::Row& row : table.rows) {
    json.object().member("node", row.node).key("checks").object();
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      const CheckCell& cell = row.cells[i];
      if (cell.kind == Kind::Unknown) continue;
      json.key(table.checks[i]).object();
      json.member("good", cell.kind == Kind::Good).member("shown", cell.shown);
      if (cell.kind == Kind::Bad)
        json.member("what", cell.what).member("what_to_do", cell.what_to_do);
      json.end();
    }
    json.end().end();
  }
  json.end().end();
  return std::move(json).take();
}

}  // namespace train
