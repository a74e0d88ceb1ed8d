#include "launcher/core/checkpoint_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace train {
namespace {

using Positions = std::map<Rank, CheckpointPositionTold>;

/// Ranks that have reported, or called, so differently often do not count the same steps.
constexpr std::uint64_t kApartMax = 64;
/// No program counts further; what a worker says may be anything.
constexpr std::uint64_t kCountMax = std::uint64_t{1} << 62;

std::string place_of(const CheckpointOrder& order) {
  return order.call > 0 ? fmt::format("call {} of checkpoint_requested()", order.call)
                        : fmt::format("report {}", order.report_seq);
}

/// Return why this rank cannot make the checkpoint at the same call as the others, or "".
std::string cannot_by_call(const Positions& positions) {
  const auto [fewest, most] = std::minmax_element(
      positions.begin(), positions.end(),
      [](const auto& a, const auto& b) { return a.second.calls < b.second.calls; });
  if (fewest->second.calls == 0) {
    return fmt::format("rank {} has not called checkpoint_requested() yet", fewest->first.value);
  }
  if (most->second.calls > 2 * fewest->second.calls + kApartMax) {
    return fmt::format(
        "the ranks do not call checkpoint_requested() alike: rank {} has called it {} times, "
        "rank {} {}",
        most->first.value, most->second.calls, fewest->first.value, fewest->second.calls);
  }
  return "";
}

/// The same of a report.
std::string cannot_by_report(const Positions& positions) {
  std::uint64_t most = 0, fewest = UINT64_MAX;
  Rank least{0}, furthest{0};
  for (const auto& [rank, position] : positions) {
    if (!position.has_function)
      return fmt::format(
          "rank {} has set no function with train::on_stop, and has not called "
          "train::checkpoint_requested()",
          rank.value);
    if (position.reports > most) most = position.reports, furthest = rank;
    if (position.reports < fewest) fewest = position.reports, least = rank;
  }
  if (most > 0 && fewest == 0) return fmt::format("rank {} has not reported yet", least.value);
  if (most > 2 * fewest + kApartMax)
    return fmt::format("the ranks do not report alike: rank {} has made {} reports, rank {} {}",
                       furthest.value, most, least.value, fewest);
  return "";
}

}  // namespace

CheckpointOrder& CheckpointRequests::order(CheckpointStep step) {
  if (step == CheckpointStep::Ask)
    newest_ = CheckpointOrder{.request = newest_ ? newest_->request + 1 : 1};
  newest_->step = step;
  return *newest_;
}

CheckpointRequests::Effects CheckpointRequests::asked(const std::string& id, const RankTable& ranks,
                                                      TimePoint now) {
  const auto refuse = [&](std::string why) {
    return Effects{CheckpointAnswered{.id = id, .number = 0, .error = std::move(why)}};
  };
  if (askers_.size() >= kCheckpointAskersMax)
    return refuse("too many have asked for a checkpoint already");
  if (std::holds_alternative<Idle>(state_)) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const RankTable::Entry& rank = ranks.all()[i];
      if (!rank.alive()) return refuse(fmt::format("rank {} has ended", i));
      if (!rank.joined) return refuse(fmt::format("rank {} has not called the SDK yet", i));
    }
  }
  askers_.push_back({id, now + kCheckpointWithin});
  if (!std::holds_alternative<Idle>(state_)) return {};  // joined to the open one
  state_ = Asking{.until = now + kPositionsWithin};
  return {order(CheckpointStep::Ask)};
}

CheckpointRequests::Effects CheckpointRequests::told(const CheckpointPositionTold& event,
                                                     const RankTable& ranks) {
  auto* asking = std::get_if<Asking>(&state_);
  if (asking == nullptr || event.request != newest_->request) return {};
  if (!event.error.empty())
    return cancel(fmt::format("rank {}: {}", event.rank.value, event.error));
  if (event.calls > kCountMax || event.reports > kCountMax)
    return cancel(fmt::format("rank {} says that it has got impossibly far", event.rank.value));
  asking->positions.insert_or_assign(event.rank, event);
  if (asking->positions.size() < ranks.size()) return {};
  return decide(asking->positions);
}

// No rank goes on from where it was when it told its position, so the next place after the furthest
// is one that none has passed.
CheckpointRequests::Effects CheckpointRequests::decide(const Positions& positions) {
  std::uint64_t calls = 0, reports = 0;
  for (const auto& [rank, position] : positions) {
    calls = std::max(calls, position.calls);
    reports = std::max(reports, position.reports);
  }
  const std::string cannot = calls > 0 ? cannot_by_call(positions) : cannot_by_report(positions);
  if (!cannot.empty()) return cancel(cannot);
  CheckpointOrder& make = order(CheckpointStep::Make);
  (calls > 0 ? make.call : make.report_seq) = (calls > 0 ? calls : reports) + 1;
  state_ = Making{};
  return {make, Note{NoteLevel::Info, fmt::format("a checkpoint was asked for: all ranks make it "
                                                  "at {}",
                                                  place_of(make))}};
}

