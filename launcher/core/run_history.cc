#include "launcher/core/run_history.h"

#include <algorithm>
#include <array>
#include <set>

#include "launcher/core/placed_ranks.h"
#include "lib/base/time.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr std::array<std::string_view, 4> kStopKinds{"interrupt", "terminate", "stop_condition",
                                                     "command"};

std::string text_of(const boost::json::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
}

std::int64_t number_of(const boost::json::object& object, std::string_view key,
                       std::int64_t otherwise = 0) {
  const auto* value = object.if_contains(key);
  if (value == nullptr) return otherwise;
  if (value->is_uint64()) return static_cast<std::int64_t>(value->as_uint64());
  return value->is_int64() ? value->as_int64() : otherwise;
}

/// Make foreign text fit for a journal: an error message may have any length and any bytes.
std::string words(const std::string& text) {
  constexpr std::size_t kBytesMax = 4u << 10;
  return utf8_text(text, kBytesMax);
}

boost::json::value json_of(const std::optional<CheckpointInfo>& checkpoint) {
  if (!checkpoint) return nullptr;
  return boost::json::object{{"number", checkpoint->number},
                             {"path", checkpoint->path},
                             {"trained_epoch", checkpoint->epoch}};
}

std::optional<CheckpointInfo> checkpoint_of(const boost::json::object& event) {
  const auto* restore = event.if_contains("restore");
  if (restore == nullptr || !restore->is_object()) return std::nullopt;
  const boost::json::object& object = restore->as_object();
  return CheckpointInfo{static_cast<std::uint64_t>(number_of(object, "number")),
                        text_of(object, "path"), number_of(object, "trained_epoch", -1)};
}

std::optional<FailureLocation> location_of(const boost::json::object& event) {
  const auto* location = event.if_contains("location");
  if (location == nullptr || !location->is_object()) return std::nullopt;
  const boost::json::object& object = location->as_object();
  return FailureLocation{.rank = Rank{static_cast<std::int32_t>(number_of(object, "rank"))},
                         .node = NodeId{static_cast<std::int32_t>(number_of(object, "node"))},
                         .report = static_cast<std::uint64_t>(number_of(object, "report")),
                         .checkpoint = static_cast<std::uint64_t>(number_of(object, "checkpoint"))};
}

/// Return the workers of other roles on a node of the record.
std::vector<PlacedRole> roles_of(const boost::json::object& node) {
  std::vector<PlacedRole> roles;
  const auto* array = node.if_contains("roles");
  if (array == nullptr || !array->is_array()) return roles;
  for (const boost::json::value& value : array->as_array()) {
    if (!value.is_object()) return {};
    const boost::json::object& role = value.as_object();
    const std::int64_t number = number_of(role, "role"), workers = number_of(role, "workers");
    if (number < 1 || number >= kRolesMax || workers < 1 || workers > kWorkersMax) return {};
    roles.push_back({static_cast<int>(number), {}, static_cast<int>(workers)});
  }
  return roles;
}

Placement placement_of(const boost::json::object& event, std::vector<std::string>& names) {
  Placement placement;
  const auto* nodes = event.if_contains("nodes");
  if (nodes == nullptr || !nodes->is_array()) return placement;
  for (const boost::json::value& value : nodes->as_array()) {
    if (!value.is_object()) return {};
    const boost::json::object& node = value.as_object();
    const std::int64_t workers = number_of(node, "workers");
    if (workers < 0 || workers > kWorkersMax) return {};
    placement.nodes.push_back({.node = NodeId{static_cast<std::int32_t>(number_of(node, "node"))},
                               .node_rank = {},
                               .first_rank = {},
                               .local_world_size = static_cast<int>(workers),
                               .others = roles_of(node)});
    names.push_back(text_of(node, "name"));
  }
  number_ranks(placement);
  return placement;
}

boost::json::array roles_json(const PlacedNode& placed) {
  boost::json::array roles;
  for (const PlacedRole& other : placed.others)
    roles.push_back(boost::json::object{{"role", other.role}, {"workers", other.workers}});
  return roles;
}

boost::json::array ingest_json(const Placement& placement) {
  boost::json::array places;
  for (const PlacedIngest& place : placement.ingest)
    places.push_back(boost::json::object{
        {"dataset", words(place.dataset)}, {"slot", place.slot}, {"node", place.node.value}});
  return places;
}

