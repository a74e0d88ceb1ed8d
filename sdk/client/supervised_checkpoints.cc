// The part of SupervisedSession that hands checkpoints over, and waits for what becomes of them.
#include <fmt/format.h>

#include <utility>

#include "lib/base/time.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/worker_messages.h"
#include "sdk/client/failure.h"
#include "sdk/client/metrics_dict.h"
#include "sdk/client/progress.h"
#include "sdk/client/supervised_session.h"

namespace train::sdk {

void SupervisedSession::report_with_checkpoint(const Metrics& metrics, std::string_view packed,
                                               const Checkpoint& checkpoint) {
  const InPhase handing_over(Phase::Checkpoint);
  CheckpointStaged staged;
  staged.metadata_json = metadata_json(*checkpoint.impl());
  std::uint64_t report_seq = 0;
  {
    const std::lock_guard order(checkpoint_order_);
    Lock lock(mutex_);
    staged.checkpoint_seq = begin_checkpoint(lock);
    staged.dir = fmt::format("{}/ckpt-{}", info().staging_dir, staged.checkpoint_seq);
    lock.unlock();
    // This may take long. If it throws, nothing was reported.
    stage_directory(*checkpoint.impl(), staged.dir);
    lock.lock();
    staged.report_seq = report_seq = queue_report(lock, packed);
    staged.request = std::max(checkpoint_gate_.take_report(staged.report_seq),
                              std::exchange(checkpoint_request_, 0));
    checkpoint_seq_ = staged.checkpoint_seq;
    hand_over_checkpoint(checkpoint_seq_);
    last_checkpoint_report_seq_ = staged.report_seq;
    unresolved_.insert(staged.checkpoint_seq);
    lock.unlock();
    link_->wake();
    add_checkpoint_job(checkpoint, std::move(staged), metrics);
  }
  Lock lock(mutex_);
  wait_at_gate(lock, metrics);
  keep_pace(lock, metrics, report_seq);
}

/// Wait here while the launcher chooses where all ranks make a checkpoint that somebody asked for.
void SupervisedSession::wait_for_checkpoint_order(Lock& lock) {
  if (!checkpoint_gate_.holds()) return;
  const InPhase waiting(Phase::Wait);
  changed_.wait(lock, [&] { return !checkpoint_gate_.holds() || closed_ || gate_.finished(); });
  check_usable();
}

bool SupervisedSession::checkpoint_requested() {
  Lock lock(mutex_);
  if (checkpoint_gate_.holds() && !closed_ && !gate_.finished()) {
    const InPhase waiting(Phase::Wait);
    changed_.wait(lock, [&] { return !checkpoint_gate_.holds() || closed_ || gate_.finished(); });
  }
  const std::uint64_t request = checkpoint_gate_.take_call(++checkpoint_calls_);
  if (request != 0) checkpoint_request_ = request;
  return request != 0;
}

/// Wait until one more checkpoint may be unresolved, and return its number. The caller holds
/// checkpoint_order_.
std::uint64_t SupervisedSession::begin_checkpoint(Lock& lock) {
  check_usable();
  std::optional<InPhase> waiting;
  if (unresolved_.size() >= kUnresolvedCheckpointsMax) waiting.emplace(Phase::Wait);
  while (unresolved_.size() >= kUnresolvedCheckpointsMax) {
    changed_.wait(lock);
    check_usable();
  }
  return checkpoint_seq_ + 1;
}

void SupervisedSession::add_checkpoint_job(const Checkpoint& checkpoint, CheckpointStaged staged,
                                           const Metrics& metrics) {
  const Checkpoint::Impl& impl = *checkpoint.impl();
  staged.metrics_json = to_json(to_dict(metrics));
  stager_->add({.staged = std::move(staged),
                .write = impl.form == Checkpoint::Impl::Form::Write ? impl.write : nullptr});
}

/// Make the checkpoint of this report with on_stop's function. `request`: that
/// somebody asked for; 0: the group stops.
void SupervisedSession::make_stop_checkpoint(Lock& lock, const Metrics& metrics,
                                             std::uint64_t report_seq, std::uint64_t request) {
  const auto make = stop_function();
  if (!make) return;
  stop_maker_ = std::this_thread::get_id();
  struct Leave {  // also when `make` throws, which ends the loop like any exception
    std::thread::id& maker;
    Lock& lock;
    ~Leave() {
      if (!lock.owns_lock()) lock.lock();
      maker = {};
    }
  } leave{stop_maker_, lock};
  lock.unlock();
  const InPhase handing_over(Phase::Checkpoint);
  const Checkpoint checkpoint = make();
  CheckpointStaged staged;
  staged.metadata_json = metadata_json(*checkpoint.impl());
  const std::lock_guard order(checkpoint_order_);
  lock.lock();
  staged.checkpoint_seq = begin_checkpoint(lock);
  staged.report_seq = report_seq;
  staged.request = request;
  staged.dir = fmt::format("{}/ckpt-{}", info().staging_dir, staged.checkpoint_seq);
  lock.unlock();
  stage_directory(*checkpoint.impl(), staged.dir);
  lock.lock();
  checkpoint_seq_ = staged.checkpoint_seq;
  hand_over_checkpoint(checkpoint_seq_);
  last_checkpoint_report_seq_ = report_seq;
  unresolved_.insert(staged.checkpoint_seq);
  lock.unlock();
  add_checkpoint_job(checkpoint, std::move(staged), metrics);
}

std::optional<std::filesystem::path> SupervisedSession::wait_for_checkpoint() {
  const InPhase waiting(Phase::Wait);
  Lock lock(mutex_);
  const std::uint64_t newest = checkpoint_seq_;
  const auto resolved = [&] { return unresolved_.empty() || *unresolved_.begin() > newest; };
  changed_.wait(lock, [&] { return resolved() || closed_ || gate_.finished(); });
  if (!resolved()) check_usable();
  if (newest == 0 || newest_outcome_.checkpoint_seq != newest || newest_outcome_.path.empty())
    return std::nullopt;
  return newest_outcome_.path;
}

std::vector<AnsweredCheckpoint> SupervisedSession::reported_checkpoints(
    bool validated, std::chrono::milliseconds timeout) {
  const InPhase waiting(Phase::Wait);
  Lock lock(mutex_);
  check_usable();
  using Clock = std::chrono::steady_clock;
  const bool forever = timeout == std::chrono::milliseconds::max();
  const Clock::time_point until = forever ? Clock::time_point::max() : Clock::now() + timeout;
  const auto wait = [&](auto&& reached) {
    const auto over = [&] { return reached() || closed_ || gate_.finished(); };
    if (forever) {
      changed_.wait(lock, over);
    } else if (!changed_.wait_until(lock, until, over)) {
      throw Failure("timeout",
                    fmt::format("get_all_reported_checkpoints: not all checkpoints are "
                                "{} within {}",
                                validated ? "validated" : "committed", format_duration(timeout)));
    }
    if (!reached()) check_usable();
  };
  const std::uint64_t newest = checkpoint_seq_;
  wait([&] { return unresolved_.empty() || *unresolved_.begin() > newest; });
  const std::uint64_t request = ++ask_request_;
  const auto entry = asks_.emplace(request, std::nullopt).first;
  struct Forget {
    decltype(asks_)& all;
    decltype(asks_)::iterator entry;
    ~Forget() { all.erase(entry); }
  } forget{asks_, entry};  // destroyed before the lock
  push_message(AskCheckpoints{.rank = info().rank, .request = request, .validated = validated});
  wait([&] { return entry->second.has_value(); });
  return std::move(entry->second->checkpoints);
}

Result<Unit> SupervisedSession::on_request_checkpoint(const RequestCheckpoint& message) {
  const auto step = parse_checkpoint_step(message.step);
  if (!step)
    return Error{Errc::Protocol,
                 fmt::format("RequestCheckpoint with the unknown step '{}'", message.step)};
  if (checkpoint_gate_.order({message.request, *step, message.report_seq, message.call}))
    push_message(CheckpointPosition{.rank = info().rank,
                                    .request = message.request,
                                    .reports = queue_.last_report_seq(),
                                    .calls = checkpoint_calls_,
                                    .has_function = stop_function() != nullptr,
                                    .error = {}});
  return Unit{};
}

void SupervisedSession::on_outcome(CheckpointOutcome message) {
  unresolved_.erase(message.checkpoint_seq);
  if (!message.error.empty() && info().rank == 0)
    std::fprintf(stderr, "trainrun: checkpoint %llu of this attempt was not kept: %s\n",
                 static_cast<unsigned long long>(message.checkpoint_seq), message.error.c_str());
  if (message.checkpoint_seq >= newest_outcome_.checkpoint_seq)
    newest_outcome_ = std::move(message);
}

}  // namespace train::sdk
