#include "launcher/core/hang_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "launcher/core/collective_tracker.h"

namespace train {
namespace {

constexpr const char* kStacksOfHang = "hung";

}  // namespace

void HangController::on(const RanksSampled& event) {
  for (const RankSample& sample : event.ranks) {
    // Workers of other roles may have nothing to do for any time.
    if (group_.ranks.trains(sample.rank) && group_.ranks.find(sample.rank)->alive())
      detector_.sampled(sample, now());
  }
}

std::optional<AttemptCause::Failure> HangController::advance() {
  const auto judge_at = detector_.next_deadline();
  if (judge_at && now() >= *judge_at) judge();
  if (!ends_at_ || now() < *ends_at_) return std::nullopt;
  // The rank that was accused first may have moved since, ended, or be held by a debugger.
  auto hung = detector_.failing(group_.ranks, now());
  ends_at_.reset();
  if (!hung) {
    if (detector_.accuses(group_.ranks)) ends_at_ = now() + kJudgeEvery;
    return std::nullopt;
  }
  blame_by_stacks(*hung);
  const std::string& recorded = stacks_.flight_records;
  if (!recorded.empty()) hung->text += "; " + recorded.substr(0, recorded.find('\n'));
  const Rank rank = hung->ranks.front();
  return AttemptCause::Failure{.kind = FailureKind::Hung,
                               .cause = std::move(hung->text),
                               .rank = rank,
                               .node = group_.ranks.find(rank)->node,
                               .marks = hung->marks};
}

/// Of ranks that hang alike, blame one that does not wait in a collective call, if others do.
void HangController::blame_by_stacks(HangDetector::Finding& hung) const {
  const auto is_alike = [&hung](Rank rank) {
    return std::find(hung.alike.begin(), hung.alike.end(), rank) != hung.alike.end();
  };
  std::vector<Rank> waiting;
  std::optional<Rank> first;
  std::string where;
  for (const Rank rank : stacks_.waiting)
    if (is_alike(rank)) waiting.push_back(rank);
  for (const auto& [rank, place] : stacks_.elsewhere) {
    if (!is_alike(rank) || (first && *first < rank)) continue;
    first = rank;
    where = place;
  }
  if (waiting.empty() || !first) return;
  const Rank suspect = *first;
  const NodeId node = group_.ranks.find(suspect)->node;
  std::string text =
      fmt::format("{} on {} is in {} by its stack, while {} {} in a collective call or for a GPU",
                  list_ranks({suspect}), run_.nodes.name(node), where, list_ranks(waiting),
                  waiting.size() == 1 ? "waits" : "wait");
  hung.text = text + "; " + hung.text;
  hung.ranks = {suspect};
}

void HangController::judge() {
  for (HangDetector::Finding& found : detector_.judge(group_.ranks, run_.nodes, now())) {
    const bool suspect = found.kind == HangDetector::Finding::Kind::Suspect;
    if (found.kind == HangDetector::Finding::Kind::Hung) tell_of(found);
    if (found.fails && !ends_at_) {
      ends_at_ = now() + kStacksWait;
      stacks_ = {};
      collect_stacks(kStacksOfHang, {});
    } else {
      run_.progress.note(suspect ? NoteLevel::Info : NoteLevel::Warning, std::move(found.text));
    }
  }
}

void HangController::tell_of(const HangDetector::Finding& found) {
  const Rank rank = found.ranks.front();
  const RankTable::Entry* entry = group_.ranks.find(rank);
  run_.progress.add(HangFound{.attempt = group_.id,
                              .rank = rank,
                              .node = entry == nullptr ? "" : run_.nodes.name(entry->node),
                              .text = found.text});
}

void HangController::collect_stacks(const std::string& why, std::vector<Rank> ranks) {
  CollectStacks order{group_.id, {}, std::move(ranks), why};
  group_.hosts.for_each_there([&](NodeId node) { order.nodes.push_back(node); });
  run_.progress.add(std::move(order));
}

void HangController::on(const StacksCollected& event) {
  if (event.why != kStacksOfHang || !ends_at_) return;
  ends_at_ = now();  // advance() ends the group
  stacks_ = event;
  tell_lines(event.flight_records);
  if (!event.error.empty()) return run_.progress.note(NoteLevel::Info, "no stacks: " + event.error);
  run_.progress.note(NoteLevel::Info, "stacks of all ranks: " + event.path);
  tell_lines(event.classes);
}

void HangController::tell_lines(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    run_.progress.note(NoteLevel::Info, "  " + std::string(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::optional<TimePoint> HangController::next_deadline() const {
  const auto judge_at = detector_.next_deadline();
  if (!ends_at_) return judge_at;
  return judge_at ? std::min(*judge_at, *ends_at_) : *ends_at_;
}

}  // namespace train