std::vector<PlacedIngest> ingest_of(const boost::json::object& event) {
  std::vector<PlacedIngest> places;
  const auto* array = event.if_contains("ingest");
  if (array == nullptr || !array->is_array()) return places;
  for (const boost::json::value& value : array->as_array()) {
    if (!value.is_object()) return {};
    const boost::json::object& place = value.as_object();
    places.push_back({text_of(place, "dataset"),
                      static_cast<std::int32_t>(number_of(place, "slot")),
                      NodeId{static_cast<std::int32_t>(number_of(place, "node"))}});
  }
  return places;
}

/// Return how the run ended, if the record of a change of state says that it did.
std::optional<RunEnded> end_in(const boost::json::object& event, const std::string& state) {
  for (const RunState outcome : {RunState::Finished, RunState::Errored, RunState::Stopped}) {
    if (state != to_string(outcome)) continue;
    const auto kind = std::find(kStopKinds.begin(), kStopKinds.end(), text_of(event, "stop"));
    std::optional<StopKind> stop;
    if (kind != kStopKinds.end()) stop = static_cast<StopKind>(kind - kStopKinds.begin());
    return RunEnded{outcome, text_of(event, "reason"), stop};
  }
  return std::nullopt;
}

/// Return cluster.nodes, as the record of a launcher's beginning has them.
std::optional<std::vector<std::string>> cluster_nodes_in(const boost::json::object& event) {
  const auto* nodes = event.if_contains("nodes");
  if (nodes == nullptr || !nodes->is_array()) return std::nullopt;
  std::vector<std::string> all;
  for (const boost::json::value& node : nodes->as_array())
    all.emplace_back(node.is_string() ? std::string_view(node.as_string()) : "");
  return all;
}

/// Return where each of the nodes is in another list, or, for one that is not there, a number that
/// no node has.
std::vector<NodeId> places_in(const std::vector<std::string>& other,
                              const std::vector<std::string>& nodes) {
  std::vector<NodeId> places;
  std::vector<bool> taken(other.size());
  for (const std::string& node : nodes) {
    NodeId place{-1 - static_cast<std::int32_t>(places.size())};
    for (std::size_t i = 0; i < other.size() && place.value < 0; ++i) {
      if (taken[i] || other[i] != node) continue;
      taken[i] = true;
      place = NodeId{static_cast<std::int32_t>(i)};
    }
    places.push_back(place);
  }
  return places;
}

}  // namespace

boost::json::object record_of(const StateChanged& change) {
  boost::json::object record{{"event", "state"},
                             {"state", to_string(change.to)},
                             {"trigger", to_string(change.trigger)},
                             {"attempt", change.attempt.value},
                             {"reason", words(change.reason)}};
  if (change.stop) record["stop"] = kStopKinds[static_cast<std::size_t>(*change.stop)];
  if (!change.stop_condition.empty()) record["stop_condition"] = words(change.stop_condition);
  return record;
}

boost::json::object record_of(const AttemptBegun& begun) {
  boost::json::array nodes;
  for (std::size_t i = 0; i < begun.placement.nodes.size(); ++i) {
    const PlacedNode& placed = begun.placement.nodes[i];
    boost::json::object node{{"node", placed.node.value},
                             {"name", begun.node_names[i]},
                             {"workers", placed.local_world_size}};
    if (!placed.others.empty()) node["roles"] = roles_json(placed);
    nodes.push_back(std::move(node));
  }
  boost::json::object record{{"event", "attempt_started"},
                             {"attempt", begun.attempt.value},
                             {"world_size", begun.placement.world_size},
                             {"restart_count", begun.restart_count},
                             {"restore", json_of(begun.restore)},
                             {"nodes", std::move(nodes)}};
  if (!begun.roles.empty())
    record["roles"] = boost::json::array(begun.roles.begin(), begun.roles.end());
  if (!begun.placement.ingest.empty()) record["ingest"] = ingest_json(begun.placement);
  return record;
}

boost::json::object record_of(const IngestChanged& changed) {
  return {{"event", "ingest_workers"},  {"attempt", changed.attempt.value},
          {"dataset", changed.dataset}, {"wanted", changed.wanted},
          {"serving", changed.serving}, {"deaths", changed.deaths}};
}

