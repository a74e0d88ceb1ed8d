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
    return Unit{};
  }

  /// Sample until the end. Return false if a thread did not stop: then this one must end, so that
  /// the kernel detaches that thread, and another one must go on.
  bool run() {
    ask_for_prompt_turns();
    bool alive = true;
    while (alive && now() < began_ + order_.time) {
      if (now() >= list_at_) {
        alive = processes_.update();
        list_at_ = now() + kListEvery;
      }
      const bool all_stopped = sample_all();
      next_ = std::max(next_ + period_, now());
      if (!all_stopped) return false;
      std::this_thread::sleep_until(std::min(next_, began_ + order_.time));
    }
    finish();
    return true;
  }

 private:
  struct Known {  // of a thread, between samples
    std::uint64_t run_ns = 0;
    std::uint64_t unsampled_ns = 0;
    TimePoint seen_at{};
    bool never_stops = false;
  };

  bool sample_all() {
    for (auto& [pid, process] : processes_.all()) {
      for (auto& [tid, thread] : process.threads) {
        if (!sample(process, tid, thread)) return false;
      }
    }
    std::erase_if(known_, [this](const auto& entry) {
      return now() - entry.second.seen_at > 10 * kListEvery;  // it has ended
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
    const Duration waited = is_new ? period_ : now() - known.seen_at;
    known.run_ns = *run_ns;
    known.seen_at = now();
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
      if (!is_new && ran_ns == 0 && ProfiledProcesses::repeat(process, thread, samples))
        return true;
    }
    return samples == 0 || known.never_stops || copy(process, tid, known, samples);
  }

  bool copy(ProfiledProcesses::Process& process, pid_t tid, Known& known, std::uint32_t samples) {
    ThreadCapture capture;
    capture.facts = {.tid = tid, .state = thread_state(process.pid, tid)};
    const char state = capture.facts.state;
    if (state == '?' || state == 'Z' || state == 'X') return true;
    bool stopped = true;
    if (state == 'D') {
      capture.facts = thread_facts(process.pid, tid);
    } else if (const auto copied = process.reader.copy(capture, kStopWait, kStackBytes); !copied) {
      if (copied.error().code == Errc::NotFound) return true;
      if (copied.error().code == Errc::Permission) why_not_ = copied.error().message;
      known.never_stops = true;
      stopped = copied.error().code != Errc::Unavailable;
    } else {
      longest_stop_ = std::max(longest_stop_, capture.facts.stopped_for);
      ++stops_;
    }
    if (order_.kind == ProfileKind::Wall || !capture.registers.empty())
      processes_.add(process, std::move(capture), samples);
    return stopped;
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
               "some threads could not be stopped (a debugger, or kernel.yama.ptrace_scope): " +
                   why_not_);
    to_->finish(std::move(facts));
  }

  const SamplingOrder order_;
  const Duration period_;
  const std::shared_ptr<Sampling> to_;
  ProfiledProcesses processes_;
  std::map<pid_t, Known> known_;  // by thread
  TimePoint began_{}, next_{}, list_at_{};
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
