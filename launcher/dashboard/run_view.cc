#include "launcher/dashboard/run_view.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <chrono>
#include <utility>

#include "launcher/core/job_spec.h"
#include "launcher/core/run_history.h"
#include "launcher/dashboard/json_members.h"
#include "lib/base/time.h"
#include "lib/storage/manifest.h"

namespace train {
namespace {

constexpr std::array<std::string_view, 9> kStates{"attaching", "scheduling",   "preparing",
                                                  "starting",  "running",      "pausing",
                                                  "finished",  "tearing_down", "errored"};

bool is_known_state(const std::string& state) {
  return state == "stopped" || std::find(kStates.begin(), kStates.end(), state) != kStates.end();
}

std::vector<RolePlace> roles_in(const boost::json::object& node) {
  std::vector<RolePlace> roles;
  const auto* array = node.if_contains("roles");
  if (array == nullptr || !array->is_array()) return roles;
  for (const boost::json::value& value : array->get_array()) {
    if (!value.is_object() || roles.size() == kRolesMax) break;
    const std::int64_t role = whole_member(value.get_object(), "role").value_or(0);
    const std::int64_t workers = whole_member(value.get_object(), "workers").value_or(0);
    if (role > 0 && role < kRolesMax && workers > 0 && workers <= 65536)
      roles.push_back({role, workers, 0});
  }
  return roles;
}

std::vector<NodePlace> places_in(const boost::json::object& event) {
  std::vector<NodePlace> places;
  const auto* nodes = event.if_contains("nodes");
  if (nodes == nullptr || !nodes->is_array()) return places;
  std::int64_t first_rank = 0;
  for (const boost::json::value& value : nodes->get_array()) {
    if (!value.is_object() || places.size() == RunView::kNodesMax) break;
    const std::int64_t workers =
        std::clamp<std::int64_t>(whole_member(value.get_object(), "workers").value_or(0), 0, 65536);
    places.push_back({text_member(value.get_object(), "name"), workers, first_rank,
                      roles_in(value.get_object())});
    first_rank += workers;
  }
  for (std::int64_t role = 1; role < kRolesMax;
       ++role) {  // as launcher/core/placement numbers them
    for (NodePlace& place : places) {
      for (RolePlace& other : place.others) {
        if (other.role != role) continue;
        other.first_rank = first_rank;
        first_rank += other.workers;
      }
    }
  }
  return places;
}

std::string name_of(std::int64_t checkpoint) {
  return checkpoint_name(CheckpointNumber{static_cast<std::uint64_t>(checkpoint)});
}

/// Return the name of the checkpoint that the attempt restores, or "".
std::string restored_in(const boost::json::object& event) {
  const boost::json::object* restore = object_member(event, "restore");
  if (restore == nullptr) return {};
  const auto number = whole_member(*restore, "number");
  return number && *number > 0 ? name_of(*number) : text_member(*restore, "path");
}

bool is_about_hangs(const std::string& event) {
  return event.starts_with("rank_") || event == "straggler" || event.starts_with("straggler_");
}

/// Return when what the record tells began.
std::string since_of(const JournalRecord& record) {
  constexpr double kSecondsMax = 1e9;
  const double lasted = number_member(record.event, "lasted_s").value_or(0);
  const auto before = std::chrono::duration_cast<std::chrono::system_clock::duration>(
      std::chrono::duration<double>(std::clamp(lasted, 0.0, kSecondsMax)));
  return format_utc(parse_utc(record.time) - before);
}

}  // namespace

namespace {

const RolePlace* other_role_of(const NodePlace& node, std::int64_t rank) {
  for (const RolePlace& other : node.others)
    if (rank >= other.first_rank && rank < other.first_rank + other.workers) return &other;
  return nullptr;
}

}  // namespace

bool is_end_state(const std::string& state) {
  return state == "finished" || state == "errored" || state == "stopped";
}

const NodePlace* AttemptView::node_of(std::int64_t rank) const {
  for (const NodePlace& node : nodes)
    if ((rank >= node.first_rank && rank < node.first_rank + node.workers) ||
        other_role_of(node, rank) != nullptr)
      return &node;
  return nullptr;
}

std::int64_t AttemptView::local_rank(const NodePlace& node, std::int64_t rank) const {
  const RolePlace* other = other_role_of(node, rank);
  return rank - (other != nullptr ? other->first_rank : node.first_rank);
}

std::string AttemptView::role_of(std::int64_t rank) const {
  const NodePlace* node = node_of(rank);
  if (node == nullptr || roles.empty()) return "";
  const RolePlace* other = other_role_of(*node, rank);
  const auto role = static_cast<std::size_t>(other != nullptr ? other->role : 0);
  return role < roles.size() ? roles[role] : "";
}

void RunView::add(const JournalRecord& record) {
  last_seq = record.seq;
  generation = record.generation.value;
  if (began.empty()) began = record.time;
  const std::string event = text_member(record.event, "event");
  if (event == kGenerationTaken) launcher_took_it(record);
  if (event == "state") state_changed(record);
  if (event == "attempt_started") attempt_began(record);
  if (event == "attempt_ended") attempt_ended(record);
  if (event == "checkpoint_committed") checkpoint_committed(record);
  if (event == "node_state") node_changed(record);
  ingest.add(record.event);
  if (event == "straggler") stragglers_changed(record, true);
  if (event == "straggler_cleared") stragglers_changed(record, false);
  if (event == "run_ended") {
    ended = record.time;
    if (std::string why = text_member(record.event, "reason"); !why.empty()) reason = why;
  }
  if (!is_about_hangs(event)) return;
  if (hangs.size() == kHangEventsMax) hangs.erase(hangs.begin());
  hangs.push_back(record);
}

const AttemptView* RunView::find(std::int64_t attempt) const {
  const auto found = std::find_if(attempts.begin(), attempts.end(),
                                  [&](const AttemptView& one) { return one.attempt == attempt; });
  return found == attempts.end() ? nullptr : &*found;
}

void RunView::launcher_took_it(const JournalRecord& record) {
  run_id = text_member(record.event, "run_id");
  host = text_member(record.event, "host");
  build = text_member(record.event, "build");
  pid = whole_member(record.event, "pid").value_or(0);
  launcher_began = record.time;
  ended.clear();
  reason.clear();
  cluster_nodes.clear();
  stragglers.clear();  // it judges anew
  unused_nodes.clear();
  if (const auto* nodes = record.event.if_contains("nodes"); nodes != nullptr && nodes->is_array())
    for (const boost::json::value& node : nodes->get_array())
      if (node.is_string() && cluster_nodes.size() < kNodesMax)
        cluster_nodes.emplace_back(node.get_string());
  state = !attempts.empty() && attempts.back().ended.empty() ? "attaching" : "scheduling";
  state_since = record.time;
}

void RunView::state_changed(const JournalRecord& record) {
  const std::string next = text_member(record.event, "state");
  state = is_known_state(next) ? next : "unknown";
  state_since = record.time;
  reason = text_member(record.event, "reason");
  if (text_member(record.event, "trigger") == "restart_decided") ++restarts;
  if (is_end_state(state)) ended = record.time;
}

void RunView::attempt_began(const JournalRecord& record) {
  AttemptView attempt;
  attempt.attempt = whole_member(record.event, "attempt").value_or(0);
  // It had begun already: a late commit let it begin from a newer checkpoint.
  if (!attempts.empty() && attempts.back().attempt == attempt.attempt)
    attempts.pop_back();
  else
    ++attempts_begun;
  if (attempts.size() == kAttemptsMax) attempts.erase(attempts.begin());
  attempt.world_size = std::clamp<std::int64_t>(
      whole_member(record.event, "world_size").value_or(0), 0, kWorkersMax);
  attempt.nodes = places_in(record.event);
  attempt.workers = attempt.world_size;
  for (const NodePlace& node : attempt.nodes)
    for (const RolePlace& other : node.others) attempt.workers += other.workers;
  if (const auto* roles = record.event.if_contains("roles"); roles != nullptr && roles->is_array())
    for (const boost::json::value& role : roles->get_array())
      if (role.is_string() && attempt.roles.size() < kRolesMax)
        attempt.roles.emplace_back(role.get_string());
  attempt.began = record.time;
  attempt.restored = restored_in(record.event);
  attempts.push_back(std::move(attempt));
  stragglers.clear();
}

void RunView::attempt_ended(const JournalRecord& record) {
  const std::int64_t number = whole_member(record.event, "attempt").value_or(-1);
  if (attempts.empty() || attempts.back().attempt != number) return;
  AttemptView& attempt = attempts.back();
  attempt.ended = record.time;
  attempt.time = time_in(record.event);
  stragglers.clear();
  attempt.cause = text_member(record.event, "cause");
  attempt.failure = text_member(record.event, "failure");
  const auto* failed = record.event.if_contains("failed");
  const bool had_failed =
      std::exchange(attempt.failed, failed != nullptr && failed->is_bool() && failed->get_bool());
  if (attempt.failed && !had_failed) ++attempts_failed;
  if (!attempt.failed) return;
  const boost::json::object* location = object_member(record.event, "location");
  if (location == nullptr) return;
  attempt.root_rank = whole_member(*location, "rank");
  if (!attempt.root_rank) return;
  const NodePlace* node = attempt.node_of(*attempt.root_rank);
  if (node != nullptr) ++node_failures[node->name];
}

void RunView::checkpoint_committed(const JournalRecord& record) {
  const std::int64_t number = whole_member(record.event, "checkpoint").value_or(0);
  if (number <= 0) return;
  ++checkpoints;
  checkpoint = name_of(number);
  const std::int64_t attempt = whole_member(record.event, "attempt").value_or(-1);
  if (attempts.empty() || attempts.back().attempt != attempt) return;
  ++attempts.back().checkpoints;
  attempts.back().checkpoint_report = whole_member(record.event, "report").value_or(0);
  attempts.back().checkpoint_at = record.time;
}

void RunView::node_changed(const JournalRecord& record) {
  constexpr std::array<std::string_view, 4> kUnused{"stuck", "drained", "lost", "quarantined"};
  const std::string name = text_member(record.event, "node");
  std::string next = text_member(record.event, "state");
  if (std::find(kUnused.begin(), kUnused.end(), next) == kUnused.end()) {
    unused_nodes.erase(name);
  } else if (unused_nodes.contains(name) || unused_nodes.size() < kNodesMax) {
    unused_nodes[name] = {std::move(next), text_member(record.event, "reason"), record.time};
  }
}

void RunView::stragglers_changed(const JournalRecord& record, bool slow) {
  const auto* ranks = record.event.if_contains("ranks");
  const std::int64_t attempt = whole_member(record.event, "attempt").value_or(-1);
  if (attempts.empty() || attempts.back().attempt != attempt) return;
  if (ranks == nullptr || !ranks->is_array()) return;
  const StragglerView found{.behind = number_member(record.event, "behind").value_or(0),
                            .phase = text_member(record.event, "phase"),
                            .since = since_of(record)};
  for (const boost::json::value& rank : ranks->get_array()) {
    const std::int64_t number = rank.is_int64() ? rank.get_int64() : -1;
    if (number < 0 || number >= attempts.back().world_size) continue;
    if (slow)
      stragglers[number] = found;
    else
      stragglers.erase(number);
  }
}

}  // namespace train