boost::json::object record_of(const AttemptEnded& ended, const std::string& cause) {
  boost::json::object record{{"event", "attempt_ended"},
                             {"attempt", ended.attempt.value},
                             {"cause", words(cause)},
                             {"failed", ended.failed},
                             {"worker_seconds", json_of(ended.time)}};
  if (ended.failure) record["failure"] = to_string(*ended.failure);
  if (ended.node) record["node"] = ended.node->value;
  if (ended.learned_limits_right) record["learned_limits_right"] = *ended.learned_limits_right;
  for (const NodeId node : ended.stuck) {
    auto& stuck = record["stuck_nodes"];
    if (!stuck.is_array()) stuck.emplace_array();
    stuck.as_array().push_back(node.value);
  }
  if (ended.location) {
    record["location"] = boost::json::object{{"rank", ended.location->rank.value},
                                             {"node", ended.location->node.value},
                                             {"report", ended.location->report},
                                             {"checkpoint", ended.location->checkpoint}};
  }
  return record;
}

boost::json::object record_of(const RunEnded& ended) {
  boost::json::object record{{"event", "run_ended"},
                             {"outcome", to_string(ended.outcome)},
                             {"reason", words(ended.reason)}};
  if (ended.workers_stay) record["workers_stay"] = true;
  return record;
}

boost::json::object record_of(const StragglerChanged& change) {
  boost::json::array ranks;
  for (const Rank rank : change.ranks) ranks.push_back(rank.value);
  boost::json::object record{{"event", change.slow ? "straggler" : "straggler_cleared"},
                             {"attempt", change.attempt.value},
                             {"ranks", std::move(ranks)},
                             {"node", change.node},
                             {"lasted_s", std::chrono::duration<double>(change.lasted).count()}};
  if (!change.slow) return record;
  record["phase"] = to_string(change.phase);
  record["behind"] = change.behind;
  record["odds"] = change.odds;
  return record;
}

boost::json::object record_of(const NodeStateChanged& change) {
  constexpr std::array kWords{"stuck", "drained", "lost", "quarantined", "up"};
  boost::json::object record{{"event", "node_state"},
                             {"node", words(change.node)},
                             {"state", kWords.at(static_cast<std::size_t>(change.state))}};
  if (!change.reason.empty()) record["reason"] = words(change.reason);
  return record;
}

boost::json::object node_found_record(NodeId node, const std::string& address) {
  return {{"event", "node_found"}, {"node", node.value}, {"address", words(address)}};
}

boost::json::object checkpoint_record(Attempt attempt, std::uint64_t checkpoint_seq,
                                      std::uint64_t report_seq, const CheckpointInfo& checkpoint) {
  return {{"event", "checkpoint_committed"},  {"attempt", attempt.value},
          {"checkpoint_seq", checkpoint_seq}, {"report", report_seq},
          {"checkpoint", checkpoint.number},  {"trained_epoch", checkpoint.epoch}};
}

boost::json::object json_of(const TimeAccounts& time) {
  boost::json::object object;
  for (std::size_t i = 0; i < kTimeUses.size(); ++i) {
    const Duration used = time[static_cast<TimeUse>(i)];
    if (used > Duration{}) object[kTimeUses[i]] = std::chrono::duration<double>(used).count();
  }
  return object;
}

TimeAccounts time_in(const boost::json::object& event) {
  constexpr double kSecondsMax = 1e9;  // so that the sum of many fits
  TimeAccounts time;
  const auto* object = event.if_contains("worker_seconds");
  if (object == nullptr || !object->is_object()) return time;
  for (const auto& [name, value] : object->as_object()) {
    const auto use = parse_time_use(name);
    boost::system::error_code ec;
    const double read = value.to_number<double>(ec);
    if (!use || ec || !(read > 0)) continue;
    time[*use] = std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(std::min(read, kSecondsMax)));
  }
  return time;
}

TimeAccounts run_time_in(const boost::json::object& run_json, const boost::json::object& note) {
  const auto of = [](const boost::json::object& object, std::string_view name) {
    const auto* value = object.if_contains(name);
    return value != nullptr && value->is_object() ? time_in(value->as_object()) : TimeAccounts{};
  };
  const TimeAccounts whole = of(run_json, "goodput");
  return whole.total() > Duration{} ? whole : of(note, "run");
}

