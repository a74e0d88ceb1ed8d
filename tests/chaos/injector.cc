#include "tests/chaos/injector.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

namespace train::chaos {
namespace {

constexpr int kDraws = 20;

std::optional<pid_t> picked(std::vector<pid_t> pids, std::uint32_t pick) {
  if (pids.empty()) return std::nullopt;
  std::sort(pids.begin(), pids.end());
  return pids[pick % pids.size()];
}

}  // namespace

std::string Injector::strike() {
  for (int draw = 0; draw < kDraws; ++draw) {
    const PlannedFault planned = plan_.next();
    const std::optional<std::string> what = apply(planned);
    if (!what) continue;
    ++counts_[planned.fault];
    return fmt::format("{}: {}", to_string(planned.fault), *what);
  }
  return "";
}

void Injector::tick(bool all) {
  for (auto undo = undos_.begin(); undo != undos_.end();) {
    if (!all && Clock::now() < undo->due) {
      ++undo;
      continue;
    }
    const std::function<void()> act = std::move(undo->act);
    undo = undos_.erase(undo);
    act();
  }
}

void Injector::undo_after(double seconds, int node, std::function<void()> act) {
  undos_.push_back({after(seconds), node, std::move(act)});
}

// Allow one fault at a time on a link: the end of the second one would also end the first.
bool Injector::link_is_hit(int node) const {
  return std::any_of(undos_.begin(), undos_.end(),
                     [&](const Undo& undo) { return undo.node == node; });
}

std::optional<std::string> Injector::kill(std::vector<pid_t> pids, const PlannedFault& fault) {
  const auto pid = picked(std::move(pids), fault.pick);
  if (!pid) return std::nullopt;
  e2e::send_signal(*pid, SIGKILL);
  return fmt::format("process {}", *pid);
}

std::optional<std::string> Injector::stop(std::optional<pid_t> pid, const PlannedFault& fault) {
  if (!pid) return std::nullopt;
  e2e::send_signal(*pid, SIGSTOP);
  undo_after(fault.seconds, -1, [this, pid = *pid] {
    if (world_.is_ours(pid)) e2e::send_signal(pid, SIGCONT);
  });
  return fmt::format("process {} for {:.1f} s", *pid, fault.seconds);
}

std::optional<std::string> Injector::on_daemon(const PlannedFault& fault) {
  const int node = fault.node;
  if (!world_.daemon_pid(node)) return std::nullopt;
  const std::string back = fmt::format("n{}, back after {:.1f} s", node, fault.seconds);
  if (fault.fault == Fault::KillDaemon) {
    world_.kill_daemon(node, fault.seconds);
  } else if (fault.fault == Fault::DrainNode) {
    world_.drain_daemon(node, fault.seconds);
  } else {
    if (link_is_hit(node)) return std::nullopt;
    world_.kill_node(node, fault.seconds);
    undo_after(fault.seconds, node, [this, node] { world_.network().mend(node); });
  }
  return back;
}

std::optional<std::string> Injector::on_link(const PlannedFault& fault) {
  const int node = fault.node;
  if (link_is_hit(node)) return std::nullopt;
  const std::string device = e2e::Network::kInterface;
  const std::string lasting = fmt::format("n{} for {:.1f} s", node, fault.seconds);
  const auto unfilter = [this, node] { world_.unfilter(node, "chaos"); };
  switch (fault.fault) {
    case Fault::CutLink:
      world_.network().cut(node);
      undo_after(fault.seconds, node, [this, node] { world_.network().mend(node); });
      return lasting;
    case Fault::DeafenNode:
      world_.filter(node, "chaos", "input", fmt::format("iifname {} drop", device));
      undo_after(fault.seconds, node, unfilter);
      return lasting;
    case Fault::MuteNode:
      world_.filter(node, "chaos", "output", fmt::format("oifname {} drop", device));
      undo_after(fault.seconds, node, unfilter);
      return lasting;
    case Fault::LosePackets:
      world_.filter(
          node, "chaos", "input",
          fmt::format("iifname {} numgen random mod 100 < {} drop", device, fault.amount));
      undo_after(fault.seconds, node, unfilter);
      return fmt::format("{} % of {}", fault.amount, lasting);
    case Fault::DelayLink:
      world_.delay_link(node, fault.amount);
      undo_after(fault.seconds, node, [this, node] { world_.delay_link(node, 0); });
      return fmt::format("{} ms, {}", fault.amount, lasting);
    default:
      world_.reset_link(node);
      return fmt::format("n{}", node);
  }
}

std::optional<std::string> Injector::apply(const PlannedFault& fault) {
  switch (fault.fault) {
    case Fault::KillWorker:
      return kill(world_.workers(), fault);
    case Fault::KillSupervisor:
      return kill(world_.supervisors_on(fault.node), fault);
    case Fault::KillLauncher:
      if (!world_.launcher_pid()) return std::nullopt;
      world_.kill_launcher(fault.seconds);
      return fmt::format("back after {:.1f} s", fault.seconds);
    case Fault::StopWorker:
      return stop(picked(world_.workers(), fault.pick), fault);
    case Fault::StopSupervisor:
      return stop(picked(world_.supervisors_on(fault.node), fault.pick), fault);
    case Fault::StopDaemon:
      return stop(world_.daemon_pid(fault.node), fault);
    case Fault::StopLauncher:
      return stop(world_.launcher_pid(), fault);
    case Fault::KillDriver:
      return kill(world_.drivers(), fault);
    case Fault::StopDriver:
      return stop(picked(world_.drivers(), fault.pick), fault);
    case Fault::StepClock:
      world_.step_clock(fault.amount);
      return fmt::format("by {:+} s", fault.amount);
    case Fault::KillDaemon:
    case Fault::LoseNode:
    case Fault::DrainNode:
      return on_daemon(fault);
    default:
      return on_link(fault);
  }
}

}  // namespace train::chaos
