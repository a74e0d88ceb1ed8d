#include "sdk/client/supervised_session.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cstdio>
#include <utility>

#include "lib/base/overloaded.h"
#include "lib/base/time.h"
#include "lib/model/user_error.h"
#include "lib/model/worker_call.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "lib/wire/decode_any.h"
#include "lib/wire/reports.h"
#include "lib/wire/worker_messages.h"
#include "sdk/client/failure.h"
#include "sdk/client/ingest.h"
#include "sdk/client/memory/allocation_watch.h"
#include "sdk/client/metrics_dict.h"
#include "sdk/client/progress.h"
#include "sdk/client/report_time.h"
#include "sdk/client/term_guard.h"

namespace train::sdk {
namespace {

/// The messages that a supervisor sends to a worker after the welcome.
using SupervisorMessage =
    AnyOf<AckReports, CheckpointOutcome, CollectiveResult, ReportedCheckpoints, OnceReply,
          PauseWorkers, RequestCheckpoint, CallWorkers, TakeMemoryProfile, TellIngestRoster,
          StopIngest, GoodbyeAck>;

constexpr auto kHandOverWithin = seconds(30);

/// Write one report to `packed`, over what it holds.
void pack_report(std::int64_t wall_us, bool has_checkpoint, const Metrics& metrics,
                 std::string& packed) {
  if (metrics.size() > kReportMetricsMax) {
    throw Failure(
        "invalid_argument",
        fmt::format("report: {} metrics, at most {} fit into one report (put large values "
                    "into a checkpoint or a file)",
                    metrics.size(), kReportMetricsMax));
  }
  packed.clear();
  append_report(wall_us, has_checkpoint, metrics, packed);
  if (packed.size() > kReportBytesMax) {
    const std::size_t bytes = std::exchange(packed, {}).size();
    throw Failure(
        "invalid_argument",
        fmt::format(
            "report: {} bytes of metrics, at most {} fit into one report (put large values into "
            "a checkpoint or a file)",
            bytes, kReportBytesMax));
  }
}

Dict parse_dict(const std::string& json) {
  if (json.empty()) return {};
  const Value value = parse_json(json);
  return value.is_null() ? Dict{} : value.as<Dict>();
}

}  // namespace

WorkerInfo to_worker_info(const Welcome& welcome) {
  WorkerInfo info;
  static_cast<WorkerRanks&>(info) = welcome.ranks.in_role();
  info.rank_of_all = welcome.ranks.rank;
  if (const char* role = std::getenv("ROLE_NAME")) info.role_name = role;
  info.supervised = true;
  info.attempt = welcome.attempt;
  info.run_dir = welcome.run_dir;
  info.staging_dir = welcome.staging_dir;
  info.master_listen_fd = welcome.master_listen_fd;
  const JobContext& run = welcome.run;
  info.run_id = run.run_id;
  info.run_name = run.run_name;
  info.config = Config(parse_dict(run.config_json));
  info.metadata = parse_dict(run.metadata_json);
  info.datasets = parse_dict(run.datasets_json);
  info.master_addr = run.master_addr;
  info.master_port = static_cast<int>(run.master_port);
  info.collectives = run.collectives;
  info.collective_timeout = milliseconds(run.collective_timeout_ms);
  info.keeps_workers = run.keeps_workers && info.trains();
  info.ingest = welcome.ingest;
  info.restore_dir = run.restore_dir;
  if (run.restored_epoch >= 0) info.restored_epoch = run.restored_epoch;
  return info;
}

SupervisedSession::SupervisedSession(JoinedSocket joined)
    : WorkerSession(to_worker_info(joined.welcome)),
      attempt_(joined.welcome.attempt),
      report_window_(joined.welcome.run.report_window),
      calls_(ServedFunctions::of_process(),
             [this](ServedCalls::Answer answer) { push_answer(std::move(answer)); }) {
  stager_ = std::make_unique<CheckpointStager>([this](CheckpointStaged staged) {
    const std::lock_guard lock(mutex_);
    push_message(staged);  // it is sent after its report, which was queued before
  });
  profiler_ = std::make_unique<MemoryProfiler>([this](const AllocationStacks& piece) {
    const std::lock_guard lock(mutex_);
    if (!closed_ && !goodbye_sent_) push_message(piece);
  });
  ucred supervisor{};
  socklen_t size = sizeof supervisor;
  if (::getsockopt(joined.fd, SOL_SOCKET, SO_PEERCRED, &supervisor, &size) == 0)
    guard_against_term(supervisor.pid);
  SupervisorLink::Owner owner;
  owner.fill = [this](std::string& out) { fill(out); };
  owner.on_frame = [this](const Frame& frame) { return on_frame(frame); };
  owner.on_closed = [this](const Error& error) {
    {
      const std::lock_guard lock(mutex_);
      closed_ = error.describe();
    }
    changed_.notify_all();
    profiler_->cancel();  // nobody waits for it any more
    ingest_stop_.request_stop();
  };
  link_ = std::make_unique<SupervisorLink>(joined.fd, std::move(joined.reader), std::move(owner));
}

SupervisedSession::~SupervisedSession() {
  calls_.close("");
  profiler_->end();
  stager_.reset();
  link_.reset();
}

// ---- reports

void SupervisedSession::report(const Dict& metrics, const Checkpoint* checkpoint) {
  const Metrics flat = flatten(metrics);
  const ReportTime now = report_time();
  if (checkpoint != nullptr) {
    std::string packed;
    pack_report(now.wall_us, true, flat, packed);
    take_histograms(packed);
    end_step(StepSource::Report, now.monotonic_ns);
    return report_with_checkpoint(flat, packed, *checkpoint);
  }
  thread_local std::string packed;  // keeps its memory
  pack_report(now.wall_us, false, flat, packed);
  take_histograms(packed);
  end_step(StepSource::Report, now.monotonic_ns);
  Lock lock(mutex_);
  const std::uint64_t report_seq = queue_report(lock, packed);
  const std::uint64_t request = checkpoint_gate_.take_report(report_seq);
  if (request != 0) {
    link_->wake();
    make_stop_checkpoint(lock, flat, report_seq, request);
    wait_at_gate(lock, flat);
    return keep_pace(lock, flat, report_seq);
  }
  if (gate_.closed()) {
    link_->wake();
    const InPhase reporting(Phase::Report);
    wait_at_gate(lock, flat);
    return keep_pace(lock, flat, report_seq);
  }
  // Wake a sleeping link, which sends at once; a busy one looks again within a millisecond.
  const bool wake = link_sleeps_ || queue_.unsent_bytes() > kReportBatchBytesMax;
  link_sleeps_ = false;
  if (report_window_ > 0) return keep_pace(lock, flat, report_seq);
  lock.unlock();
  if (wake) link_->wake();
}

std::uint64_t SupervisedSession::queue_report(Lock& lock, std::string_view packed) {
  check_usable();
  wait_for_checkpoint_order(lock);
  if (queue_.has_capacity(packed.size())) return queue_.append(packed);
  const InPhase reporting(Phase::Report);
  while (!queue_.has_capacity(packed.size())) {
    link_->wake();
    changed_.wait(lock);
    check_usable();
    wait_for_checkpoint_order(lock);
  }
  return queue_.append(packed);
}

/// Hold a report() here while the driver has left too many rounds unacknowledged. It may call what
/// this program serves meanwhile.
void SupervisedSession::keep_pace(Lock& lock, const Metrics& metrics, std::uint64_t report_seq) {
  if (report_window_ == 0) return;
  link_->wake();
  if (stop_maker_ == std::this_thread::get_id()) return;
  if (ServedCalls::in_call()) return;  // its caller waits for the answer
  const auto is_ahead = [&] {
    return !closed_ && !gate_.stopping() && report_seq >= acknowledged_ + report_window_;
  };
  std::optional<InPhase> reporting;
  while (is_ahead()) {
    if (gate_.closed()) {  // ranks meet at a checkpoint: perhaps at this report
      wait_at_gate(lock, metrics);
      if (!is_ahead()) break;
    }
    if (calls_.waiting()) {
      reporting.reset();
      lock.unlock();
      (void)calls_.run();
      lock.lock();
    } else {
      if (!reporting) reporting.emplace(Phase::Report);
      changed_.wait(lock);
    }
  }
  check_usable();
  if (gate_.closed()) wait_at_gate(lock, metrics);
}

/// Hold a report() here while the ranks come to rest (a graceful stop, or a meeting at a
/// checkpoint). The report itself is queued already.
void SupervisedSession::wait_at_gate(Lock& lock, const Metrics& metrics) {
  if (stop_maker_ == std::this_thread::get_id()) return;  // a report from within on_stop's function
  while (true) {
    check_usable();  // throws Stopped at the last step
    const bool has_checkpoint = last_checkpoint_report_seq_ == queue_.last_report_seq();
    const StopGate::Next next =
        gate_.after_report(queue_.last_report_seq(), has_checkpoint || stop_function() != nullptr);
    if (next == StopGate::Next::GoOn) return;
    const bool at_target = next == StopGate::Next::Arrived || next == StopGate::Next::Checkpoint;
    // Reports of other threads, or of on_stop's function, do not move the place where we arrived.
    if (at_target && (!arrived_at_ || *arrived_at_ < gate_.target())) {
      arrived_at_ = queue_.last_report_seq();
      stop_checkpoint_made_ = has_checkpoint;
    }
    if (next == StopGate::Next::Checkpoint && !stop_checkpoint_made_) {
      stop_checkpoint_made_ = true;
      const std::uint64_t report_seq = queue_.last_report_seq();
      if (last_checkpoint_report_seq_ == report_seq) continue;
      make_stop_checkpoint(lock, metrics, report_seq, 0);
      continue;
    }
    const bool makes_one = stop_maker_ != std::thread::id();
    const bool may_make_one = !stop_checkpoint_made_ && stop_function();
    const WorkerPaused here{.rank = info().rank,
                            .report_seq = at_target ? *arrived_at_ : queue_.last_report_seq(),
                            .checkpoint_seq = checkpoint_seq_,
                            .arrived = at_target,
                            .checkpoint_pending = at_target && (makes_one || may_make_one)};
    if (announced_ != here) {
      announced_ = here;
      push_message(here);
    }
    changed_.wait(lock);
  }
}

// ---- collectives

std::vector<std::string> SupervisedSession::all_gather(const std::string& name,
                                                       const std::string& mine,
                                                       std::chrono::milliseconds timeout) {
  check_collective(name, mine);
  const InPhase waiting(Phase::Collective, name);
  Lock lock(mutex_);
  check_usable();
  const std::uint64_t sequence = ++collective_sequence_;
  const auto entry = collectives_.emplace(sequence, std::nullopt).first;
  push_message(
      CollectiveJoin{.rank = info().rank, .sequence = sequence, .name = name, .data = mine});
  struct Forget {
    decltype(collectives_)& all;
    decltype(collectives_)::iterator entry;
    ~Forget() { all.erase(entry); }
  } forget{collectives_, entry};  // destroyed before the lock
  const auto answered = [&] { return entry->second || closed_ || gate_.finished(); };
  if (timeout == std::chrono::milliseconds::max()) {
    changed_.wait(lock, answered);
  } else if (!changed_.wait_for(lock, timeout, answered)) {
    throw Failure(
        "timeout",
        fmt::format("'{}' (collective call {} of rank {}): not all ranks made it within {}", name,
                    sequence, info().rank, format_duration(timeout)));
  }
  if (!entry->second) check_usable();
  if (!entry->second->error.empty()) throw Failure("unavailable", entry->second->error);
  if (entry->second->parts.size() != static_cast<std::size_t>(info().world_size)) {
    throw Failure(
        "protocol",
        fmt::format("'{}': the launcher answered with the parts of {} ranks, this attempt has {}",
                    name, entry->second->parts.size(), info().world_size));
  }
  return std::move(entry->second->parts);
}

OnceReply SupervisedSession::ask_once(Lock& lock, const std::string& name) {
  OnceCall& call = once_[name];
  push_message(OnceBegin{.name = name});
  changed_.wait(
      lock, [&] { return call.state != OnceCall::State::Asked || closed_ || gate_.finished(); });
  if (call.state == OnceCall::State::Asked) {
    once_.erase(name);
    changed_.notify_all();
    check_usable();
  }
  return call.reply;
}

void SupervisedSession::once_per_node(const std::string& name, const std::function<void()>& f) {
  const InPhase waiting(Phase::Once, name);
  Lock lock(mutex_);
  check_usable();
  for (auto it = once_.find(name); it != once_.end(); it = once_.find(name)) {
    if (it->second.state == OnceCall::State::Done) return;
    if (it->second.runner == std::this_thread::get_id()) {
      throw Failure("invalid_argument",
                    fmt::format("once_per_node('{}') is called by its own function", name));
    }
    changed_.wait(lock);  // another thread of this worker is running it
    check_usable();
  }
  const OnceReply reply = ask_once(lock, name);
  std::string failed = reply.verdict == "failed" ? reply.error : std::string();
  std::exception_ptr thrown;
  if (reply.verdict == "run") {
    once_[name].runner = std::this_thread::get_id();
    lock.unlock();
    try {
      const InPhase running(Phase::Own, name);
      f();
    } catch (const std::exception& e) {
      thrown = std::current_exception();
      failed = *e.what() != '\0' ? e.what() : "an exception without a text";
    } catch (...) {
      thrown = std::current_exception();
      failed = "something other than a std::exception was thrown";
    }
    lock.lock();
    push_message(OnceEnd{.name = name, .error = failed});
  }
  if (failed.empty()) {
    once_[name].state = OnceCall::State::Done;
  } else {
    once_.erase(name);
  }
  changed_.notify_all();
  if (thrown) std::rethrow_exception(thrown);
  if (!failed.empty()) {
    throw Failure("unavailable",
                  fmt::format("once_per_node('{}') failed on the rank of this node that ran it: {}",
                              name, failed));
  }
}

// ---- the end

void SupervisedSession::set_result(std::string json) {
  if (json.size() > kResultBytesMax) {
    throw Failure("invalid_argument", fmt::format("set_result: {} bytes of JSON, at most {} fit",
                                                  json.size(), kResultBytesMax));
  }
  const std::lock_guard lock(mutex_);
  check_trains();
  if (closed_) throw Failure("unavailable", *closed_);
  unsent_result_ = std::move(json);
  link_->wake();
}

void SupervisedSession::send_error(const UserError& error) {
  const std::lock_guard lock(mutex_);
  const UserError cut{error.what.substr(0, kErrorBytesMax), error.type.substr(0, kErrorBytesMax),
                      error.stack.substr(0, kErrorBytesMax)};  // to fit into one frame
  if (!closed_ && !goodbye_sent_) push_message(WorkerError{.error = cut});
}

void SupervisedSession::flush(std::chrono::milliseconds within) {
  Lock lock(mutex_);
  link_sleeps_ = false;
  link_->wake();
  changed_.wait_for(lock, within, [this] { return link_sleeps_ || closed_; });
}

bool SupervisedSession::should_stop() const {
  if (!stopping_.load(std::memory_order_relaxed)) return false;
  told_to_stop_.store(true, std::memory_order_relaxed);
  return true;
}

// ---- calls

void SupervisedSession::push_answer(ServedCalls::Answer answer) {
  const std::lock_guard lock(mutex_);
  if (closed_ || goodbye_sent_) return;
  push_message(WorkerAnswered{.rank = info().rank,
                              .request = answer.request,
                              .result = std::move(answer.result),
                              .error = answer.error.substr(0, kCallErrorBytesMax),
                              .kind = answer.error.empty() ? "" : std::string(answer.kind)});
}

std::size_t SupervisedSession::poll(std::chrono::milliseconds wait) {
  using Clock = std::chrono::steady_clock;
  if (const std::size_t count = calls_.run(); count > 0) return count;
  const InPhase waiting(Phase::Wait, "a call", std::chrono::hours(24 * 365));
  constexpr std::chrono::milliseconds kWaitMax = std::chrono::hours(24 * 365);
  const Clock::time_point until = Clock::now() + std::min(wait, kWaitMax);
  Lock lock(mutex_);
  while (true) {
    if (calls_.waiting()) {
      lock.unlock();
      if (const std::size_t count = calls_.run(); count > 0) return count;
      lock.lock();
    }
    if (info().trains())
      check_usable();
    else if (closed_)
      throw Failure("unavailable", *closed_);
    if (info().trains() && gate_.closed()) wait_at_gate(lock, {});
    if (calls_.waiting()) continue;
    if (Clock::now() >= until) return 0;
    changed_.wait_until(lock, until);
  }
}

// ---- ingest workers

IngestRoster SupervisedSession::ingest_roster() const {
  const std::lock_guard lock(mutex_);
  return roster_;
}

void SupervisedSession::ingest_up(const std::string& flight) {
  if (info().ingest.name.empty()) return WorkerSession::ingest_up(flight);
  const std::lock_guard lock(mutex_);
  if (closed_) throw Failure("unavailable", *closed_);
  push_message(IngestUp{.name = info().ingest.name,
                        .dataset = info().ingest.dataset,
                        .socket = info().ingest.socket,
                        .flight = flight});
}

void SupervisedSession::ingest_busy(const IngestFigures& figures) {
  if (info().ingest.name.empty()) return WorkerSession::ingest_busy(figures);
  const std::lock_guard lock(mutex_);
  if (closed_) throw Failure("unavailable", *closed_);
  push_message(IngestLoad{.name = info().ingest.name,
                          .dataset = info().ingest.dataset,
                          .rows = figures.rows,
                          .bytes = figures.bytes,
                          .cpu_us = figures.cpu_us});
}

void SupervisedSession::finish() { (void)end(/*stays=*/false); }

bool SupervisedSession::finish_and_stay() {
  if (!info().keeps_workers) {
    finish();
    return false;
  }
  if (end(/*stays=*/true)) {
    // This object stays: threads may still call it. What it holds of the program does not.
    stager_->stop();
    link_->hand_on_wakes();
    on_stop({});
    return true;
  }
  return false;
}

/// Say goodbye, unless that was said. Return whether the supervisor has taken this goodbye.
bool SupervisedSession::end(bool stays) {
  set_base_phase(Phase::Stop);
  calls_.close("it has left its loop");
  stager_->drain();
  profiler_->end();
  Lock lock(mutex_);
  if (goodbye_sent_) return false;
  goodbye_sent_ = true;
  if (!closed_) {
    push_message(WorkerGoodbye{.told_to_stop = told_to_stop_, .stays = stays});
    changed_.wait_for(lock, kHandOverWithin, [this] { return goodbye_acked_ || closed_; });
  }
  if (!goodbye_acked_) {
    std::fprintf(stderr,
                 "trainrun: rank %d ended before its supervisor had taken all reports: %s\n",
                 info().rank_of_all, closed_ ? closed_->c_str() : "no answer within 30 s");
  }
  if (!closed_) closed_ = "this worker has said goodbye: the loop is over";
  changed_.notify_all();
  const bool taken = goodbye_acked_;
  lock.unlock();
  link_->stop();
  return taken;
}

/// Throw in a worker of a role beside the one that trains.
void SupervisedSession::check_trains() const {
  if (!info().trains())
    throw Failure("invalid_argument",
                  fmt::format("workers of role '{}' run beside those that train: only the job's "
                              "first role reports, makes checkpoints and takes part in "
                              "collectives",
                              info().role_name));
}

/// Throw when nothing can be handed over any more. The caller holds the mutex.
void SupervisedSession::check_usable() const {
  if (gate_.finished()) throw Stopped(gate_.reason());
  if (closed_) throw Failure("unavailable", *closed_);
  check_trains();
  if (!info().ingest.name.empty())
    throw Failure("unavailable",
                  fmt::format("this process is an ingest worker ({}): it has no rank, and only "
                              "serves its dataset, from train::run()",
                              info().ingest.name));
}

/// Send `frame` after all reports that are queued now, without delay. The caller holds the mutex.
void SupervisedSession::push(Frame frame) {
  outgoing_.push_back({.frame = std::move(frame), .after = queue_.last_report_seq()});
  link_->wake();
}

// ---- the link's thread

void SupervisedSession::fill(std::string& out) {
  std::optional<ReportQueue::Batch> batch;
  std::vector<Frame> frames;
  {
    const std::lock_guard lock(mutex_);
    link_sleeps_ = false;
    const bool goodbye_next =
        !outgoing_.empty() && outgoing_.front().frame.type == MessageType::WorkerGoodbye;
    if (!outgoing_.empty() && outgoing_.front().after <= queue_.taken_seq() &&
        !(goodbye_next && unsent_result_)) {
      frames.push_back(std::move(outgoing_.front().frame));
      outgoing_.pop_front();
    } else if (batch = queue_.take(); !batch && unsent_result_) {
      frames.push_back(
          encode(WorkerResult{.rank = info().rank, .json = std::move(*unsent_result_)}, attempt_));
      unsent_result_.reset();
    }
    link_sleeps_ = !batch && frames.empty();
    if (link_sleeps_) changed_.notify_all();  // flush() waits for this
  }
  for (const Frame& frame : frames) append_frame(frame, out);
  if (!batch) return;
  ReportBatch message{.rank = info().rank,
                      .first_report_seq = batch->first_report_seq,
                      .count = batch->count,
                      .data = std::move(batch->data)};
  append_frame(encode(message, attempt_), out);
  const std::lock_guard lock(mutex_);
  queue_.recycle(std::move(message.data));
}

Result<Unit> SupervisedSession::on_pause(const PauseWorkers& message) {
  const auto step = parse_pause_step(message.step);
  if (!step)
    return Error{Errc::Protocol,
                 fmt::format("PauseWorkers with the unknown step '{}'", message.step)};
  bool anew = false;
  switch (*step) {
    case PauseStep::Pause:
      anew = gate_.pause(message.at_checkpoint);
      break;
    case PauseStep::Advance:
      anew = gate_.advance(message.report_seq, message.at_checkpoint);
      break;
    case PauseStep::Checkpoint:
      anew = gate_.checkpoint(message.report_seq, message.at_checkpoint);
      break;
    case PauseStep::Finish:
      gate_.finish(message.reason.empty() ? "the run is being stopped" : message.reason);
      break;
  }
  if (anew) {
    announced_.reset();
    arrived_at_.reset();
    stop_checkpoint_made_ = false;
  }
  stopping_ = gate_.stopping();
  stop_is_ordered();
  return Unit{};
}

void SupervisedSession::on_once_reply(OnceReply message) {
  const auto call = once_.find(message.name);
  if (call == once_.end() || call->second.state != OnceCall::State::Asked) return;
  call->second.reply = std::move(message);
  call->second.state = OnceCall::State::Answered;
}

/// Once the run is being stopped, a rank may leave its loop any time, and ranks that a function
/// needs would be missing. Every rank hears of calls and of the stop in the same order.
void SupervisedSession::on_call(CallWorkers message) {
  if (stopping_)
    push_answer({.request = message.request, .error = "the run is being stopped"});
  else
    calls_.add({message.request, std::move(message.name), std::move(message.argument)});
}

void SupervisedSession::on_take_memory_profile(const TakeMemoryProfile& message) {
  if (goodbye_sent_) return;
  std::string refused = profiler_->begin(message);
  if (!refused.empty())
    push_message(
        AllocationStacks{.request = message.request, .last = true, .error = std::move(refused)});
}

void SupervisedSession::abandon_in_fork_child() {
  abandon_watch_in_fork_child();
  link_->abandon_in_fork_child();
}

// Handle a frame. The visit has no default: a message without a handler does not compile.
Result<Unit> SupervisedSession::on_frame(const Frame& frame) {
  TRY(auto message, decode_any<SupervisorMessage>(frame));
  // Without the lock: what this wakes may call us.
  if (std::holds_alternative<StopIngest>(message)) ingest_stop_.request_stop();
  if (auto* call = std::get_if<CallWorkers>(&message)) on_call(std::move(*call));
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
  Result<Unit> taken = Unit{};
  std::visit(Overloaded{
                 [&](const std::monostate&) {
                   taken = Error{Errc::Protocol,
                                 fmt::format("the supervisor sent a {} frame, which is not for "
                                             "workers",
                                             to_string(frame.type))};
                 },
                 [&](const AckReports& m) {
                   for (const ReportAck& ack : m.acks) {
                     if (ack.rank != info().rank) continue;
                     queue_.acknowledge(ack.report_seq);
                     acknowledged_ = std::max(acknowledged_, ack.report_seq);
                   }
                 },
                 [&](CheckpointOutcome& m) { on_outcome(std::move(m)); },
                 [&](CollectiveResult& m) {
                   const auto call = collectives_.find(m.sequence);  // none if its caller gave up
                   if (call != collectives_.end()) call->second = std::move(m);
                 },
                 [&](ReportedCheckpoints& m) {
                   const auto ask = asks_.find(m.request);  // none if its caller gave up
                   if (ask != asks_.end()) ask->second = std::move(m);
                 },
                 [&](OnceReply& m) { on_once_reply(std::move(m)); },
                 [&](const PauseWorkers& m) { taken = on_pause(m); },
                 [&](const RequestCheckpoint& m) { taken = on_request_checkpoint(m); },
                 [&](const TakeMemoryProfile& m) { on_take_memory_profile(m); },
                 [&](TellIngestRoster& m) {
                   if (m.version > roster_.version) roster_ = std::move(m);
                 },
                 [&](const StopIngest&) {},   // handled above
                 [&](const CallWorkers&) {},  // likewise
                 [&](const GoodbyeAck&) { goodbye_acked_ = true; },
             },
             message);
  return taken;
}

}  // namespace train::sdk