void RunHistory::add(Generation generation, const std::string& time,
                     const boost::json::object& event) {
  ingest_.add(event);
  setup_.add(event);
  const std::string what = text_of(event, "event");
  const Attempt attempt{static_cast<std::uint32_t>(number_of(event, "attempt"))};
  if (what == "generation_taken") {
    const auto nodes = cluster_nodes_in(event);
    if (nodes) number_nodes_by(*nodes);
    nodes_ = nodes;
    const auto* by_hand = event.if_contains("by_hand");
    if (by_hand != nullptr && *by_hand == true) started_by_hand();
    // Of a run that takes over the workers of another: lower numbers are those of that run.
    next_attempt_ = std::max(
        next_attempt_, Attempt{static_cast<std::uint32_t>(number_of(event, "first_attempt"))});
    return;
  }
  if (what == "node_found") {  // they are numbered in this order
    if (nodes_ && number_of(event, "node") == static_cast<std::int64_t>(nodes_->size()))
      nodes_->push_back(text_of(event, "address"));
    return;
  }
  if (what == "attempt_started") return attempt_began(generation, time, event);
  if (what == "attempt_ended") return attempt_ended(time, event);
  if (what == "checkpoint_committed") return checkpoint_committed(time, event);
  if (what == "run_ended") {  // a user who starts it again by hand gets full budgets
    const auto* stay = event.if_contains("workers_stay");
    workers_stay_ = stay != nullptr && *stay == true;
    start_afresh();
    begun_.reset();
    living_.reset();
    if (!finished()) ended_.reset();
    return;
  }
  const std::string state = what == "state" ? text_of(event, "state") : "";
  // Without a later run_ended, its launcher died before it could record that.
  if (auto end = end_in(event, state)) {
    // A launcher that ends the run for one that has died does not say again who asked for that.
    if (!end->stop && ended_ && ended_->outcome == end->outcome) end->stop = ended_->stop;
    ended_ = std::move(end);
    down_since_.clear();
  }
  if (what != "state" || !begun_ || begun_->id != attempt) return;
  if (state == to_string(RunState::Starting)) living_ = begun_;
  if (state == to_string(RunState::Pausing) && living_) living_->pausing = true;
  if (state == to_string(RunState::TearingDown) && living_) living_->ending = true;
  if (event.contains("stop_condition") && living_ && !living_->stop_condition)
    living_->stop_condition = text_of(event, "stop_condition");
}

void RunHistory::started_by_hand() {
  if (!ended_ || finished()) return;
  start_afresh();
  ended_.reset();
}

// Forget the failures, but not what was learned of hangs, nor where a worker cannot be killed.
void RunHistory::start_afresh() {
  const FailureMemory& before = policy_.memory();
  FailureMemory memory{.stuck = before.stuck,
                       .trusts_learned_limits = before.trusts_learned_limits};
  policy_ = FailurePolicy(config_, elastic_);
  policy_.recall(std::move(memory), {});
}

void RunHistory::number_nodes_by(const std::vector<std::string>& cluster_nodes) {
  if (!nodes_ || *nodes_ == cluster_nodes) return;
  const std::vector<NodeId> places = places_in(cluster_nodes, *nodes_);
  const auto place = [&](NodeId node) {
    const auto at = static_cast<std::size_t>(node.value);
    if (node.value < 0) return node;  // it is gone already
    return at < places.size() ? places[at] : NodeId{-1 - node.value};
  };
  nodes_ = cluster_nodes;
  for (PlacedNode& placed : placed_.nodes) placed.node = place(placed.node);
  const FailureMemory& before = policy_.memory();
  FailureMemory memory{.counts = before.counts, .location = before.location};
  memory.trusts_learned_limits = before.trusts_learned_limits;
  if (memory.location) memory.location->first.node = place(memory.location->first.node);
  for (const auto& [node, failures] : before.node_failures)
    if (place(node).value >= 0) memory.node_failures[place(node)] = failures;
  for (const NodeId node : before.quarantined)
    if (place(node).value >= 0) memory.quarantined.insert(place(node));
  for (const auto& [node, attempt] : before.stuck)
    if (place(node).value >= 0) memory.stuck[place(node)] = attempt;
  policy_ = FailurePolicy(config_, elastic_);
  policy_.recall(std::move(memory), {});
}

std::optional<boost::json::object> RunHistory::add_found(const std::string& time, Attempt attempt,
                                                         std::uint64_t checkpoint_seq,
                                                         const CheckpointInfo& checkpoint) {
  if (checkpoint.number <= newest_checkpoint_) return std::nullopt;
  auto record = checkpoint_record(attempt, checkpoint_seq, /*report_seq=*/0, checkpoint);
  checkpoint_committed(time, record);
  return record;
}

