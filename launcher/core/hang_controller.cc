#include "launcher/core/hang_controller.h"

#include <fmt/format.h>

#include <utility>

namespace train {
namespace {

constexpr const char* kStacksOfHang = "hung";

}  // namespace

void HangController::on(const RanksSampled& event) {
  for (const RankSample& sample : event.ranks) {
    const RankTable::Entry* rank = group_.ranks.find(sample.rank);
    if (rank != nullptr && rank->alive()) detector_.sampled(sample, now());
  }
}

std::optional<AttemptCause::Failure> HangController::advance() {
  const auto judge_at = detector_.next_deadline();
  if (judge_at && now() >= *judge_at) judge();
  if (!hang_ || now() < hang_->until) return std::nullopt;
  return std::exchange(hang_, std::nullopt)->failure;
}

void HangController::judge() {
  for (HangDetector::Finding& found : detector_.judge(group_.ranks, run_.nodes, now()))
    take(std::move(found));
}

void HangController::take(HangDetector::Finding found) {
  using Kind = HangDetector::Finding::Kind;
  const Rank rank = found.ranks.front();
  if (found.kind == Kind::Cleared && hang_ && hang_->failure.rank == rank) hang_.reset();
  if (!found.fails || hang_) {
    const bool suspect = found.kind == Kind::Suspect;
    return run_.progress.note(suspect ? NoteLevel::Info : NoteLevel::Warning,
                              std::move(found.text));
  }
  hang_ = Hang{{.kind = FailureKind::Hung,
                .cause = std::move(found.text),
                .rank = rank,
                .node = group_.ranks.find(rank)->node},
               now() + kStacksWait};
  collect_stacks(kStacksOfHang, {});
}

void HangController::collect_stacks(const std::string& why, std::vector<Rank> ranks) {
  CollectStacks order{group_.id, {}, std::move(ranks), why};
  group_.hosts.for_each_there([&](NodeId node) { order.nodes.push_back(node); });
  run_.progress.add(std::move(order));
}

void HangController::on(const StacksCollected& event) {
  if (event.why != kStacksOfHang || !hang_) return;
  run_.progress.note(NoteLevel::Info,
                     event.error.empty()
                         ? fmt::format("stacks of all ranks: {}\n{}", event.path, event.classes)
                         : "no stacks: " + event.error);
  hang_->until = now();  // advance() ends the group
}

std::optional<TimePoint> HangController::next_deadline() const {
  const auto judge_at = detector_.next_deadline();
  if (!hang_) return judge_at;
  return judge_at ? std::min(*judge_at, hang_->until) : hang_->until;
}

}  // namespace train
