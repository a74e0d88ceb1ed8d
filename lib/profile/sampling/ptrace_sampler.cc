#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "lib/base/thread.h"
#include "lib/profile/profile_builder.h"
#include "lib/profile/sampling/samplers.h"
#include "lib/stacks/proc_files.h"
#include "lib/stacks/stopped_thread.h"

namespace train {
namespace {

constexpr std::size_t kStackBytes = 64u << 10;
constexpr Duration kStopWait = milliseconds{20};
constexpr std::uint32_t kSamplesMax = 50;  // that one stop stands for, if we come late
constexpr int kLateStopsMax = 5;           // one after another: then a thread is left alone

TimePoint now() { return std::chrono::steady_clock::now(); }

class PtraceSampler {
 public:
  PtraceSampler(const SamplingOrder& order, std::shared_ptr<Sampling> to)
      : order_(order),
        period_(order.kind == ProfileKind::Cpu ? kPtraceCpuPeriod : kPtraceWallPeriod),
        to_(std::move(to)),
        processes_(order.processes, to_->queue, kStackBytes) {}

  Result<Unit> begin() {
    if (!processes_.update()) return Error{Errc::NotFound, "the worker has ended"};
    began_ = next_ = now();
    until_ = began_ + order_.time;
    return Unit{};
  }

  /// Sample until the end. Return false if a thread did not stop: then this one must end, so that
  /// the kernel detaches that thread, and another one must go on.
  bool run() {
    ask_for_prompt_turns();
    bool alive = true;
    while (alive) {
      std::this_thread::sleep_until(std::min(next_, until_));
      const TimePoint round_began = now();
      if (round_began >= until_) break;
      if (round_began >= list_at_) {
        alive = processes_.update();
        list_at_ = now() + kListEvery;
      }
      const bool all_stopped = sample_all();
      // A round over very many threads takes long, and our priority may be the highest of all.
      const TimePoint rested = now() + (now() - round_began);
      next_ = std::max(next_ + period_, rested);
      if (!all_stopped) return false;
    }
    finish();
    return true;
  }

 private:
  struct Known {  // of a thread, between samples
    std::uint64_t run_ns = 0;
    std::uint64_t unsampled_ns = 0;
    TimePoint looked_at{};      // even if it was not sampled then
    TimePoint counted_until{};  // by samples
    int late_stops = 0;         // since the last one that came in time
    std::string waits_at{};     // waiting_place(), if its newest sample is from there
    bool never_stops = false;
  };

  bool sample_all() {
    const TimePoint round_began = now();
    for (auto& [pid, process] : processes_.all()) {
      for (auto& [tid, thread] : process.threads) {
        if (now() >= until_) return true;
        if (!sample(process, tid, thread)) return false;
      }
    }
    std::erase_if(known_, [round_began](const auto& entry) {
      return entry.second.looked_at < round_began;  // it has ended
    });
    return true;
  }

  /// Return false if the thread did not stop.
  bool sample(ProfiledProcesses::Process& process, pid_t tid,
              const ProfiledProcesses::Thread& thread) {
    const auto run_ns = ProfiledProcesses::run_ns(process.pid, tid);
    if (!run_ns) return true;  // it has ended
    const auto [entry, is_new] = known_.try_emplace(tid);
    Known& known = entry->second;
    const std::uint64_t before = is_new ? *run_ns : known.run_ns;
    const std::uint64_t ran_ns = *run_ns - std::min(before, *run_ns);
    known.run_ns = *run_ns;
    known.looked_at = now();
    if (is_new) known.counted_until = known.looked_at - period_;
    const Duration waited = known.looked_at - known.counted_until;
    std::uint32_t samples = 0;
    if (order_.kind == ProfileKind::Cpu) {
      const auto period_ns = static_cast<std::uint64_t>(period_.count());
      known.unsampled_ns += ran_ns;
      samples = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(known.unsampled_ns / period_ns, kSamplesMax));
      known.unsampled_ns -= std::min(known.unsampled_ns, samples * period_ns);
    } else {
      samples = static_cast<std::uint32_t>(
          std::clamp<std::int64_t>((waited + period_ / 2) / period_, 1, kSamplesMax));
      const bool is_the_same =
          !is_new && (ran_ns == 0 || known.never_stops || still_waits(process.pid, tid, known));
      if (is_the_same && ProfiledProcesses::repeat(process, thread, samples)) samples = 0;
    }
    if (samples > 0 && !copy(process, tid, known, samples)) {
      known.unsampled_ns += samples * static_cast<std::uint64_t>(period_.count());
      return false;  // its next sample stands for this time, too
    }
    known.counted_until = known.looked_at;
    return true;
  }