bool RunHistory::living_is_on(const std::vector<std::string>& cluster_nodes) const {
  if (!living_ || !begun_on_ || *begun_on_ == cluster_nodes) return true;
  const auto is_the_same = [&](const auto& placed) {
    const auto at = static_cast<std::size_t>(placed.node.value);
    return at < begun_on_->size() && at < cluster_nodes.size() &&
           (*begun_on_)[at] == cluster_nodes[at];
  };
  const Placement& on = living_->placement;
  return std::all_of(on.nodes.begin(), on.nodes.end(), is_the_same) &&
         std::all_of(on.ingest.begin(), on.ingest.end(), is_the_same);
}

std::vector<std::string> RunHistory::with_nodes_of_living(
    const std::vector<std::string>& listed) const {
  if (!living_ || !begun_on_) return listed;
  std::vector<std::string> all = *begun_on_;
  std::set<std::string> known(all.begin(), all.end());
  for (const std::string& node : listed)
    if (known.insert(node).second) all.push_back(node);
  return all;
}

void RunHistory::attempt_began(Generation generation, const std::string& time,
                               const boost::json::object& event) {
  LivingAttempt attempt;
  attempt.id = Attempt{static_cast<std::uint32_t>(number_of(event, "attempt"))};
  attempt.generation = generation;
  attempt.placement = placement_of(event, attempt.node_names);
  attempt.placement.ingest = ingest_of(event);
  placed_ = attempt.placement;
  attempt.restart_count = static_cast<int>(number_of(event, "restart_count"));
  attempt.restored = checkpoint_of(event);
  restarts_ = attempt.restart_count;
  if (ended_) start_afresh();  // somebody has started it again by hand
  ended_.reset();
  next_attempt_ = std::max(next_attempt_, attempt.id.next());
  if (!down_since_.empty())
    time_[TimeUse::Down] +=
        std::max<Duration>(Duration{}, parse_utc(time) - parse_utc(down_since_)) *
        attempts_.back().world_size;
  down_since_.clear();
  // It had begun already: a late commit let it begin from a newer checkpoint.
  if (!attempts_.empty() && attempts_.back().id == attempt.id) attempts_.pop_back();
  attempts_.push_back({.id = attempt.id,
                       .world_size = static_cast<int>(number_of(event, "world_size")),
                       .nnodes = static_cast<int>(attempt.placement.nodes.size()),
                       .began = time,
                       .ended = "",
                       .failed = false,
                       .cause = "",
                       .checkpoint_report = 0});
  living_.reset();
  begun_.reset();
  begun_on_ = nodes_;
  if (attempt.placement.world_size > 0) begun_ = std::move(attempt);
}

void RunHistory::attempt_ended(const std::string& time, const boost::json::object& event) {
  living_.reset();
  begun_.reset();
  const auto* failed = event.if_contains("failed");
  const bool has_failed = failed != nullptr && failed->is_bool() && failed->as_bool();
  if (const auto kind = failure_kind_of(text_of(event, "failure"))) {
    if (event.contains("node") && kind != FailureKind::Preempted)
      policy_.node_failed(NodeId{static_cast<std::int32_t>(number_of(event, "node"))}, {});
    (void)policy_.on_failure(*kind, location_of(event), /*moves_away=*/true);  // it was restarted
  }
  if (const auto* right = event.if_contains("learned_limits_right"))
    policy_.learned_limits_were(*right == true);
  if (const auto* stuck = event.if_contains("stuck_nodes"); stuck != nullptr && stuck->is_array()) {
    for (const boost::json::value& node : stuck->as_array())
      if (node.is_int64())
        policy_.node_stuck(NodeId{static_cast<std::int32_t>(node.as_int64())},
                           Attempt{static_cast<std::uint32_t>(number_of(event, "attempt"))});
  }
  if (attempts_.empty()) return;
  attempts_.back().ended = time;
  attempts_.back().failed = has_failed;
  attempts_.back().time = time_in(event);
  time_ += attempts_.back().time;
  down_since_ = time;
  if (has_failed) attempts_.back().cause = text_of(event, "cause");
}

void RunHistory::checkpoint_committed(const std::string& time, const boost::json::object& event) {
  policy_.on_progress();
  policy_.readmit(TimePoint::max());
  newest_checkpoint_ =
      std::max(newest_checkpoint_, static_cast<std::uint64_t>(number_of(event, "checkpoint")));
  const Attempt attempt{static_cast<std::uint32_t>(number_of(event, "attempt"))};
  if (attempts_.empty() || attempts_.back().id != attempt) return;
  attempts_.back().checkpoint_report = static_cast<std::uint64_t>(number_of(event, "report"));
  attempts_.back().checkpoint_at = time;
}

}  // namespace train