CheckpointRequests::Effects CheckpointRequests::cancel(const std::string& why) {
  Effects effects{order(CheckpointStep::Cancel)};
  answer(effects, 0, why);
  return effects;
}

/// Answer all who ask, and close the request.
void CheckpointRequests::answer(Effects& effects, std::uint64_t number, const std::string& error) {
  for (Asker& asker : std::exchange(askers_, {}))
    effects.push_back(
        CheckpointAnswered{.id = std::move(asker.id), .number = number, .error = error});
  state_ = Idle{};
}

void CheckpointRequests::staged(const StagedShard& shard) {
  auto* making = std::get_if<Making>(&state_);
  if (making == nullptr || shard.request != newest_->request) return;
  making->staged.insert(shard.rank);
  making->checkpoint_seq = shard.checkpoint_seq;
}

CheckpointRequests::Effects CheckpointRequests::committed(std::uint64_t checkpoint_seq,
                                                          std::uint64_t number) {
  const auto* making = std::get_if<Making>(&state_);
  if (making == nullptr || making->checkpoint_seq != checkpoint_seq) return {};
  Effects effects;
  answer(effects, number, "");
  return effects;
}

CheckpointRequests::Effects CheckpointRequests::not_kept(std::uint64_t checkpoint_seq,
                                                         const std::string& error) {
  const auto* making = std::get_if<Making>(&state_);
  if (making == nullptr || making->checkpoint_seq != checkpoint_seq) return {};
  Effects effects;
  answer(effects, 0, "the checkpoint is not kept: " + error);
  return effects;
}

CheckpointRequests::Effects CheckpointRequests::rank_ended(Rank rank) {
  if (std::holds_alternative<Asking>(state_))
    return cancel(fmt::format("rank {} has ended", rank.value));
  const auto* making = std::get_if<Making>(&state_);
  if (making == nullptr || making->staged.contains(rank)) return {};
  Effects effects;
  answer(effects, 0, fmt::format("rank {} ended before it had made the checkpoint", rank.value));
  return effects;
}

CheckpointRequests::Effects CheckpointRequests::leave_running(RunState state) {
  if (!std::holds_alternative<Asking>(state_)) return {};
  return cancel(fmt::format("the workers do not train any more: the run is {}", to_string(state)));
}

CheckpointRequests::Effects CheckpointRequests::attempt_ended() {
  Effects effects;
  answer(effects, 0, "the workers ended before the checkpoint was kept");
  return effects;
}

CheckpointRequests::Effects CheckpointRequests::advance(TimePoint now) {
  if (const auto* asking = std::get_if<Asking>(&state_); asking && now >= asking->until)
    return cancel(fmt::format("not all ranks answered within {} s", kPositionsWithin / seconds(1)));
  Effects effects;
  std::erase_if(askers_, [&](Asker& asker) {
    if (now < asker.until) return false;
    effects.push_back(CheckpointAnswered{
        .id = std::move(asker.id),
        .number = 0,
        .error =
            fmt::format("the ranks have not made it within {} min; they will if they come to {}",
                        kCheckpointWithin / seconds(60), place_of(*newest_))});
    return true;
  });
  // A rank may never come there. Whoever asks next asks anew.
  if (askers_.empty()) state_ = Idle{};
  return effects;
}

std::optional<TimePoint> CheckpointRequests::next_deadline() const {
  if (const auto* asking = std::get_if<Asking>(&state_)) return asking->until;
  if (askers_.empty()) return std::nullopt;
  return askers_.front().until;  // they are in the order in which they asked
}

// ---- an earlier launcher's

void CheckpointRequests::found(const CheckpointOrder& order) {
  if (order.request == 0 || !std::holds_alternative<Idle>(state_)) return;
  if (newest_ && order.request < newest_->request) return;
  const bool same = newest_ && order.request == newest_->request;
  if (same && newest_->step != CheckpointStep::Ask) return;  // that was decided
  newest_ = order;
  found_ = true;
}

// Where the earlier launcher had told only some nodes its decision, all others follow it.
CheckpointRequests::Effects CheckpointRequests::drop_found() {
  if (!std::exchange(found_, false)) return {};
  if (newest_->step != CheckpointStep::Ask) return {*newest_};
  return {order(CheckpointStep::Cancel),
          Note{NoteLevel::Warning,
               "a checkpoint was asked for while an earlier launcher ended: the request is lost"}};
}

}  // namespace train