  /// Return whether a thread has only run because we stopped it.
  static bool still_waits(pid_t pid, pid_t tid, const Known& known) {
    return !known.waits_at.empty() && waiting_place(pid, tid) == known.waits_at;
  }

  /// Take a sample. Return false, and take none, if the thread did not stop.
  bool copy(ProfiledProcesses::Process& process, pid_t tid, Known& known, std::uint32_t samples) {
    ThreadCapture capture;
    capture.facts = {.tid = tid, .state = thread_state(process.pid, tid)};
    const char state = capture.facts.state;
    if (state == '?' || state == 'Z' || state == 'X') return true;
    known.waits_at = order_.kind == ProfileKind::Wall ? waiting_place(process.pid, tid) : "";
    if (state == 'D' || known.never_stops) {
      capture.facts = thread_facts(process.pid, tid);
    } else if (const auto copied = process.reader.copy(capture, kStopWait, kStackBytes); !copied) {
      if (copied.error().code == Errc::NotFound) return true;
      const bool late = copied.error().code == Errc::Unavailable;
      known.never_stops = !late || ++known.late_stops == kLateStopsMax;
      if (known.never_stops) why_not_ = copied.error().message;
      if (late) return false;
    } else {
      longest_stop_ = std::max(longest_stop_, capture.facts.stopped_for);
      ++stops_;
      known.late_stops = 0;
      if (!known.waits_at.ends_with(fmt::format(" {:#x} {:#x}", capture.sp, capture.pc)))
        known.waits_at.clear();  // it moved before it stopped
    }
    processes_.add(process, std::move(capture), samples);
    return true;
  }

  void finish() {
    processes_.update();
    processes_.flush();
    ProfileFacts facts{.engine = "ptrace",
                       .lasted = now() - began_,
                       .period = period_,
                       .cpu_time = processes_.cpu_time(),
                       .lost = processes_.lost()};
    if (stops_ > 0)
      add_note(facts,
               fmt::format("threads were stopped {} times, for at most {:.1f} ms", stops_,
                           std::chrono::duration<double, std::milli>(longest_stop_).count()));
    if (!why_not_.empty())
      add_note(facts,
               "some threads could not be stopped (a debugger, kernel.yama.ptrace_scope, or no "
               "free CPU): " +
                   why_not_);
    if (order_.kind == ProfileKind::Cpu) note_unsampled_time(facts, processes_.samples(), true);
    to_->finish(std::move(facts));
  }

  const SamplingOrder order_;
  const Duration period_;
  const std::shared_ptr<Sampling> to_;
  ProfiledProcesses processes_;
  std::map<pid_t, Known> known_;  // by thread
  TimePoint began_{}, until_{}, next_{}, list_at_{};
  std::uint64_t stops_ = 0;
  Duration longest_stop_{0};
  std::string why_not_;
};

void run_until_the_end(const std::shared_ptr<PtraceSampler>& sampler);

Result<Unit> start(const std::shared_ptr<PtraceSampler>& sampler) {
  return start_unjoined_thread("profile", [sampler] { run_until_the_end(sampler); });
}

void run_until_the_end(const std::shared_ptr<PtraceSampler>& sampler) {
  // Without another thread, this one goes on: the thread that did not stop waits for its end.
  while (!sampler->run() && !start(sampler)) {
  }
}

}  // namespace

Result<Unit> begin_ptrace_sampling(const SamplingOrder& order,
                                   const std::shared_ptr<Sampling>& to) {
  const auto sampler = std::make_shared<PtraceSampler>(order, to);
  TRY_VOID(sampler->begin());
  return start(sampler);
}

}  // namespace train
