#include "launcher/cluster/run/failover_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "launcher/core/ssh_hosts.h"
#include "lib/base/host.h"
#include "lib/net/blocking.h"
#include "lib/net/within.h"
#include "lib/wire/codec.h"

namespace train {
namespace {

constexpr Duration kWait = seconds(15), kWaitMin = seconds(1);
constexpr Duration kTickEvery = milliseconds(500);

/// Return the first node's time from the end of the controller's link to its attempt to take over:
/// workers must still be there.
Duration wait_before(Duration orphan_timeout) {
  return std::clamp(orphan_timeout / 4, kWaitMin, kWait);
}

}  // namespace

FailoverOptions failover_options(PrepareFailover order, const FailureConfig& config,
                                 const RunIdentity& run, const RunFolder& folder,
                                 std::function<bool()> trains_here) {
  order.run_dir = folder.path();
  order.storage_mark = fmt::format("{} {}", run.generation.value, run.storage_marker);
  order.wait_ms =
      std::chrono::duration_cast<milliseconds>(wait_before(config.orphan_timeout)).count();
  return {std::move(order), config.failover_nodes, run.run_id, run.generation,
          folder,           std::move(trains_here)};
}

FailoverKeeper::FailoverKeeper(FailoverOptions options, ClusterLinks& links, JournalWriter& journal,
                               UserMessages& messages, asio::thread_pool& disk, const Clock& clock)
    : options_(std::move(options)),
      links_(links),
      journal_(journal),
      messages_(messages),
      disk_(disk),
      clock_(clock),
      nodes_(options_.nodes, std::hash<std::string>()(options_.run_id)) {}

void FailoverKeeper::saw(const RunEvent& event) {
  if (const auto* up = std::get_if<NodeUp>(&event)) {
    const NodeCapacity& node = up->capacity;
    const bool by_ssh = links_.endpoint_text(node.node).starts_with(kSshPrefix);
    if (!by_ssh && !links_.is_on_our_machine(node.node))
      perform(nodes_.up(node.node, up->attached, node.draining, clock_.now()));
  } else if (const auto* down = std::get_if<NodeDown>(&event)) {
    perform(nodes_.down(down->node));
  }
}

void FailoverKeeper::answered(NodeId node, const FailoverAnswer& answer) {
  perform(nodes_.answered(node, answer.ready, answer.why, clock_.now()));
}

// Thousands of nodes come and go at the same time: what changes meanwhile goes into the next note.
asio::awaitable<void> FailoverKeeper::run() {
  for (;;) {
    const auto woken = co_await pause_for(kTickEvery);
    if (!woken || ended_) co_return;
    for (const NodeId node : nodes_.nodes())
      if (links_.is_away(node)) nodes_.away(node, clock_.now());
    perform(nodes_.tick(clock_.now()));
    if (!std::exchange(note_is_old_, false)) continue;
    // Without any node it keeps the last ones: they may have lost touch with this machine, which
    // has nothing left to control.
    FailoverNote note = make_note();
    if (note.voters.empty() && !options_.trains_here()) continue;
    auto writing = run_on<Unit>(disk_, [&options = options_, note = std::move(note)] {
      return write_failover_note(options.folder, options.generation, note);
    });
    const auto written = co_await std::move(writing);
    if (written) continue;
    note_is_old_ = true;
    warn("if this machine dies, no other node can take over the controller: " +
         written.error().describe());
  }
}

void FailoverKeeper::perform(const FailoverNodes::Change& change) {
  if (ended_) return;
  for (const NodeId node : change.cancel) links_.send(node, encode(CancelFailover{}));
  for (const auto& [node, place] : change.prepare) {
    PrepareFailover order = options_.order;
    order.wait_ms *= place + 1;
    links_.send(node, encode(order));
  }
  note_is_old_ |= change.of_note;
  tell_ready();
}

/// Say who stands ready, or that nobody can; each once.
void FailoverKeeper::tell_ready() {
  if (!nodes_.settled()) return;
  std::vector<std::string> names;
  for (const NodeId node : nodes_.ready()) names.push_back(links_.name(node));
  const auto trouble = nodes_.trouble();
  if (names.empty() && !trouble) return;
  const std::string text =
      names.empty()
          ? fmt::format("if this machine dies, no other node can take over the controller: {}: {}",
                        links_.name(trouble->first), trouble->second)
          : fmt::format("if this machine dies, {} takes over the controller",
                        fmt::join(names, " or "));
  if (std::exchange(told_, text) == text) return;
  if (names.empty()) return warn(text);
  warned_ = false;
  messages_.phase(text);
  journal_.remember({{"event", "failover_ready"}, {"nodes", boost::json::value_from(names)}});
}

void FailoverKeeper::warn(const std::string& text) {
  if (!std::exchange(warned_, true)) messages_.warn(text);
}

FailoverNote FailoverKeeper::make_note() const {
  FailoverNote note{host_name(), {}, {}};
  for (const NodeId node : nodes_.ready()) note.ready.push_back(links_.name(node));
  for (const NodeId node : nodes_.voters()) note.voters.push_back(links_.endpoint_text(node));
  return note;
}

}  // namespace train
